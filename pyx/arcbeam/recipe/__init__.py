"""Builds decoding graphs: kaldifst composes topology (T), lexicon (L) and language model (G) into one graph (TLG).

The extra ``build`` installs what this room needs; decoding a saved graph needs none of it. May import:
core, files, lm.
"""
