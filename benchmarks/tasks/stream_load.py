"""Many streams of speech through a Batcher: paced as people speak, or as fast as it goes; and what queues predict.

Times are those of each chunk: *queue* from its submission to the begin of its round, *compute* of its round, *total*
until somebody has read the text of its result, in another thread than the one that decodes.
"""

import itertools
import queue
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

import arcbeam


@dataclass
class Load:
    """What was measured.

    Attributes
    ----------
    queue, compute, total, late : list of float
        Seconds of each chunk. `late`: from when it was to be submitted until it was.
    rounds : list of (float, float, int)
        Begin and end of each round, and its chunks.
    finals : list of (int, Partial)
        Utterances that have ended, and their results.
    frames : int
        Of all chunks.
    seconds : float
        Of the clock, for all.
    """

    queue: list[float] = field(default_factory=list)
    compute: list[float] = field(default_factory=list)
    total: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    rounds: list[tuple[float, float, int]] = field(default_factory=list)
    finals: list[tuple[int, Any]] = field(default_factory=list)
    frames: int = 0
    seconds: float = 0.0

    @property
    def busy(self) -> float:
        """The share of the time in which something is decoded."""
        return sum(self.services) / self.seconds

    @property
    def services(self) -> list[float]:
        """The seconds of each round."""
        return [end - begin for begin, end, _ in self.rounds]

    @property
    def chunks_a_round(self) -> float:
        return sum(count for *_, count in self.rounds) / max(1, len(self.rounds))


@dataclass
class Chunk:
    """One that was submitted: by which stream, when, and what it is of."""

    speaker: int
    submitted: float
    utterance: int
    frames: int
    last: bool


class Speakers:
    """Streams that say one utterance after another, in chunks."""

    def __init__(
        self, batcher: arcbeam.Batcher, utterances: Sequence[npt.NDArray[Any]], count: int, frames: int
    ) -> None:
        self._batcher, self._utterances, self._frames = batcher, utterances, frames
        self._next = 0
        self._said: list[tuple[Any, int, int]] = [self._begin(i) for i in range(count)]  # stream, utterance, frame
        self.done: queue.SimpleQueue[tuple[Chunk, Any]] = queue.SimpleQueue()

    def _begin(self, speaker: int) -> tuple[Any, int, int]:
        """A new stream. Those that begin together begin at different places of the set."""
        self._next += 1
        return self._batcher.decoder.stream(), (self._next + 7 * speaker) % len(self._utterances), 0

    def speak(self, speaker: int) -> None:
        """Submits the next chunk of a stream; what comes of it is in `done`."""
        stream, utterance, at = self._said[speaker]
        rows = self._utterances[utterance][at : at + self._frames]
        last = at + self._frames >= len(self._utterances[utterance])
        chunk = Chunk(speaker, time.perf_counter(), utterance, len(rows), last)
        future = self._batcher.submit(stream, rows, last=last)
        self._said[speaker] = self._begin(speaker) if last else (stream, utterance, at + self._frames)
        future.add_done_callback(lambda future: self.done.put((chunk, future)))


@contextmanager
def timed(decoder: Any) -> Iterator[list[tuple[float, float, int]]]:
    """Within it, each call of `decode_chunks` is noted, and its results know its begin and end."""
    rounds: list[tuple[float, float, int]] = []
    inner = decoder.decode_chunks

    def decode_chunks(streams: Any, chunks: Any, **options: Any) -> Any:
        begin = time.perf_counter()
        partials = inner(streams, chunks, **options)
        end = time.perf_counter()
        rounds.append((begin, end, len(partials)))
        for partial in partials:
            partial.round = begin, end
        return partials

    decoder.decode_chunks = decode_chunks
    try:
        yield rounds
    finally:
        del decoder.decode_chunks


def take(load: Load, chunk: Chunk, future: Any, since: float) -> None:
    """Reads a result as a client does, and notes its times if it was submitted since then."""
    partial = future.result()
    text = partial.text
    now = time.perf_counter()
    assert isinstance(text, str)
    if chunk.last:
        load.finals.append((chunk.utterance, partial))
    if chunk.submitted < since:
        return
    begin, end = partial.round
    load.queue.append(begin - chunk.submitted)
    load.compute.append(end - begin)
    load.total.append(now - chunk.submitted)
    load.frames += chunk.frames


def paced(
    batcher: arcbeam.Batcher,
    utterances: Sequence[npt.NDArray[Any]],
    *,
    streams: int,
    frames: int,
    interval_s: float,
    seconds: float,
    warm_up_s: float,
    seed: int,
) -> Load:
    """Each stream has a chunk every `interval_s`, at a random time within the interval."""
    load, speakers = Load(), Speakers(batcher, utterances, streams, frames)
    draw = random.Random(seed)
    phases = sorted((interval_s * draw.random(), speaker) for speaker in range(streams))
    with timed(batcher.decoder) as rounds:
        start = time.perf_counter()
        since = start + warm_up_s
        turns = max(1, round((warm_up_s + seconds) / interval_s))
        wrong: list[BaseException] = []

        def read() -> None:
            try:
                for _ in range(turns * streams):
                    take(load, *speakers.done.get(), since)
            except BaseException as error:
                wrong.append(error)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        for turn in range(turns):
            for phase, speaker in phases:
                due = start + turn * interval_s + phase
                time.sleep(max(0.0, due - time.perf_counter()))
                if due >= since:
                    load.late.append(time.perf_counter() - due)
                speakers.speak(speaker)
        reader.join()
    if wrong:
        raise wrong[0]
    load.rounds = [one for one in rounds if one[0] >= since]
    load.seconds = time.perf_counter() - since
    return load


def full(
    batcher: arcbeam.Batcher, utterances: Sequence[npt.NDArray[Any]], *, streams: int, frames: int, seconds: float
) -> Load:
    """Each stream has its next chunk as soon as the text of the one before has been read."""
    load, speakers = Load(), Speakers(batcher, utterances, streams, frames)
    with timed(batcher.decoder) as load.rounds:
        start = time.perf_counter()
        for speaker in range(streams):
            speakers.speak(speaker)
        running = streams
        while running:
            chunk, future = speakers.done.get()
            take(load, chunk, future, start)
            if time.perf_counter() - start < seconds:
                speakers.speak(chunk.speaker)
            else:
                running -= 1
        load.seconds = time.perf_counter() - start
    return load


def apart(
    decoder: arcbeam.CtcDecoder, utterances: Sequence[npt.NDArray[Any]], *, streams: int, frames: int, seconds: float
) -> Load:
    """The same without a Batcher: a thread for each stream, which calls the decoder itself and waits for its turn."""
    load, lock, start = Load(), threading.Lock(), time.perf_counter()

    def client(speaker: int) -> None:
        for utterance in itertools.count(speaker):
            place = utterance % len(utterances)
            stream, rows = decoder.stream(), utterances[place]
            for at in range(0, len(rows), frames):
                submitted = time.perf_counter()
                partial = stream.decode_chunk(rows[at : at + frames], last=at + frames >= len(rows))
                assert isinstance(partial.text, str)
                now = time.perf_counter()
                with lock:
                    load.total.append(now - submitted)
                    load.frames += len(rows[at : at + frames])
                    if stream.is_finished:
                        load.finals.append((place, partial))
                if now - start >= seconds:
                    return

    threads = [threading.Thread(target=client, args=(speaker,)) for speaker in range(streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    load.seconds = time.perf_counter() - start
    return load


def wait_one_by_one(rate: float, services: Sequence[float]) -> tuple[float, float]:
    """Mean seconds in the queue of a server of one at a time, to which customers come at random, `rate` a second.

    By Pollaczek and Khinchine, rate E[s^2] / (2 (1 - rate E[s])); infinite where it cannot keep up. First if each takes
    the mean time (M/D/1), then with the times as they spread (M/G/1).
    """
    mean, square = _moments(services)
    busy = rate * mean
    if busy >= 1.0:
        return float("inf"), float("inf")
    return busy * mean / (2.0 * (1.0 - busy)), rate * square / (2.0 * (1.0 - busy))


def wait_together(busy: float, services: Sequence[float]) -> tuple[float, float]:
    """The same if all that wait are served together: whoever comes to a busy server waits for the rest of a service.

    That is E[s^2] / (2 E[s]) on average: half a service if all take the same time.
    """
    mean, square = _moments(services)
    return min(1.0, busy) * mean / 2.0, min(1.0, busy) * square / (2.0 * mean)


def _moments(services: Sequence[float]) -> tuple[float, float]:
    values = np.asarray(services)
    return float(values.mean()), float((values**2).mean())


def check(load: Load, decoder: arcbeam.CtcDecoder, utterances: Sequence[npt.NDArray[Any]]) -> int:
    """AssertionError if the final result of a stream is not that of the whole utterance; how many there are."""
    chosen = sorted({utterance for utterance, _ in load.finals})
    wholes = dict(zip(chosen, decoder.decode([utterances[i] for i in chosen]), strict=True))
    for utterance, final in load.finals:
        whole = wholes[utterance]
        if final.arcs.tobytes() != whole.arcs.tobytes() or final.score != whole.score:
            raise AssertionError(f"utterance {utterance}: a stream is not what the whole utterance gives")
    return len(load.finals)


def ms(seconds: Sequence[float], name: str) -> dict[str, object]:
    """Mean and 99th percentile in milliseconds, for a row."""
    values = 1e3 * np.asarray(seconds)
    return {f"{name}_ms": float(values.mean()), f"{name}_p99": float(np.percentile(values, 99))} if len(values) else {}
