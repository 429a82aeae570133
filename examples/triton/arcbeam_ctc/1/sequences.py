"""Sequences of requests as streams of a decoder: what a server of any kind has to keep between two chunks.

A sequence is known by its number. Its first request begins a stream, the last one ends it. Triton says nothing to a
model when a sequence has been idle for too long, so those are forgotten here as well.
"""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple


class Chunk(NamedTuple):
    """One request.

    sequence : its number
    start, end : whether it is the first of its sequence, and the last
    log_probs : array [frames, columns]
    """

    sequence: int
    start: bool
    end: bool
    log_probs: Any


class Sequences:
    """The streams of the sequences that have begun and have not ended.

    Parameters
    ----------
    decoder : arcbeam.CtcDecoder
    idle_s : float
        Seconds after its last chunk when a sequence is forgotten.
    clock : function
        Seconds from any beginning.
    """

    def __init__(self, decoder: Any, idle_s: float, clock: Any = time.monotonic) -> None:
        self._decoder, self._idle_s, self._clock = decoder, idle_s, clock
        self._streams: dict[int, tuple[Any, float]] = {}  # and when it was used; the longest idle one first

    def __len__(self) -> int:
        return len(self._streams)

    def decode(self, chunks: Sequence[Chunk]) -> list[Any]:
        """A result for each chunk, an `arcbeam.Partial`; or the exception that concerns it, and no other.

        Chunks are decoded together; those of one sequence are decoded one after another, in their order.
        """
        self._forget_idle()
        found: list[Any] = [None] * len(chunks)
        waiting = list(range(len(chunks)))
        while waiting:
            taken: dict[int, int] = {}
            for at in waiting:
                taken.setdefault(chunks[at].sequence, at)
            now = list(taken.values())
            waiting = [at for at in waiting if at not in set(now)]
            for at, result in zip(now, self._round([chunks[at] for at in now]), strict=True):
                found[at] = result
        return found

    def _round(self, chunks: Sequence[Chunk]) -> list[Any]:
        """The same for chunks of sequences that differ."""
        found: list[Any] = [None] * len(chunks)
        streams: dict[int, Any] = {}
        for at, chunk in enumerate(chunks):
            try:
                streams[at] = self._stream_of(chunk)
            except Exception as error:
                found[at] = error
        results = self._decoded(list(streams.values()), [chunks[at] for at in streams])
        for at, result in zip(streams, results, strict=True):
            found[at] = result
        for at, chunk in enumerate(chunks):
            self._streams.pop(chunk.sequence, None)
            if at in streams and not chunk.end:
                self._streams[chunk.sequence] = streams[at], self._clock()
        return found

    def _decoded(self, streams: list[Any], chunks: list[Chunk]) -> list[Any]:
        rows, last = [chunk.log_probs for chunk in chunks], [chunk.end for chunk in chunks]
        try:
            partials = self._decoder.decode_chunks(streams, rows, last=last, errors="return")
        except Exception as error:  # of all of them, such as a GPU that is lost
            return [error] * len(streams)
        return [partial if partial.error is None else partial.error for partial in partials]

    def _stream_of(self, chunk: Chunk) -> Any:
        if chunk.start:
            return self._decoder.stream()
        if chunk.sequence not in self._streams:
            raise ValueError(
                f"sequence {chunk.sequence}: expected its start, or a sequence that has begun, has not ended and was "
                f"not idle for {self._idle_s:g} s, got none; set sequence_start with the first request"
            )
        return self._streams[chunk.sequence][0]

    def _forget_idle(self) -> None:
        oldest = self._clock() - self._idle_s
        while self._streams:
            sequence, (_, used) = next(iter(self._streams.items()))
            if used > oldest:
                return
            del self._streams[sequence]

    def clear(self) -> None:
        """Forgets all."""
        self._streams.clear()
