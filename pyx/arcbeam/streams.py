"""What streams of all decoders share: the checks of a call that decodes chunks, and the list that it returns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np


class HasText(Protocol):
    """A result with a text."""

    @property
    def text(self) -> str:
        """The text."""
        ...


Result = TypeVar("Result", bound=HasText)
StreamKind = TypeVar("StreamKind")


class Partials(list[Result]):
    """The results of one call of ``decode_chunks``, in the order of its streams."""

    def __init__(self, partials: Iterable[Result]) -> None:
        super().__init__(partials)

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
    checked: list[StreamKind] = []
    places: dict[int, int] = {}
    for at, stream in enumerate(streams):
        if not isinstance(stream, kind):
            raise TypeError(f"streams: expected what decoder.stream() returns, got {type(stream).__name__} at {at}")
        if stream._decoder is not decoder:  # type: ignore[attr-defined]
            raise ValueError(f"streams: stream {at} belongs to another decoder")
        if id(stream) in places:
            raise ValueError(
                f"streams: expected each stream once, got the same at {places[id(stream)]} and {at}; "
                "join its chunks, or call decode_chunks once for each"
            )
        places[id(stream)] = at
        checked.append(stream)
    return checked


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
    for at, item in enumerate(last):
        if not isinstance(item, (bool, np.bool_)):
            raise TypeError(f"last: expected bool, got {type(item).__name__} for stream {at}")
    return [bool(item) for item in last]
