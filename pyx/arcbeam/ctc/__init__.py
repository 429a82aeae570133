"""Beam search over graphs for CTC models: `CtcDecoder`, its options and results, and the border to the CPU engine.

May import: arrays, files, gpu, graph, lattices, lm.
"""
