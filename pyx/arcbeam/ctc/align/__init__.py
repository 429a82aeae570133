"""Forced alignment: texts in, and when each of their words and labels was said.

May import: arrays, core, ctc, ctc/boost, ctc/confidence, graph.
"""
