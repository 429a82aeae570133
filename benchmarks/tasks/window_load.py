"""Streams whose samples arrive in windows: an acoustic model works on all that wait, a Batcher decodes their frames.

A window has the samples of its chunk and, on both sides, those of `CONTEXT_S`, zeros beyond the recording. The model
does all its work on the window, and its log-probs come to the host; but the frames that are decoded are those of the
same model for the whole recording. A model that was not made for windows is unsure of what it hears in them: of a
recording in windows of 600 ms QuartzNet's best label had a probability of 0.88 in the mean, of the whole 0.98, and the
search took more than a hundred times as long, which says nothing of how streams are served.
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
    """The samples of a chunk and its context, and the log-probs of its frames."""

    samples: npt.NDArray[np.float32]
    rows: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.rows)


class Recording:
    """Samples, and the log-probs of the whole, that are cut together: a slice of frames is a `Window`."""

    def __init__(
        self, samples: npt.NDArray[np.float32], rows: npt.NDArray[np.float32], shift: float, frames: int
    ) -> None:
        context = round(RATE * CONTEXT_S)
        self._hop, self._size = round(RATE * shift), frames * round(RATE * shift) + 2 * context
        self._samples, self._rows = np.pad(samples, (context, self._size)), rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, at: slice) -> Window:
        first = at.indices(len(self))[0] * self._hop
        samples = self._samples[first : first + self._size]
        missing = self._size - len(samples)  # of log-probs that last longer than the samples
        return Window(np.pad(samples, (0, missing)) if missing else samples, self._rows[at])


class Waiting(NamedTuple):
    stream: Any
    window: Window
    last: bool
    future: "Future[Any]"


class WindowServer:
    """One thread that takes all windows that wait as a batch of the model, and submits their frames to a Batcher."""

    def __init__(self, batcher: arcbeam.Batcher, model: AcousticModel, most: int) -> None:
        self._batcher, self._model, self._most = batcher, model, most
        self._waiting: queue.SimpleQueue[Waiting | None] = queue.SimpleQueue()
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
        log_probs(self._model, [waits.window.samples for waits in taken])
        seconds = time.perf_counter() - begin
        for waits in taken:
            inner = self._batcher.submit(waits.stream, waits.window.rows, last=waits.last)
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
