"""Checkpoints of icefall and NeMo, safetensors and named arrays: read without running anything that they contain.

May import: core, files, transducer.
"""
