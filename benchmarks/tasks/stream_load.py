"""Many streams of speech through a Batcher: paced as people speak, or as fast as it goes.

Times are those of each chunk: *queue* from its submission to the begin of its round, *compute* of its round, *total*
until its future is done, which is noted on the thread that decodes. Nothing else runs meanwhile: streams and chunks of
a paced load are made before it, no text is made, and results are read after it.
"""

import itertools
import queue
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

import arcbeam
from benchmarks.harness import seeds

Utterances = Sequence[Any]  # arrays, or what is cut and counted like them


@dataclass
class Load:
    """What was measured.

    Attributes
    ----------
    queue, compute, total, late : list of float
        Seconds of each chunk. `late`: from when it was to be submitted until it was.
    model : list of float
        Seconds of the acoustic model's batch that each chunk was in, where there is a model.
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
    model: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    rounds: list[tuple[float, float, int]] = field(default_factory=list)
    finals: list[tuple[int, Any]] = field(default_factory=list)
    frames: int = 0
    seconds: float = 0.0

    @property
    def busy(self) -> float:
        """The share of the time in which something is decoded."""
        return sum(end - begin for begin, end, _ in self.rounds) / self.seconds

    @property
    def chunks_a_round(self) -> float:
        return sum(count for *_, count in self.rounds) / max(1, len(self.rounds))


class Turn(NamedTuple):
    """A chunk that is to be submitted: by which speaker, on which stream, and what it is of."""

    speaker: int
    stream: Any
    utterance: int
    rows: Any
    last: bool


class Said(NamedTuple):
    """A chunk whose future is done, and when it was submitted and done."""

    turn: Turn
    submitted: float
    done: float
    future: Any


def turns(begin: Callable[[], Any], utterances: Utterances, frames: int, speaker: int) -> Iterator[Turn]:
    """What a speaker says, chunk by chunk: one utterance after another, from a place of the set of his own."""
    for said in itertools.count():
        utterance, stream = (7 * speaker + said) % len(utterances), begin()
        rows = utterances[utterance]
        for at in range(0, max(1, len(rows)), frames):
            yield Turn(speaker, stream, utterance, rows[at : at + frames], at + frames >= len(rows))


class Submitted:
    """Submits chunks; those whose futures are done come out of `done`, in that order."""

    def __init__(self, submit: Callable[..., Any]) -> None:
        self._submit = submit
        self.done: queue.SimpleQueue[Said] = queue.SimpleQueue()

    def submit(self, turn: Turn) -> None:
        submitted = time.perf_counter()
        future = self._submit(turn.stream, turn.rows, last=turn.last)
        future.add_done_callback(lambda future: self.done.put(Said(turn, submitted, time.perf_counter(), future)))


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


def take(load: Load, said: Said, since: float) -> None:
    """Notes the times of a chunk that was submitted since then, and the result of an utterance that has ended."""
    partial = said.future.result()
    if said.turn.last:
        load.finals.append((said.turn.utterance, partial))
    if said.submitted < since:
        return
    begin, end = partial.round
    model = getattr(partial, "model_seconds", 0.0)
    if model:
        load.model.append(model)
    load.queue.append(begin - said.submitted - model)
    load.compute.append(end - begin)
    load.total.append(said.done - said.submitted)
    load.frames += len(said.turn.rows)


def paced(
    decoder: Any,
    submit: Callable[..., Any],
    utterances: Utterances,
    *,
    streams: int,
    frames: int,
    interval_s: float,
    seconds: float,
    warm_up_s: float,
    seed: int,
) -> Load:
    """Each stream has a chunk every `interval_s`, at a random time within the interval."""
    load, submitted = Load(), Submitted(submit)
    draw = random.Random(seeds.used("times of chunks", seed))
    phases = sorted((interval_s * draw.random(), speaker) for speaker in range(streams))
    rounds = max(1, round((warm_up_s + seconds) / interval_s))
    each = [turns(decoder.stream, utterances, frames, speaker) for speaker in range(streams)]
    plan = [(turn * interval_s + phase, next(each[speaker])) for turn in range(rounds) for phase, speaker in phases]
    with timed(decoder) as decoded:
        start = time.perf_counter()
        since = start + warm_up_s
        for at, turn in plan:
            due = start + at
            time.sleep(max(0.0, due - time.perf_counter()))
            if due >= since:
                load.late.append(time.perf_counter() - due)
            submitted.submit(turn)
        finished = [submitted.done.get() for _ in plan]
    load.seconds = finished[-1].done - since
    for said in finished:
        take(load, said, since)
    load.rounds = [one for one in decoded if one[0] >= since]
    return load


def full(
    decoder: Any,
    submit: Callable[..., Any],
    utterances: Utterances,
    *,
    streams: int,
    frames: int,
    seconds: float,
) -> Load:
    """Each stream has its next chunk as soon as the one before is done."""
    load, submitted = Load(), Submitted(submit)
    each = [turns(decoder.stream, utterances, frames, speaker) for speaker in range(streams)]
    with timed(decoder) as load.rounds:
        start = time.perf_counter()
        for turn in map(next, each):
            submitted.submit(turn)
        running, finished = streams, []
        while running:
            said = submitted.done.get()
            finished.append(said)
            if said.done - start < seconds:
                submitted.submit(next(each[said.turn.speaker]))
            else:
                running -= 1
    load.seconds = finished[-1].done - start
    for said in finished:
        take(load, said, start)
    return load


def apart(decoder: arcbeam.CtcDecoder, utterances: Utterances, *, streams: int, frames: int, seconds: float) -> Load:
    """The same without a Batcher: a thread for each stream, which calls the decoder itself and waits for its turn."""
    load, lock, start = Load(), threading.Lock(), time.perf_counter()

    def client(speaker: int) -> None:
        for turn in turns(decoder.stream, utterances, frames, speaker):
            submitted = time.perf_counter()
            partial = turn.stream.decode_chunk(turn.rows, last=turn.last)
            now = time.perf_counter()
            with lock:
                load.total.append(now - submitted)
                load.frames += len(turn.rows)
                if turn.last:
                    load.finals.append((turn.utterance, partial))
            if now - start >= seconds:
                return

    threads = [threading.Thread(target=client, args=(speaker,)) for speaker in range(streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    load.seconds = time.perf_counter() - start
    return load


def check(load: Load, decoder: arcbeam.CtcDecoder, utterances: Utterances) -> int:
    """AssertionError if the final result of a stream is not that of the whole utterance; how many there are."""
    chosen = sorted({utterance for utterance, _ in load.finals})
    wholes = dict(zip(chosen, decoder.decode([utterances[i] for i in chosen]), strict=True))
    for utterance, final in load.finals:
        whole = wholes[utterance]
        if final.arcs.tobytes() != whole.arcs.tobytes() or final.score != whole.score:
            raise AssertionError(f"utterance {utterance}: a stream is not what the whole utterance gives")
    return len(load.finals)


def ms(seconds: Sequence[float], name: str) -> dict[str, object]:
    """Mean, median and 99th percentile in milliseconds, for a row; nothing where there was no chunk."""
    values = 1e3 * np.asarray(seconds)
    if not len(values):
        return {}
    median, p99 = np.percentile(values, [50, 99])
    return {f"{name}_ms": float(values.mean()), f"{name}_median": float(median), f"{name}_p99": float(p99)}
