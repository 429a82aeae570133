"""Streams of a transducer: `TransducerStream`, its sentences and partial results, rounds of chunks, saved states.

May import: arrays, core, files, streams, transducer, transducer/beam.
"""
