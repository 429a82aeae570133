"""Streams that begin the next sentence by themselves after an endpoint: `Batcher(auto_reset=True)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from arcbeam.ctc.streams.partial import Partial
    from arcbeam.transducer.streams.partial import TransducerPartial

    AnyPartial: TypeAlias = Partial | TransducerPartial


@dataclass(frozen=True)
class ChunkSentences:
    """What a chunk has led to, in a Batcher with ``auto_reset``.

    Attributes
    ----------
    sentences : tuple of Partial or TransducerPartial
        The final results of the sentences that have ended within the chunk, in their order: at an endpoint, whose rule
        is its ``endpoint``, or with the last chunk.
    partial : Partial or TransducerPartial
        The result of the unfinished sentence. After the last chunk there is none, and it is the last of `sentences`.
    """

    sentences: tuple[AnyPartial, ...]
    partial: AnyPartial


def follow(stream: Any, partial: AnyPartial) -> list[AnyPartial]:
    """The sentences that have ended with a result of a stream, which continues; what `reset` raises is passed on."""
    ended = []
    while partial.endpoint is not None and not stream.is_finished:
        ended.append(partial)
        partial = stream.reset()
    return [*ended, partial] if partial.is_final else ended
