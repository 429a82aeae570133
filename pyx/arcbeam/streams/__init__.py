"""What streams of speech of both decoders share: the stream, its saved bytes, endpoint rules, results of many streams.

May import: arrays, core, files.
"""
