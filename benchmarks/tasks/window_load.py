"""Streams whose samples arrive in windows: an acoustic model makes log-probs of all that wait, a Batcher decodes them.

A window has the samples of its chunk and, on both sides, those of `CONTEXT_S`, zeros beyond the recording; the frames
of the chunk alone are decoded. Features are normalised within their window. So words are worse than those of whole
recordings, for which this model was made; what it takes is the same.
"""

import queue
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import arcbeam
from benchmarks.data.acoustic import AcousticModel

CONTEXT_S = 0.1  # on either side: windows of 600 ms every 400 ms, as in the paper
RATE = 16_000


@dataclass(frozen=True)
class Window:
    """The samples of a chunk and its context, and how many frames of it the recording has."""

    samples: npt.NDArray[np.float32]
    frames: int

    def __len__(self) -> int:
        return self.frames


class Recording:
    """Samples that are cut as log-probs are: a slice of frames is a `Window`."""

    def __init__(self, samples: npt.NDArray[np.float32], shift: float, frames: int) -> None:
        hop, context = round(RATE * shift), round(RATE * CONTEXT_S)
        self._hop, self._size = hop, frames * hop + 2 * context
        self._frames = max(1, len(samples) // hop)
        self._samples = np.pad(samples, (context, self._size))

    def __len__(self) -> int:
        return self._frames

    def __getitem__(self, at: slice) -> Window:
        begin, end, _ = at.indices(self._frames)
        first = begin * self._hop
        return Window(self._samples[first : first + self._size], end - begin)


class Waiting(NamedTuple):
    stream: Any
    window: Window
    last: bool
    future: "Future[Any]"


class WindowServer:
    """One thread that takes all windows that wait as a batch of the model, and submits their frames to a Batcher.

    heard : the log-probs of each stream, chunk by chunk, and the results at its end, for `check`
    """

    def __init__(self, batcher: arcbeam.Batcher, model: AcousticModel, shift: float, most: int) -> None:
        self._batcher, self._model, self._most = batcher, model, most
        self._context = round(CONTEXT_S / shift)
        self._waiting: queue.SimpleQueue[Waiting | None] = queue.SimpleQueue()
        self.heard: dict[Any, list[npt.NDArray[np.float32]]] = {}
        self.ended: list[tuple[Any, Future[Any]]] = []
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def submit(self, stream: Any, window: Window, *, last: bool = False) -> "Future[Any]":
        """As `Batcher.submit`, with samples."""
        waits = Waiting(stream, window, last, Future())
        self._waiting.put(waits)
        return waits.future

    def close(self) -> None:
        self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (first := self._waiting.get()) is not None:
            taken, closed = [first], False
            while len(taken) < self._most and not closed:
                try:
                    one = self._waiting.get_nowait()
                except queue.Empty:
                    break
                if one is None:
                    closed = True
                else:
                    taken.append(one)
            try:
                self._serve(taken)
            except BaseException as error:
                for waits in taken:
                    if not waits.future.done():
                        waits.future.set_exception(error)
            if closed:
                return

    def _serve(self, taken: Sequence[Waiting]) -> None:
        begin = time.perf_counter()
        rows = log_probs(self._model, [waits.window.samples for waits in taken])
        seconds = time.perf_counter() - begin
        for waits, row in zip(taken, rows, strict=True):
            said = row[self._context : self._context + len(waits.window)]
            self.heard.setdefault(waits.stream, []).append(said)
            inner = self._batcher.submit(waits.stream, said, last=waits.last)
            if waits.last:
                self.ended.append((waits.stream, inner))
            inner.add_done_callback(lambda done, waits=waits: _settle(waits.future, done, seconds))  # type: ignore[misc]


def _settle(future: "Future[Any]", inner: "Future[Any]", seconds: float) -> None:
    if (error := inner.exception()) is not None:
        future.set_exception(error)
        return
    partial = inner.result()
    partial.model_seconds = seconds
    future.set_result(partial)


def log_probs(model: AcousticModel, samples: Sequence[npt.NDArray[np.float32]]) -> list[npt.NDArray[np.float32]]:
    """Those of windows of one size, on the host, by batches that the model takes."""
    found: list[npt.NDArray[np.float32]] = []
    for at in range(0, len(samples), model.batch):
        values, frames = model.log_probs(model.features(model.load(samples[at : at + model.batch])))
        made = np.asarray(values.cpu() if hasattr(values, "cpu") else values, np.float32)
        found += [row[:n] for row, n in zip(made, frames, strict=True)]
    return found


def check(server: WindowServer, decoder: arcbeam.CtcDecoder) -> int:
    """AssertionError if a stream's result is not that of all its log-probs; how many there are."""
    wholes = decoder.decode([np.concatenate(server.heard[stream]) for stream, _ in server.ended])
    for at, ((_, future), whole) in enumerate(zip(server.ended, wholes, strict=True)):
        final = future.result()
        if final.arcs.tobytes() != whole.arcs.tobytes() or final.score != whole.score:
            raise AssertionError(f"stream {at} that has ended: it is not what all its log-probs give")
    return len(wholes)
