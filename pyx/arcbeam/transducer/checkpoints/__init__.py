"""Checkpoints of icefall and NeMo, and safetensors: read without running anything that they contain.

May import: core, files, transducer.
"""
