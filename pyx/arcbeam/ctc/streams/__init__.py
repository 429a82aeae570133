"""Streams of speech: `Stream`, partial results, sentences, saved states.

May import: arrays, core, ctc, ctc/boost, ctc/confidence, ctc/cpu, ctc/lattice, files, graph, lm, streams.
"""
