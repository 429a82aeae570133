"""The border to the CPU engine: `_decode` calls the C++ of ``cpu_reference/decode``.

May import: arrays, core, ctc/boost, ctc/lattice, ctc/streams, graph, lm.
"""
