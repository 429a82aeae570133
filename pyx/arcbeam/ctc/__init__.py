"""Beam search over graphs for CTC models: `CtcDecoder`, its options and results, and the border to the CPU engine.

May import: arrays, core, ctc/align, ctc/boost, ctc/confidence, ctc/cpu, ctc/lattice, ctc/streams, gpu, graph, lm.
"""
