"""Confidences of frames, words and utterances, and their calibration.

May import: arrays, core, ctc.
"""
