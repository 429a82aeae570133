"""The shortest way to a decoder: the tokens of a model and a language model in, a `CtcDecoder` out.

May import: core, ctc, files, graph, lm, recipe, tokens.
"""
