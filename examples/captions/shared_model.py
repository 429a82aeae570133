"""One acoustic model for many recordings: threads of its own take windows of all of them, those of live audio first."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any


class SharedModel:
    """An acoustic model for `arcbeam.Transcriber`, of which any number of threads may call ``encode``.

    Parameters
    ----------
    model
        As `Transcriber.model`.
    threads : int
        How many call the model: one for each core, if a call uses one core.
    batch_size : int
        The most windows, all of one length, that a call takes.
    live_seconds : float
        The longest window of live audio. As long as one of these waits, no longer one is begun.
    """

    def __init__(self, model: Any, threads: int, batch_size: int, live_seconds: float) -> None:
        self.decoder, self.sample_rate = model.decoder, model.sample_rate
        self._model, self._batch_size = model, batch_size
        self._live_samples = round(live_seconds * self.sample_rate)
        self._live: list[tuple[Any, Future[Any]]] = []
        self._long: list[tuple[Any, Future[Any]]] = []
        self._change, self._is_open = threading.Condition(), True
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def encode(self, audio: Sequence[Any], *, sample_rate: int, batch_size: int = 1) -> list[Any]:
        """The model's output for some windows, when their turn has come."""
        outputs: list[Future[Any]] = [Future() for _ in audio]
        with self._change:
            if not self._is_open:
                raise RuntimeError("the server is shutting down")
            for samples, output in zip(audio, outputs, strict=True):
                (self._live if len(samples) <= self._live_samples else self._long).append((samples, output))
            self._change.notify(len(outputs))
        return [output.result() for output in outputs]

    def close(self) -> None:
        """Takes no more windows, and waits until those that wait are done."""
        with self._change:
            self._is_open = False
            self._change.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while batch := self._next():
            try:
                windows = [samples for samples, _ in batch]
                found = self._model.encode(windows, sample_rate=self.sample_rate, batch_size=len(batch))
                for (_, output), rows in zip(batch, found, strict=True):
                    output.set_result(rows)
            except BaseException as error:
                for _, output in batch:
                    if not output.done():
                        output.set_exception(error)

    def _next(self) -> list[tuple[Any, Future[Any]]]:
        """The window that has waited longest, with others of its length; none when all is over."""
        with self._change:
            self._change.wait_for(lambda: self._live or self._long or not self._is_open)
            queue = self._live or self._long
            same = [at for at, one in enumerate(queue) if len(one[0]) == len(queue[0][0])][: self._batch_size]
            return [queue.pop(at) for at in reversed(same)]
