"""What streams of speech of both decoders share: endpoint rules and partial results of many streams.

May import: core.
"""
