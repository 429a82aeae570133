"""Dynamic batching: chunks of many streams, submitted by many threads, are decoded in rounds by one."""

from __future__ import annotations

import os
import threading
import time
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any

from arcbeam.batching import worker
from arcbeam.batching.stats import BatcherStats, Collector, Meters
from arcbeam.batching.waiting import Chunk, ChunkFuture, WaitingChunks
from arcbeam.core.calls import lists_options
from arcbeam.core.checks import check_bool, check_count, check_real
from arcbeam.core.errors import BatcherClosedError, InputError
from arcbeam.core.fixed import Fixed
from arcbeam.core.show import shown_as
from arcbeam.streams._any_stream import decoder_of
from arcbeam.streams.partials import check_last
from arcbeam.streams.stream import HasStreams, chunk_decoder_of

if TYPE_CHECKING:
    from typing import TypeAlias

    from arcbeam.ctc.decoder import CtcDecoder
    from arcbeam.ctc.streams.stream import Stream
    from arcbeam.transducer.decoder import TransducerDecoder
    from arcbeam.transducer.streams.stream import TransducerStream

    AnyStream: TypeAlias = Stream | TransducerStream


CHUNK_HINT = "is an array [frames, columns], or None to end a stream without more frames"
LAST_WAIT_S = 1.0  # for the end of a round that is being interrupted


class Batcher(Fixed):
    """Decodes the chunks of many streams together, as they come, for any number of threads or asyncio tasks.

    One thread takes rounds: the next chunk of each of the streams that have been ready longest, at most `max_batch` of
    them. A stream is ready if it has a chunk that waits and none that is being decoded; so its chunks are decoded one
    after another, in the order of their submission, and a stream with many waiting chunks is not ahead of others. While
    a round is decoded the next one gathers. No result depends on the other streams of its round.

    A client that is slow, gone or too fast delays no other: rounds are made of the chunks that wait, and take at most
    `max_frames` of a chunk. A chunk that is refused (NaN, or after the last of its stream) has its error in its own
    future; its stream continues without it, as with :meth:`CtcDecoder.decode_chunks`.

    Parameters
    ----------
    decoder : CtcDecoder or TransducerDecoder
    max_batch : int
        The most chunks of a round.
    max_wait_ms : float
        Milliseconds for which a chunk waits for others, as long as fewer than `max_batch` streams are
        ready; 0 to begin a round as soon as the one before has ended.
    max_waiting : int
        The most chunks of all streams that may wait; more are rejected.
    max_waiting_per_stream : int
        The most chunks of each stream that may wait.
    max_frames : int
        The most frames of a chunk that a round takes. A chunk of more is decoded in pieces, between which other streams
        have their turn. Its result has the same bytes. If it is on a GPU, `submit` copies it to the host's memory,
        after the round that is being decoded.
    auto_reset : bool
        Whether a stream begins the next sentence by itself after an endpoint, with the frames that wait there: as if
        :meth:`Stream.reset` were called. The result of a chunk is then a :class:`ChunkSentences`.

    Raises
    ------
    TypeError, ValueError
        An option out of its range, or something that is not a decoder.
    UnsupportedError
        The decoder is a `TransducerDecoder` with `merge_context`.

    Notes
    -----
    The thread ends with :meth:`close`, at the end of a ``with`` block, or once nothing refers to the Batcher any more
    and what waits has been decoded. When the interpreter ends, a round that has begun is finished, and what waits is
    dropped. A forked child has no such thread: make a Batcher there. Streams of a Batcher may also be decoded by calls
    of the decoder, or of another Batcher, as long as none of their chunks waits; before, these raise a ValueError.
    """

    @lists_options()
    def __init__(
        self,
        decoder: CtcDecoder | TransducerDecoder,
        *,
        max_batch: int = 256,
        max_wait_ms: float = 2.0,
        max_waiting: int = 4096,
        max_waiting_per_stream: int = 64,
        max_frames: int = 500,
        auto_reset: bool = False,
    ) -> None:
        if not isinstance(decoder, HasStreams):
            got = type(decoder).__name__
            raise TypeError(f"decoder: expected an arcbeam.CtcDecoder or TransducerDecoder, got {got}")
        for name, value in (
            ("max_batch", max_batch), ("max_waiting", max_waiting), ("max_waiting_per_stream", max_waiting_per_stream),
            ("max_frames", max_frames),
        ):  # fmt: skip
            check_count(name, value, or_none="")
        check_bool("auto_reset", auto_reset)
        check_real("max_wait_ms", max_wait_ms, "of milliseconds of at least 0", above=0.0, inclusive=True)
        self._decoder, self._chunks = decoder, chunk_decoder_of(decoder, "Batcher")
        self._process = os.getpid()
        self._meters = Meters(int(max_batch))
        self._waiting = WaitingChunks(
            int(max_batch), max_wait_ms / 1e3, int(max_waiting), int(max_waiting_per_stream), int(max_frames)
        )
        self._auto_reset = bool(auto_reset)
        self._thread = worker.start(decoder, self._waiting, self._meters, self._auto_reset)
        weakref.finalize(self, self._waiting.close, drain=True).atexit = False

    @property
    def decoder(self) -> CtcDecoder | TransducerDecoder:
        """The decoder, whose ``stream()`` begins streams."""
        return self._decoder

    @lists_options(chunk=CHUNK_HINT)
    def submit(self, stream: AnyStream, chunk: Any, *, last: bool = False, cuda_stream: Any = None) -> ChunkFuture:
        """Submits the next chunk of a stream, and returns at once. Any thread may call this.

        The future's ``result()`` is what ``decode_chunks`` returns for the chunk, a :class:`Partial` or a
        :class:`TransducerPartial`; with `auto_reset`, a :class:`ChunkSentences`. ``cancel()`` takes back a chunk whose
        round has not begun: it is not decoded. Of a chunk of several rounds it takes back the rest, until the last of
        them has begun: a round that is being decoded is finished. As the rest of the utterance would then follow a gap,
        the stream cannot go on; its later chunks raise a ValueError.

        Parameters
        ----------
        stream : Stream or TransducerStream
            Of the Batcher's decoder.
        chunk : array [frames, columns], or None
            Log-probs, logits or encoder output, as ``decode_chunks`` takes them for this stream; None for no frames. In
            the host's memory it is copied, so that the array may be written to again. An array on a GPU must stay as it
            is until the future is done.
        last : bool
            Whether it is the stream's last chunk, so that the result is the final one. If its sentence has ended at an
            endpoint before, and without ``auto_reset``, the chunk waits for ``reset``, and a UserWarning says so.
        cuda_stream : int, or a stream of torch, CuPy or cuda.core; optional
            The stream that writes an array on a GPU. By default it is the one that its library reports.

        Returns
        -------
        concurrent.futures.Future
            It can be awaited, too. Its functions (``add_done_callback``) run on the Batcher's thread, and hold up all
            streams if they are slow.
            It raises a ValueError for a chunk with NaN, or after the last one, or if the stream cannot go on; and what
            ``decode_chunks`` raises. After such an error of a whole round, streams whose state is not known cannot go
            on; nor can one whose chunk had been decoded in part, or had an error in a `reset`.

        Raises
        ------
        TypeError, ValueError
            Not a stream of this decoder; or an array that the decoder does not take, of which the stream remains as it
            is; or the stream cannot go on.
        BatcherFullError
            Too many chunks wait. The stream can go on with this chunk later.
        BatcherClosedError
            The Batcher is closed, or this is a forked child of its process.
        """
        self._check_process()
        owner = decoder_of(stream)
        if owner is None:
            raise TypeError(f"stream: expected what decoder.stream() returns, got {type(stream).__name__}")
        if owner is not self._chunks:
            raise InputError("stream", "expected one of the Batcher's decoder, got one of another decoder")
        [is_last] = check_last(last, 1)
        waits = Chunk(stream, self._chunks.keep(chunk, cuda_stream, self._waiting.max_frames), is_last)
        try:
            self._waiting.put(waits)
        except BatcherClosedError:
            raise
        except RuntimeError:
            self._meters.count(rejected=1)
            raise
        return waits.future

    @lists_options(chunk=CHUNK_HINT)
    async def decode_chunk(self, stream: AnyStream, chunk: Any, *, last: bool = False, cuda_stream: Any = None) -> Any:
        """Submits the next chunk of a stream, as :meth:`submit` does, and awaits its result.

        If the awaiting task is cancelled, so is the chunk, unless its last round has begun: then the stream has it.

        Parameters
        ----------
        stream, chunk, last, cuda_stream
            As of :meth:`submit`.

        Returns
        -------
        Partial, TransducerPartial or ChunkSentences

        Raises
        ------
        TypeError, ValueError, BatcherFullError, BatcherClosedError
            As of :meth:`submit` and its future.
        """
        return await self.submit(stream, chunk, last=last, cuda_stream=cuda_stream)

    def stats(self) -> BatcherStats:
        """What the Batcher has done so far, and its load now."""
        self._check_process()
        return self._meters.now(self._waiting.load())

    def collector(self, prefix: str = "arcbeam_batcher") -> Collector:
        """Makes a collector of :meth:`stats` for Prometheus' client.

        Register it with ``prometheus_client.REGISTRY.register(batcher.collector())``.

        Parameters
        ----------
        prefix : str
            The beginning of the metrics' names; two Batchers of a process need different ones.

        Raises
        ------
        MissingDependencyError
            The package prometheus_client is missing.
        """
        waiting, meters = self._waiting, self._meters
        return Collector(lambda: meters.now(waiting.load()), prefix)

    @lists_options()
    def close(self, *, drain: bool = True, timeout: float | None = None) -> None:
        """Takes no more chunks, and waits for the thread's end. Closing again does no harm.

        Parameters
        ----------
        drain : bool
            Whether the chunks that wait are decoded before; otherwise their futures raise a `BatcherClosedError`, and
            the round that has begun is the last.
        timeout : float, optional
            Seconds after which what still waits is dropped, too, and the round that is being decoded is ended, as
            Ctrl-C ends a call: its futures raise a `BatcherClosedError`, and its streams cannot go on. It takes a tenth
            of a second, or a chunk of `max_frames` on a GPU. What else holds the thread, such as a function of a
            future, or a call of the decoder by another thread, is waited for no longer than a second more.
        """
        if self._process != os.getpid():
            return
        if timeout is not None:
            check_real("timeout", timeout, "of seconds of at least 0, or None", above=0.0, inclusive=True)
        end = None if timeout is None else time.monotonic() + timeout
        if drain:
            self._waiting.close(drain=True)
            self._join(timeout)
        if not drain or (timeout is not None and self._thread.is_alive()):
            self._meters.count(failed=worker.drop_waiting(self._waiting))
        self._join(None if end is None else max(0.0, end - time.monotonic()))
        if end is not None and self._thread.is_alive():
            worker.stop(self._thread)
            self._join(LAST_WAIT_S)

    def _join(self, timeout: float | None) -> None:
        """Waits for the thread's end, unless this is that thread: a function of a future may close the Batcher."""
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise BatcherClosedError(
                f"Batcher: expected the process that made this one, {self._process}, got {os.getpid()}, which was "
                "forked from it and has no thread of it; make a Batcher here"
            )

    def __enter__(self) -> Batcher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(drain=error is None)

    def __reduce__(self) -> Any:
        raise TypeError("Batcher: it cannot be pickled, because its thread belongs to this process; make one in each")

    def __repr__(self) -> str:
        return shown_as(
            f"Batcher of {self._decoder!r}",
            f"max_batch={self._waiting.max_batch}",
            f"max_wait_ms={self._waiting.max_wait_s * 1e3:g}",
            f"max_frames={self._waiting.max_frames}",
            *["auto_reset=True"][: self._auto_reset],
        )
