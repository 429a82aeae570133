"""Language models: `LanguageModel`, n-grams as an automaton, and `KenLM`, a file of that toolkit; ARPA files.

May import: core, files.
"""
