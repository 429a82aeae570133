"""Transcripts compared with references: word error rates, and the page that shows them.

May import: core, files.
"""
