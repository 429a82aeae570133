"""Decoders of other libraries under their own names and with their own defaults; each is a room of its own.

Here is what several of them need. May import: core.
"""
