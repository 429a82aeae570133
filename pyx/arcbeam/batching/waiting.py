"""The chunks that wait to be decoded: which are next, and which can no longer be.

A round takes one chunk, or a piece of a long one, of each of the streams that have been ready longest.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Container, Generator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from arcbeam.arrays.intake import KeptChunk
from arcbeam.core.errors import BatcherClosedError, BatcherFullError, InputError
from arcbeam.streams._any_stream import hold, is_held

CANCELLED = "a chunk before it was cancelled, and was not decoded to its end"


class ChunkFuture(Future[Any]):
    """The result of a chunk, for threads and, as it can be awaited, for asyncio."""

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.wrap_future(self).__await__()


@dataclass(eq=False, slots=True)
class Chunk:
    """A chunk that waits."""

    stream: Any
    kept: KeptChunk
    last: bool  # whether it is the last of its stream
    future: ChunkFuture = field(default_factory=ChunkFuture)  # given to the submitter
    since: float = field(default_factory=time.monotonic)  # when it was submitted, in seconds of `time.monotonic`
    taken: int = 0  # frames of it that rounds have taken
    sentences: list[Any] = field(default_factory=list)  # that ended in these frames, with auto_reset
    is_dropped: bool = False  # the Batcher was closed before all of it was taken


class Piece(NamedTuple):
    """What a round takes of a chunk: most often all of it."""

    chunk: Chunk
    begin: int  # frame
    end: int

    @property
    def is_last(self) -> bool:
        """Whether the chunk ends with it."""
        return self.end == self.chunk.kept.frames

    @property
    def array(self) -> Any:
        """The values of its frames."""
        kept = self.chunk.kept
        return kept.array[self.begin : self.end] if kept.is_long else kept.array


class Round(NamedTuple):
    """What is taken at a time."""

    pieces: list[Piece]  # to be decoded; after the last piece of its chunk a future cannot be cancelled
    cancelled: list[Chunk]  # chunks whose futures were cancelled
    dropped: list[Chunk]  # later chunks of the same streams


class Load(NamedTuple):
    """What waits now."""

    chunks: int
    frames: int  # that no round has taken
    streams: int
    oldest_s: float  # seconds for which the oldest chunk has waited; 0 without any


def cannot_continue(why: str) -> InputError:
    """The error of a chunk after one that was not decoded."""
    return InputError("stream", f"it cannot go on, because {why}; decoder.stream() begins another stream")


def begins(future: Future[Any]) -> bool:
    """Begins the work of a future; False if it has been cancelled, or settled elsewhere."""
    try:
        return future.set_running_or_notify_cancel()
    except RuntimeError:
        return False


class WaitingChunks:
    """Chunks by stream, put by any thread, taken by one. It settles no future: callbacks may do anything."""

    def __init__(
        self, max_batch: int, max_wait_s: float, max_waiting: int, max_waiting_per_stream: int, max_frames: int
    ) -> None:
        self.max_batch, self.max_wait_s, self.max_frames = max_batch, max_wait_s, max_frames
        self.max_waiting, self.max_waiting_per_stream = max_waiting, max_waiting_per_stream
        self._changed = threading.Condition()
        self._lines: dict[Any, deque[Chunk]] = {}  # of streams with a chunk that waits or is being decoded
        self._ready: deque[Any] = deque()
        self._due = math.inf  # when a round begins, however few are ready
        self._broken: WeakKeyDictionary[Any, str] = WeakKeyDictionary()  # streams that cannot continue, and why
        self._waiting = 0
        self._is_closed = False
        self.worker = 0  # threading.get_ident() of the thread that takes them: no other decodes streams that have some

    def load(self) -> Load:
        """What waits now."""
        with self._changed:
            lines = [line for line in self._lines.values() if line]
            frames = sum(chunk.kept.frames - chunk.taken for line in lines for chunk in line)
            oldest = min((line[0].since for line in lines), default=math.inf)
            return Load(self._waiting, frames, len(lines), max(0.0, time.monotonic() - oldest))

    def put(self, chunk: Chunk) -> None:
        """Adds a chunk after the others of its stream."""
        with self._changed:
            if self._is_closed:
                raise BatcherClosedError("submit: expected an open Batcher, but this one has been closed; make another")
            if chunk.stream in self._broken:
                raise cannot_continue(self._broken[chunk.stream])
            if is_held(chunk.stream, self.worker):
                raise InputError(
                    "stream",
                    "expected one without chunks that wait in another Batcher, which come before this one; submit this "
                    "one there, too, or wait for their results",
                )
            line = self._lines.get(chunk.stream)
            self._check_room(0 if line is None else len(line))
            self._waiting += 1
            if line is None:
                self._lines[chunk.stream] = deque([chunk])
                hold(chunk.stream, self.worker)
                self._make_ready(chunk.stream)
                if len(self._ready) in (1, self.max_batch):
                    self._changed.notify()
            else:
                line.append(chunk)

    def _check_room(self, of_stream: int) -> None:
        if self._waiting >= self.max_waiting:
            raise BatcherFullError(
                f"submit: expected fewer than max_waiting={self.max_waiting:,} chunks that wait, got that many: more "
                "speech arrives than is decoded; refuse new streams for a while, or decode on more threads or a GPU"
            )
        if of_stream >= self.max_waiting_per_stream:
            raise BatcherFullError(
                f"submit: expected fewer than max_waiting_per_stream={self.max_waiting_per_stream:,} chunks of this "
                "stream that wait, got that many; wait for the result of an earlier one first: future.result()"
            )

    def _make_ready(self, stream: Any) -> None:
        self._ready.append(stream)
        self._due = min(self._due, self._lines[stream][0].since + self.max_wait_s)

    def take(self) -> Round | None:
        """Waits for the next round; None once this is closed and nothing waits any more."""
        with self._changed:
            while not self._is_due():
                if self._is_closed and not self._ready:
                    return None
                self._changed.wait(None if math.isinf(self._due) else max(0.0, self._due - time.monotonic()))
            taken = Round([], [], [])
            while self._ready and len(taken.pieces) < self.max_batch:
                stream = self._ready.popleft()
                chunk = self._lines[stream][0]
                piece = self._next_piece(chunk)
                continues = not piece.is_last and not chunk.future.done()
                if not continues:
                    self._drop_first(stream)
                if continues or begins(chunk.future):
                    chunk.taken = piece.end
                    taken.pieces.append(piece)
                else:
                    taken.cancelled.append(chunk)
                    taken.dropped.extend(self._break_off(stream, CANCELLED))
            ends = (self._lines[stream][0].since for stream in self._ready)
            self._due = min(ends, default=math.inf) + self.max_wait_s
            return taken

    def _next_piece(self, chunk: Chunk) -> Piece:
        frames = chunk.kept.frames
        return Piece(chunk, chunk.taken, min(frames, chunk.taken + self.max_frames) if chunk.kept.is_long else frames)

    def _drop_first(self, stream: Any) -> None:
        self._lines[stream].popleft()
        self._waiting -= 1

    def _is_due(self) -> bool:
        if not self._ready:
            return False
        return self._is_closed or len(self._ready) >= self.max_batch or time.monotonic() >= self._due

    def _break_off(self, stream: Any, why: str) -> deque[Chunk]:
        """Marks a stream that cannot continue; its waiting chunks."""
        self._broken[stream] = why
        line = self._end_line(stream)
        self._waiting -= len(line)
        return line

    def _end_line(self, stream: Any) -> deque[Chunk]:
        """The line of a stream, which others may decode from now on."""
        hold(stream, 0)
        return self._lines.pop(stream)

    def done(self, pieces: Sequence[Piece], failed: Container[Chunk], broken: Mapping[Any, str]) -> list[Chunk]:
        """Makes the streams of a round ready again, but not `broken` ones, whose waiting chunks are returned."""
        dropped: list[Chunk] = []
        with self._changed:
            for piece in pieces:
                chunk, stream = piece.chunk, piece.chunk.stream
                if chunk in failed and not piece.is_last and not chunk.is_dropped:
                    self._drop_first(stream)
                if stream in broken:
                    dropped.extend(self._break_off(stream, broken[stream]))
                elif self._lines[stream]:
                    self._make_ready(stream)
                else:
                    self._end_line(stream)
        return dropped

    def close(self, drain: bool) -> list[Chunk]:
        """Takes no more chunks; unless those that wait are still to be decoded, they are returned."""
        dropped: list[Chunk] = []
        with self._changed:
            self._is_closed = True
            if not drain:
                for line in self._lines.values():
                    for chunk in line:
                        chunk.is_dropped = True
                    dropped.extend(line)
                    line.clear()
                for stream in self._ready:
                    self._end_line(stream)
                self._ready.clear()
                self._waiting = 0
            self._changed.notify()
        return dropped
