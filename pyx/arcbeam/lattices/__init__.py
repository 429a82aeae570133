"""Lattices in other forms: Kaldi's compact lattices and their archives, OpenFst, pictures.

What a search finds is `arcbeam.ctc.lattice.Lattice`. May import: files, graph.
"""
