"""Kernels of the search as the host sees them: their parameters, kinds, lanes, graphs and launches.

May import: core, ctc/boost, ctc/gpu/models, ctc/lattice, ctc/streams, gpu, gpu/tuned, graph, lm.
"""
