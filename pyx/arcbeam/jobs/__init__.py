"""Jobs over many utterances: a part of them, those that fail, and how a job that was killed goes on.

May import: core, files.
"""
