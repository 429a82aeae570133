"""Building decoding graphs: topology (T), lexicon (L) and language model (G) to one graph (TLG), with kaldifst.

``pip install arcbeam[build]`` installs what this room needs; decoding a saved graph needs none of it. May import:
files, lm.
"""
