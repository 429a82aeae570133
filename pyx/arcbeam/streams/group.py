"""Streams that are decoded together round after round, and are checked once."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any, SupportsIndex, TypeVar, overload

from arcbeam.core.errors import Fault, InputError
from arcbeam.streams._any_stream import AnyStream, are_held
from arcbeam.streams.partials import check_streams

Kind = TypeVar("Kind", bound=AnyStream)


class StreamGroup(Sequence[Kind]):
    """Streams of one decoder that get their chunks in the same call, round after round; ``decoder.group()`` makes one.

    ``decode_chunks(group, chunks)`` returns what ``decode_chunks(list(group), chunks)`` returns, in the order of the
    group, without checking in every round what the streams are. The group has no state of its own: its streams may also
    be decoded alone, reset, saved and finished, and may belong to other groups. It keeps them alive.
    """

    def __init__(self, decoder: Any, streams: Any) -> None:
        self._decoder, self._streams = decoder, check_streams(decoder, streams, decoder.kind, "raise")[0]

    @overload
    def __getitem__(self, index: SupportsIndex) -> Kind: ...
    @overload
    def __getitem__(self, index: slice) -> list[Kind]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Kind | list[Kind]:
        return self._streams[index]

    def __len__(self) -> int:
        return len(self._streams)

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._streams)

    def __reduce__(self) -> Any:
        raise TypeError(
            "StreamGroup: expected the bytes of stream.save() of each stream; a group is neither pickled nor copied"
        )

    def __repr__(self) -> str:
        return f"StreamGroup({len(self)} streams)"


def members_of(group: StreamGroup[Any], decoder: Any, errors: str) -> tuple[list[Any], dict[int, Fault]]:
    """The streams of a group for a call of a decoder, and the faults of some by place, as `check_streams` has them."""
    if decoder is not group._decoder:
        raise InputError("stream", "expected a group of this decoder, got one of another; decoder.group() makes one")
    if are_held(group._streams, threading.get_ident()):
        return check_streams(decoder, group._streams, decoder.kind, errors)
    return group._streams, {}
