"""Decoding graphs: made from arcs or an OpenFst file, written, read, their tables of words and labels, and word times.

Graphs are built from a lexicon and a language model in `arcbeam.recipe`. May import: core, files.
"""
