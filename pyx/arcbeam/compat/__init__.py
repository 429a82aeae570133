"""Decoders of other libraries under their own names and with their own defaults; each is a module of its own.

May import: nothing; its modules say what they may.
"""
