"""Decoders from models of other libraries, which know their own tokens, blank, lengths and seconds a frame.

May import: core, ctc, files, front, tokens, transducer.
"""

from arcbeam.adapters.nemo_attach import Attachment as Attachment
from arcbeam.adapters.nemo_attach import attach as attach

__all__ = ["Attachment", "attach"]
