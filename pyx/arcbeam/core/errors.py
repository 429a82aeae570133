"""The exceptions and warnings of arcbeam in addition to Python's ``ValueError``, ``TypeError`` and ``OSError``."""

from typing import Any, Self, TypeAlias

from arcbeam.core.calls import lists_options

Fault: TypeAlias = TypeError | ValueError
"""What is wrong with one utterance or chunk, and harms no other."""


class _Placed:
    """A message with a place in a call: it is made of the fields when it is shown, so that nobody edits its text."""

    args: tuple[Any, ...]
    utterance: Any
    stream: int | None = None
    frame: int | None

    @lists_options()
    def at(self, *, utterance: int | str | None = None) -> Self:
        """A copy with the name of the utterance in place of its place in the call, or with neither."""
        copy = type(self)(*self.args)
        vars(copy).update(vars(self), utterance=utterance, stream=None)
        return copy

    def _place(self, *fields: str) -> str:
        """The fields that are there, such as "utterance 3, frame 5"."""
        found = ((field, getattr(self, field)) for field in ("utterance", "frame", *fields))
        return ", ".join(f"{field} {value!r}" for field, value in found if value is not None)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class ArcbeamError(Exception):
    """Base of all of arcbeam's own exceptions."""


class _OfFile:
    """A message about what a file contains: readers name the file, which is put in front when the message is shown."""

    file: str = ""
    """What a reader puts in front of the message: its file and a colon, or nothing if the message names the file."""

    def name_file(self, name: str) -> None:
        """Names the file, unless the message already begins with it."""
        if not str(self).startswith(name):
            self.file = f"{name}: {self.file}"

    def __str__(self) -> str:
        return self.file + super().__str__()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class GraphError(_OfFile, ArcbeamError, ValueError):
    """A decoding graph breaks a rule: the message names the state or arc, what was expected and what was got.

    If the graph comes from a file, the file itself is in order; a damaged file raises :class:`FormatError`.
    """


class FormatError(_OfFile, ArcbeamError, ValueError):
    """A file or text does not follow its format: the message names the file and the line or byte.

    Every loader raises it for a file that is damaged, cut short, of another kind, or that would take more memory than
    is allowed (``SECURITY.md``). An error of the operating system stays an ``OSError``.
    """


class CapacityError(ArcbeamError, MemoryError):
    """Decoding needs more room than it may take: the message names the option that limits it."""


class InputError(_Placed, ArcbeamError, ValueError):
    """An utterance, chunk or stream cannot be decoded, which harms no other of the call.

    Attributes
    ----------
    argument : str
        ``"log_probs"``, ``"encoder_output"``, ``"stream"``, or ``"texts"`` of an alignment.
    reason : str
        What was expected and what was got, without the place.
    hint : str
        What may be the cause; empty if the reason says it.
    utterance : int or None
        The utterance's place in the batch, or the chunk's in the call, from 0; None from a Batcher.
    stream : int or None
        The place of a stream that takes no chunk; None where the call has no other, and from a Batcher.
    frame, column, feature : int or None
        The place of the value in the utterance or chunk: a column of log-probs, a feature of encoder output.
    """

    def __init__(
        self,
        argument: str,
        reason: str,
        hint: str = "",
        *,
        utterance: int | None = None,
        stream: int | None = None,
        frame: int | None = None,
        column: int | None = None,
        feature: int | None = None,
    ) -> None:
        super().__init__(argument, reason, hint)
        self.argument, self.reason, self.hint = argument, reason, hint
        self.utterance, self.stream = utterance, stream
        self.frame, self.column, self.feature = frame, column, feature

    def __str__(self) -> str:
        place = self._place("column", "feature")
        return (
            f"{self.argument}{'' if self.stream is None else f' {self.stream}'}: {self.reason}"
            f"{place and f' in {place}'}{self.hint and f': {self.hint}'}"
        )


def without_place(error: Fault) -> Fault:
    """An error without its place in a call, where that means nothing to the reader; other errors are as they are."""
    return error.at() if isinstance(error, InputError) else error


class InputWarning(_Placed, UserWarning):
    """The log-probs of some frame are unlikely to be what was intended.

    Attributes
    ----------
    utterance : int
        The utterance's place in the batch, or the chunk's in the call, from 0.
    stream : None
        What an :class:`InputError` has in addition; no warning is about a stream.
    frame : int
        The frame of the utterance or chunk.
    """

    def __init__(self, before: str, after: str = "", *, utterance: int = 0, frame: int = 0) -> None:
        super().__init__(before, after)
        self.utterance, self.frame = utterance, frame

    def __str__(self) -> str:
        before, after = self.args
        return f"{before} {self._place()}{after}"


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
