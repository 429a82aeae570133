"""The exceptions that arcbeam raises in addition to Python's own ``ValueError``, ``TypeError`` and ``OSError``."""

from typing import TypeAlias

Fault: TypeAlias = TypeError | ValueError
"""What is wrong with one utterance or chunk, and harms no other."""


class ArcbeamError(Exception):
    """Base of all of arcbeam's own exceptions."""


class GraphError(ArcbeamError, ValueError):
    """A decoding graph breaks a rule: the message names the state or arc, what was expected and what was got.

    If the graph comes from a file, the file itself is in order; a damaged file raises :class:`FormatError`.
    """


class FormatError(ArcbeamError, ValueError):
    """A file or text does not follow its format: the message names the file and the line or byte.

    Every loader raises it for a file that is damaged, cut short, of another kind, or that would take more memory than
    is allowed (``SECURITY.md``). An error of the operating system stays an ``OSError``.
    """


class CapacityError(ArcbeamError, MemoryError):
    """Decoding needs more room than it may take: the message names the option that limits it."""


class BatcherFullError(ArcbeamError, RuntimeError):
    """A Batcher has as many waiting chunks as it may: the message says which limit was reached, and what to do."""


class BatcherClosedError(ArcbeamError, RuntimeError):
    """A Batcher that is closed, or of another process, was given a chunk; or it was closed while the chunk waited."""


class MissingDependencyError(ArcbeamError, ImportError):
    """An optional package is needed: the message says what for and how to install it."""


class UnsupportedError(ArcbeamError, NotImplementedError):
    """The requested feature is not supported yet: the message says what is."""


class CudaError(ArcbeamError, RuntimeError):
    """A call of the CUDA driver failed.

    Attributes
    ----------
    name, code
        The driver's name and number of the error, such as ``"CUDA_ERROR_ILLEGAL_ADDRESS"`` and 700.
    action : str
        What arcbeam was doing.
    """

    def __init__(self, message: str = "", *, name: str = "", code: int = 0, action: str = "") -> None:
        super().__init__(message)
        self.name = name
        self.code = code
        self.action = action


class CudaOutOfMemoryError(CudaError, MemoryError):
    """The GPU has too little free memory: the message says how much was needed. The decoder can still be used."""
