"""Decoders from models of other libraries, which know their own tokens, blank, lengths and seconds a frame; and Ray's.

May import: core, ctc, files, front, graph, jobs, tokens, transducer.
"""

from arcbeam.adapters.nemo_attach import Attachment as Attachment
from arcbeam.adapters.nemo_attach import attach as attach
from arcbeam.adapters.ray import RayDecoder as RayDecoder

__all__ = ["Attachment", "RayDecoder", "attach"]
