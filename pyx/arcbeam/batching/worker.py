"""The thread of a Batcher: it takes a round, decodes it, and settles its futures, until there is nothing to come."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, InvalidStateError
from typing import Any, NamedTuple, Protocol

from arcbeam.batching.sentences import ChunkSentences, follow
from arcbeam.batching.stats import Meters
from arcbeam.batching.waiting import CANCELLED, Chunk, Piece, Round, WaitingChunks, begins, cannot_continue
from arcbeam.core._interrupts import interrupt
from arcbeam.core.errors import BatcherClosedError, without_place
from arcbeam.streams.stream import fault_of, warns_of_waiting


class ChunkDecoder(Protocol):
    """A decoder of chunks: `CtcDecoder` or `TransducerDecoder`."""

    def decode_chunks(self, streams: Any, chunks: Any, /, *, last: Any, errors: str) -> Sequence[Any]:
        """Decodes the next chunk of each of some streams."""
        ...


class Outcome(NamedTuple):
    """What became of a piece of a chunk."""

    result: Any
    error: BaseException | None = None
    broke: bool = False  # whether it is unknown how far its stream has got


_running: dict[threading.Thread, tuple[int, WaitingChunks]] = {}
"""The threads that have not ended, with their process."""


def start(decoder: ChunkDecoder, waiting: WaitingChunks, meters: Meters, auto_reset: bool) -> threading.Thread:
    """Starts the thread, which does not refer to the Batcher. With `auto_reset` results are `ChunkSentences`."""
    work = (decoder, waiting, meters, auto_reset)
    thread = threading.Thread(target=_work, args=work, name="arcbeam-batcher", daemon=True)
    thread.start()
    waiting.worker = thread.ident or 0
    _running[thread] = os.getpid(), waiting
    return thread


@atexit.register
def _end_all() -> None:
    """At exit: drops what waits and waits for rounds, because C++ must not outlive the interpreter in daemons."""
    for thread, (process, waiting) in list(_running.items()):
        if process == os.getpid():
            drop_waiting(waiting)
            thread.join()


def drop_waiting(waiting: WaitingChunks) -> int:
    """Closes without decoding what waits, whose number it returns."""
    dropped = waiting.close(drain=False)
    _refuse(dropped, BatcherClosedError("the Batcher was closed before this chunk was decoded"))
    return len(dropped)


def stop(thread: threading.Thread) -> None:
    """Ends the round that the thread is decoding, as Ctrl-C ends a call; the caller has dropped what waits."""
    interrupt(thread.ident or 0, _closed_while_decoded)


def _closed_while_decoded() -> BatcherClosedError:
    return BatcherClosedError("the Batcher was closed while this chunk was being decoded")


def _work(decoder: ChunkDecoder, waiting: WaitingChunks, meters: Meters, auto_reset: bool) -> None:
    try:
        while _round(decoder, waiting, meters, auto_reset):
            pass
    finally:
        interrupt(threading.get_ident(), None)  # the next thread may have its number
        meters.count(failed=drop_waiting(waiting))
        _running.pop(threading.current_thread(), None)


def _round(decoder: ChunkDecoder, waiting: WaitingChunks, meters: Meters, auto_reset: bool) -> bool:
    """One round; False if there are no more. What it refers to goes when it returns, not when the next one begins."""
    taken = waiting.take()
    if taken is None:
        return False
    if taken.cancelled:
        _settle_cancelled(taken, meters)
    pieces = taken.pieces
    if not pieces:
        return True
    # A sentence that ends in an earlier piece of a last chunk is followed by reset() after the whole chunk.
    warns_of_waiting.set(not auto_reset and not any(piece.begin for piece in pieces))
    with meters.a_round([piece.chunk.since for piece in pieces if piece.begin == 0], len(pieces)):
        outcomes = _decoded(decoder, pieces)
        if auto_reset:
            outcomes = [_followed(piece, one) for piece, one in zip(pieces, outcomes, strict=True)]
    of_pieces = list(zip(pieces, outcomes, strict=True))
    lost = {piece.chunk.stream: str(one.error) for piece, one in of_pieces if one.broke}
    broken = {stream: f"a chunk before it was lost ({error})" for stream, error in lost.items()}
    failed = {piece.chunk for piece, one in of_pieces if one.error is not None}
    dropped = waiting.done(pieces, failed, broken)
    ended = [(piece, one) for piece, one in of_pieces if (piece.is_last or one.error) and not piece.chunk.is_dropped]
    meters.count(
        decoded=sum(one.error is None for _, one in ended),
        frames=sum(piece.end - piece.begin for piece, one in of_pieces if one.error is None),
        refused=sum(one.error is not None and not one.broke for _, one in ended),
        failed=sum(one.broke for _, one in ended) + len(dropped),
    )
    for piece, one in ended:
        _settle(piece.chunk.future, one.result, one.error)
    for chunk in dropped:
        _refuse([chunk], cannot_continue(broken[chunk.stream]))
    return True


def _followed(piece: Piece, found: Outcome) -> Outcome:
    """The outcome after the endpoints of a piece; that of the last piece has the sentences of its whole chunk."""
    if found.error is not None:
        return found
    chunk = piece.chunk
    try:
        chunk.sentences += follow(chunk.stream, found.result)
    except BaseException as error:
        return Outcome(None, error, broke=True)
    return Outcome(ChunkSentences(tuple(chunk.sentences), chunk.stream.partial))


def _decoded(decoder: ChunkDecoder, pieces: Sequence[Piece]) -> list[Outcome]:
    """What became of the pieces of a round; arrays of different places or widths are decoded by calls of their own."""
    kinds: dict[tuple[bool, int], list[int]] = {}
    outcomes: dict[int, Outcome] = {}
    for at, piece in enumerate(pieces):
        kept = piece.chunk.kept
        if kept.fault is not None:
            outcomes[at] = Outcome(None, without_place(kept.fault))
        else:
            kinds.setdefault((kept.on_host, kept.columns), []).append(at)
    for places in kinds.values():
        outcomes |= zip(places, _of_one_kind(decoder, [pieces[at] for at in places]), strict=True)
    return [outcomes[at] for at in range(len(pieces))]


def _of_one_kind(decoder: ChunkDecoder, pieces: Sequence[Piece]) -> list[Outcome]:
    chunks = [piece.chunk for piece in pieces]
    streams, before = [chunk.stream for chunk in chunks], [_place(chunk) for chunk in chunks]
    arrays, last = [piece.array for piece in pieces], [piece.chunk.last and piece.is_last for piece in pieces]
    try:
        partials = decoder.decode_chunks(streams, arrays, last=last, errors="return")
    except BaseException as error:
        failed = Outcome(None, error, broke=True)
        if not isinstance(error, MemoryError) or len(chunks) == 1:
            return [failed] * len(chunks)
        # There was too little room for all of them: those that have not begun may fit one by one.
        return [
            _of_one_kind(decoder, [piece])[0] if _place(piece.chunk) == place else failed
            for piece, place in zip(pieces, before, strict=True)
        ]
    # A result that its stream has got is one without an error. Reading the error of a Partial reads its whole path.
    errors = [
        None if partial is stream.partial else partial.error for stream, partial in zip(streams, partials, strict=True)
    ]
    return [
        # The place in a round means nothing to the submitter. Where frames of a chunk have been taken before, its
        # stream is in the middle of it.
        Outcome(partial) if error is None else Outcome(None, without_place(error), broke=piece.begin > 0)
        for piece, partial, error in zip(pieces, partials, errors, strict=True)
    ]


def _place(chunk: Chunk) -> tuple[int, str | None]:
    """The position of a chunk's stream, and why it takes no more; as before if the stream was left as it was."""
    # An empty chunk leaves it so, unless it was the last; decoded again, it gives the same result.
    stream = chunk.stream
    return stream.num_frames + stream.num_waiting, fault_of(stream)


def _settle_cancelled(taken: Round, meters: Meters) -> None:
    meters.count(cancelled=len(taken.cancelled) + len(taken.dropped))
    for chunk in taken.dropped:
        _refuse([chunk], cannot_continue(CANCELLED))


def _refuse(chunks: Iterable[Chunk], error: Exception) -> None:
    """Settles futures whose work has not begun."""
    for chunk in chunks:
        if begins(chunk.future):
            _settle(chunk.future, None, error)


def _settle(future: Future[Any], result: Any, error: BaseException | None) -> None:
    """Gives a future what became of it. Functions that its owner has added run now; what they raise is shown."""
    try:
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
    except InvalidStateError:  # its owner has settled it
        pass
    except BaseException:  # exceptions have been shown by the future
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
