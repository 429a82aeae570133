"""What streams of all decoders share: the checks of a call that decodes chunks, and the results that it returns."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, SupportsIndex, TypeVar, overload

import numpy as np

from arcbeam.core.errors import Fault, InputError
from arcbeam.streams._any_stream import AnyStream, all_usable, decoder_of, is_held, true_places


class HasText(Protocol):
    """A result with a text."""

    @property
    def text(self) -> str:
        """The text."""
        ...


Result = TypeVar("Result", bound=HasText)
StreamKind = TypeVar("StreamKind", bound=AnyStream)


def places_of(count: int, index: SupportsIndex | slice) -> int | range:
    """The place, or the places, of an index into so many results; IndexError if there is none."""
    try:
        return range(count)[index]
    except IndexError:
        raise IndexError(f"partials: expected an index below {count}, the number of streams, got {index}") from None


class Partials(Sequence[Result]):
    """The results of one call of ``decode_chunks``, in the order of its streams."""

    def __init__(self, partials: Iterable[Result]) -> None:
        self._partials = list(partials)

    @overload
    def __getitem__(self, index: SupportsIndex) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> list[Result]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Result | list[Result]:
        places = places_of(len(self), index)
        return self._partials[places] if isinstance(places, int) else [self._partials[at] for at in places]

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


def check_streams(
    decoder: Any, streams: Any, kind: type[StreamKind], errors: str
) -> tuple[list[StreamKind], dict[int, Fault]]:
    """Checked streams, and the faults of others by place; TypeError, or ValueError unless `errors` is "return"."""
    if isinstance(streams, kind) or not isinstance(streams, Iterable):
        raise TypeError(f"streams: expected a list of streams, got {type(streams).__name__}")
    given = list(streams)
    faults = {} if all_usable(given, kind, decoder) else _faults_of_streams(decoder, given, kind)
    if faults and errors == "raise":
        raise faults[min(faults)]
    return given, faults


def _faults_of_streams(decoder: Any, streams: list[Any], kind: type[AnyStream]) -> dict[int, Fault]:
    """What is wrong with those that have a fault; of a stream that is there twice, the second place has it."""
    places: dict[int, int] = {}
    faults: dict[int, Fault] = {}
    for at, stream in enumerate(streams):
        if not isinstance(stream, kind):
            raise TypeError(f"streams: expected what decoder.stream() returns, got {type(stream).__name__} at {at}")
        first = places.setdefault(id(stream), at)
        if decoder_of(stream) is not decoder:
            said = "expected one of this decoder, got one of another; decoder.stream() begins one"
            faults[at] = fault_of_stream(at, streams, said)
        elif first != at:
            said = f"expected each stream once, got the same at {first} and {at}"
            faults[at] = fault_of_stream(at, streams, f"{said}; join its chunks, or call decode_chunks once for each")
        elif is_held(stream, threading.get_ident()):
            said = "expected one without chunks that wait in a Batcher, which come before this one"
            faults[at] = fault_of_stream(at, streams, f"{said}; submit this one there, too, or wait for their results")
    return faults


def fault_of_stream(at: int, streams: Sequence[Any], reason: str) -> InputError:
    """What is wrong with one of the streams of a call, which is named by its place if there are others."""
    return InputError("stream", reason, stream=None if len(streams) == 1 else at)


def check_last(last: Any, count: int) -> list[bool]:
    """Whether each of the chunks is its stream's last, None meaning that none is; TypeError or ValueError."""
    if last is None:
        return [False] * count
    if isinstance(last, (bool, np.bool_)):
        return [bool(last)] * count
    if isinstance(last, (str, bytes)) or not isinstance(last, (Sequence, np.ndarray)):
        raise TypeError(f"last: expected a bool, or one for each stream, got {type(last).__name__}")
    if len(last) != count:
        raise ValueError(f"last: expected one for each of {count} streams, got {len(last)}")
    found = list(last)
    if true_places(found) is not None:
        return found
    for at, item in enumerate(last):
        if not isinstance(item, (bool, np.bool_)):
            raise TypeError(f"last: expected bool, got {type(item).__name__} for stream {at}")
    return [bool(item) for item in last]
