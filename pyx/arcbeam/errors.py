"""The exceptions arcbeam raises beside Python's own ``ValueError``, ``TypeError`` and ``OSError``."""


class ArcbeamError(Exception):
    """Base of all of arcbeam's own exceptions."""


class GraphError(ArcbeamError, ValueError):
    """A decoding graph breaks a rule: the message names the state or arc, what was expected and what was got.

    Of a file it says that the file is in order, but the graph in it is not; damage is a :class:`FormatError`.
    """


class FormatError(ArcbeamError, ValueError):
    """A file or text does not follow its format: the message names the file and the line or byte.

    Every loader raises it for a file that is damaged, cut short, of another kind, or that asks for more than it may
    (``SECURITY.md``). What the system says of a file stays an ``OSError``.
    """


class CapacityError(ArcbeamError, MemoryError):
    """Decoding needs more room than it may take: the message names the option that forbids it."""


class MissingDependencyError(ArcbeamError, ImportError):
    """An optional package is needed: the message says what for and how to install it."""


class UnsupportedError(ArcbeamError, NotImplementedError):
    """What was asked for is not there yet: the message says what is."""


class CudaError(ArcbeamError, RuntimeError):
    """A call of the CUDA driver failed.

    Attributes
    ----------
    name, code
        The driver's name and number of the error, as ``"CUDA_ERROR_ILLEGAL_ADDRESS"`` and 700.
    action : str
        What arcbeam was doing.
    """

    def __init__(self, message: str = "", *, name: str = "", code: int = 0, action: str = "") -> None:
        super().__init__(message)
        self.name = name
        self.code = code
        self.action = action


class CudaOutOfMemoryError(CudaError, MemoryError):
    """The GPU has too little free memory: the message says how much was asked for. The decoder can still be used."""
