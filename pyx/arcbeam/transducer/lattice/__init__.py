"""Lattices of transducers: what a beam search has kept, in the form of the lattices of CTC.

May import: core, ctc/lattice, graph, transducer.
"""
