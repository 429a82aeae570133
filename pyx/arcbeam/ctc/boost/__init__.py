"""Boosting of words and phrases: `Boost`, its phrases, spellings and calibration.

May import: core, ctc, files, graph.
"""
