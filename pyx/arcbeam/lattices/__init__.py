"""Lattices in other forms: Kaldi's compact lattices, determinised or raw, and their archives, OpenFst, pictures.

What a search finds is `arcbeam.ctc.lattice.lattice.Lattice`. May import: core, files, graph.
"""
