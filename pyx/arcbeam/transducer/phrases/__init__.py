"""Phrases of a boosting tree: their tokens, and scores that speech without them gives.

May import: core, files, transducer.
"""
