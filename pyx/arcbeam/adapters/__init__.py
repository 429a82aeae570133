"""Decoders from models of other libraries, which know their own tokens, blank, lengths and seconds a frame.

May import: core, ctc, files, front, tokens, transducer.
"""
