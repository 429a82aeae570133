"""What streams of all decoders share: the checks of a call that decodes chunks, and the results that it returns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn, Protocol, SupportsIndex, TypeVar, overload

import numpy as np

from arcbeam._any_stream import AnyStream, are_sound


class HasText(Protocol):
    """A result with a text."""

    @property
    def text(self) -> str:
        """The text."""
        ...


Result = TypeVar("Result", bound=HasText)
StreamKind = TypeVar("StreamKind", bound=AnyStream)


class Partials(Sequence[Result]):
    """The results of one call of ``decode_chunks``, in the order of its streams."""

    def __init__(self, partials: Iterable[Result]) -> None:
        self._partials = list(partials)

    @overload
    def __getitem__(self, index: SupportsIndex) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> list[Result]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Result | list[Result]:
        return self._partials[index]

    def __len__(self) -> int:
        return len(self._partials)

    def __iter__(self) -> Iterator[Result]:
        return iter(self._partials)

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, (list, Partials)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))

    def __reduce__(self) -> Any:
        return Partials, (list(self),)

    def texts(self) -> list[str]:
        """The texts of all."""
        return [partial.text for partial in self]


def check_streams(decoder: Any, streams: Any, kind: type[StreamKind]) -> list[StreamKind]:
    """The streams of a call, which are of the class `kind`.

    Raises
    ------
    TypeError
        Something is not a stream.
    ValueError
        A stream of another decoder, or one that is there twice.
    """
    if isinstance(streams, kind) or not isinstance(streams, Iterable):
        raise TypeError(f"streams: expected a list of streams, got {type(streams).__name__}")
    given = list(streams)
    return given if are_sound(given, kind, decoder) else _fault_of_streams(decoder, given, kind)


def _fault_of_streams(decoder: Any, streams: list[Any], kind: type[AnyStream]) -> NoReturn:
    """Raises what is wrong with the first of them that has a fault."""
    places: dict[int, int] = {}
    for at, stream in enumerate(streams):
        if not isinstance(stream, kind):
            raise TypeError(f"streams: expected what decoder.stream() returns, got {type(stream).__name__} at {at}")
        if stream._decoder is not decoder:
            raise ValueError(f"streams: stream {at} belongs to another decoder")
        if id(stream) in places:
            raise ValueError(
                f"streams: expected each stream once, got the same at {places[id(stream)]} and {at}; "
                "join its chunks, or call decode_chunks once for each"
            )
        places[id(stream)] = at
    raise AssertionError("the streams have no fault")


def check_last(last: Any, count: int) -> list[bool]:
    """Whether each of the chunks is its stream's last.

    Raises TypeError or ValueError if `last` is no bool, nor one for each.
    """
    if isinstance(last, (bool, np.bool_)):
        return [bool(last)] * count
    if isinstance(last, (str, bytes)) or not isinstance(last, (Sequence, np.ndarray)):
        raise TypeError(f"last: expected a bool, or one for each stream, got {type(last).__name__}")
    if len(last) != count:
        raise ValueError(f"last: expected one for each of {count} streams, got {len(last)}")
    if set(map(type, last)) <= {bool}:
        return list(last)
    for at, item in enumerate(last):
        if not isinstance(item, (bool, np.bool_)):
            raise TypeError(f"last: expected bool, got {type(item).__name__} for stream {at}")
    return [bool(item) for item in last]
