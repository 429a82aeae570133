"""The command ``arcbeam transcribe``: audio files in, transcripts and subtitles out.

May import: cli, files.
"""
