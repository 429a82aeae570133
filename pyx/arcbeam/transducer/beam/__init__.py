"""Beam search of transducers: the hypotheses that it gives, and their n-best lists.

May import: arrays, core, transducer.
"""
