"""The exceptions arcbeam raises beside Python's own ``ValueError``, ``TypeError`` and ``OSError``."""


class ArcbeamError(Exception):
    """Base of all of arcbeam's own exceptions."""


class GraphError(ArcbeamError, ValueError):
    """A decoding graph breaks a rule: the message names the state or arc, what was expected and what was got."""


class FormatError(ArcbeamError, ValueError):
    """A file or text does not follow its format: the message names the file and the line or byte."""


class CapacityError(ArcbeamError, MemoryError):
    """Decoding needs more room than it may take: the message names the option that forbids it."""


class MissingDependencyError(ArcbeamError, ImportError):
    """An optional package is needed: the message says what for and how to install it."""
