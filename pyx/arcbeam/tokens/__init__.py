"""The tokens of a model as its toolkit writes them: files, objects of tokenizers, lists.

May import: core, files, graph.
"""
