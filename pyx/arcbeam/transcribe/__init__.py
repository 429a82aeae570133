"""Audio to sentences with times: windows of long recordings, sentences at pauses, subtitles and other formats.

May import: adapters, batching, core, ctc, files, front, streams, transducer.
"""
