"""Beam search of transducers: the hypotheses that it gives, their n-best lists, and states between chunks.

May import: arrays, core, transducer.
"""
