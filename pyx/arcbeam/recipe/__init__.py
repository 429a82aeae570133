"""Builds decoding graphs: kaldifst composes topology (T), lexicon (L) and language model (G) into one graph (TLG).

Decoding a saved graph needs nothing of it, nor the extra ``build``. May import: core, files, lm.
"""
