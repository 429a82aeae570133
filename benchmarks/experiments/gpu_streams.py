"""Streams on one GPU: milliseconds of a round, in which every stream gets its next chunk, and riva's.

A group of endless streams, each several utterances of letters one after another; chunks of 20 frames (0.4 s) for all
streams in one array on the device. The clock stops when the texts of all partial results are Python strings; `arrays`
stops before texts are made. First rounds are not counted. The final results of some streams are compared with the
twin's for the whole, as bytes. `of real time` is the share of 0.4 s that a round takes. Bytes of a stream are those
that its states have on the device, two of them.

Rows of thousands of rounds are those of a server: a stream ends after 25 chunks (10 s), another begins in its place,
within the rounds that are timed, and every round has as many beginnings as ends. Python collects its garbage as it
does for a user. The chunks go round in a ring of 70 rounds. `99 % / half` says how even rounds are. `goal` is the half
that is aimed at on an H200, for letters; a row with a larger half falls short of it.

The kernel of a round takes as long as its slowest stream. Of 256 streams of letters one has 214 tokens a chunk, and the
one with the most 2,015 in the median round and 11,278 in one of a hundred (the twin's count, 60 rounds).

riva-asrlib-decoder gets the same chunks, all streams in one call, in 15 rounds after as many to warm up as ours have,
until its partial words are Python strings; `same words` are the streams whose text is ours after the last of these.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import adapters
from benchmarks.adapters import gpu
from benchmarks.data import datasets, graphs
from benchmarks.experiments import gpu_riva
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row

ON_GPU = True
KERNELS = ("search",)
ORDER = 206
TITLE = "Streams on one GPU"
FRAMES = 20
COUNTS = (1, 256, 1024, 4096)
WORK = (("char-3gram", "throughput", gpu.NARROW, COUNTS), ("spm512-3gram", "workload-512", gpu.WIDE, (256,)))
WARM_UP = 5  # rounds
CHECKED = 32
RIVA_ROUNDS = 15
RING = 70  # rounds whose chunks are on the device
GOALS = {1: 0.2, 256: 0.5, 1024: 1.4, 4096: 5.0}  # ms a round by streams, of the first graph
TURN = 25  # chunks of a stream, where streams end
SERVED = (1, 256)  # streams of the rows of a server
TAKES = {"rounds": "rounds that are timed (60)", "served": "rounds of a server that are timed (10000)"}


def evenness(row: Row) -> float | None:
    """How much longer the slowest hundredth of the rounds takes than half of them."""
    slowest, half = row.get("p99"), row.get("ms")
    return slowest / half if isinstance(slowest, float) and isinstance(half, float) else None


def goal(row: Row) -> float | None:
    """The milliseconds of a round that are aimed at."""
    streams = row.get("streams")
    return GOALS.get(streams) if row.get("graph") == WORK[0][0] and isinstance(streams, int) else None


COLUMNS = [
    Column("graph", "graph"),
    Column("beam / max_active", "search"),
    Column("streams", "streams", "{:,}"),
    Column("rounds", "rounds"),
    Column("ms a round: half", "ms", "{:.2f}"),
    Column("goal, ms", "goal", "{:.1f}", goal),
    Column("99 %", "p99", "{:.2f}"),
    Column("99 % / half", "evenness", "{:.2f}", evenness),
    Column("largest", "most", "{:.2f}"),
    Column("arrays, ms", "arrays_ms", "{:.2f}"),
    Column("of real time, %", "share", "{:.2f}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("bytes a stream", "bytes", "{:,.0f}"),
    Column("riva, ms a round", "peer_ms", "{:.1f}"),
    Column("riva / arcbeam", "ratio", "{:.1f}"),
    Column("same words, %", "equal", "{:.1f}"),
    Column("settings of riva", "peer_settings"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    rounds = int(context.options.get("rounds") or 60)
    served = int(context.options.get("served") or 10_000)
    for graph_name, set_name, options, counts in WORK:
        files = graphs.get(graph_name, context.progress)
        dataset = datasets.load(set_name)
        for streams in counts:
            what = {"graph": graph_name, "search": gpu.beam_text(options), "streams": streams}
            context.progress(f"{graph_name}, {streams} streams")
            work = (files, dataset, options, streams, min(rounds, 240_000 // streams), None)
            yield from gpu_riva.without_riva_at_last(what, one, work, (True, False))
            if (graph_name, streams) in [(WORK[0][0], count) for count in SERVED]:
                context.progress(f"{graph_name}, {streams} streams, {served} rounds")
                yield from gpu.rows_or_failure(what, one, files, dataset, options, streams, served, TURN)


def endless(utterances: Sequence[npt.NDArray[Any]], streams: int, frames: int) -> npt.NDArray[np.float32]:
    """float32[streams, frames, columns]: stream i begins with utterance i, and goes on with those after it."""
    lengths = [len(utterance) for utterance in utterances]
    joined = np.concatenate([np.asarray(utterance, np.float32) for utterance in utterances])
    firsts = np.concatenate([[0], np.cumsum(lengths)])
    begins = firsts[np.arange(streams) % len(utterances)]
    return joined[(begins[:, None] + np.arange(frames)) % len(joined)]


class Rounds:
    """The chunks of endless streams, round by round, here and on the device, in a ring.

    Attributes
    ----------
    chunks : list of gpu.DeviceArray [streams, FRAMES, columns]
    """

    def __init__(self, utterances: Sequence[npt.NDArray[Any]], streams: int, ring: int, frames: int) -> None:
        speech = endless(utterances, streams, ring * frames)
        self._here = np.ascontiguousarray(speech.reshape(streams, ring, frames, -1).transpose(1, 0, 2, 3))
        memory, one = gpu.DeviceMemory(), self._here[0]
        memory.write(self._here)
        self.chunks = [gpu.DeviceArray(memory, i * one.nbytes, one.shape, one.dtype) for i in range(ring)]

    def rows(self, place: int, first: int, end: int) -> npt.NDArray[np.float32]:
        """float32[frames, columns]: what has been said at a place from round `first` up to, and without, `end`."""
        rows: npt.NDArray[np.float32] = self._here[np.arange(first, end) % len(self._here), place]
        return rows.reshape(-1, rows.shape[-1])


def some_of(streams: int, most: int) -> list[int]:
    """Places of at most so many streams, evenly spread."""
    return [int(place) for place in np.unique(np.linspace(0, streams - 1, min(most, streams)).astype(int))]


class Speakers:
    """Streams that speak in turn at some places: each for so many rounds, or without an end, and begun with `options`.

    Attributes
    ----------
    streams : list
        Who speaks at each place.
    begins : list of int
        The round with which each has begun.
    """

    def __init__(self, decoder: Any, places: int, turn: int | None, **options: Any) -> None:
        self._decoder, self._turn, self._options = decoder, turn, options
        self.streams, self.begins = [decoder.stream(**options) for _ in range(places)], [0] * places

    def last(self, number: int) -> list[bool]:
        """Whose turn ends with a round: as many as with any other."""
        if self._turn is None:
            return [False] * len(self.streams)
        return [(number + place + 1) % self._turn == 0 for place in range(len(self.streams))]

    def go_on(self, number: int, last: list[bool]) -> None:
        """Others begin where streams have ended with this round."""
        for place, ended in enumerate(last):
            if ended:
                self.streams[place], self.begins[place] = self._decoder.stream(**self._options), number + 1


def one(
    files: graphs.GraphFiles,
    dataset: datasets.Dataset,
    options: Any,
    streams: int,
    rounds: int,
    turn: int | None,
    riva: bool = False,
) -> Iterator[Row]:
    gpu.require()
    total = WARM_UP + rounds + WARM_UP  # the last without texts
    ring = min(total, RING)
    spoken = Rounds(dataset.utterances, streams, ring, FRAMES)
    chunks = spoken.chunks
    decoder = gpu.decoder(files.graph, options, frame_shift=dataset.frame_shift)
    speakers = Speakers(decoder, streams, turn)
    who = decoder.group(speakers.streams) if turn is None else speakers.streams
    with_texts, arrays = [], []
    compared: list[str] = []
    with timing.own_garbage() if turn is None else nullcontext():
        for number in range(total):
            begin = time.perf_counter()
            last = speakers.last(number)
            partials = decoder.decode_chunks(who, chunks[number % ring], last=last)
            if number < WARM_UP + rounds:
                texts = partials.texts()
                if number < WARM_UP + RIVA_ROUNDS:
                    compared = texts
            speakers.go_on(number, last)
            (with_texts if number < WARM_UP + rounds else arrays).append(1e3 * (time.perf_counter() - begin))
    bytes_of_streams = decoder.memory().streams
    checked = some_of(streams, CHECKED)
    finals = [speakers.streams[i].finish() for i in checked]
    said = [spoken.rows(i, speakers.begins[i], total) for i in checked]
    gpu.check(finals, files.graph, options, said, frame_shift=dataset.frame_shift)
    counted = np.array(with_texts[WARM_UP:])
    seconds = FRAMES * dataset.frame_shift
    row: Row = {
        "graph": files.name,
        "search": gpu.beam_text(options),
        "streams": streams,
        "rounds": rounds,
        "ms": float(np.median(counted)),
        "p99": float(np.percentile(counted, 99)),
        "most": float(counted.max()),
        "arrays_ms": float(np.median(arrays)),
        "share": float(np.median(counted)) / (10 * seconds),
        "rtfx": streams * seconds / (float(np.median(counted)) / 1e3),
        "bytes": bytes_of_streams / streams,
    }
    if riva:
        row |= of_riva(files, dataset, options, chunks, compared, min(rounds, RIVA_ROUNDS))
        if "peer_ms" in row:
            row |= {"peer_rtfx": streams * seconds / (row["peer_ms"] / 1e3), "ratio": row["peer_ms"] / row["ms"]}
    yield row | {"evenness": evenness(row), "goal": goal(row)}


def of_riva(
    files: graphs.GraphFiles, dataset: datasets.Dataset, options: Any, chunks: Sequence[gpu.DeviceArray],
    texts: Sequence[str], rounds: int,
) -> Row:  # fmt: skip
    """What a row says of riva; texts are ours after so many rounds, the first ones not counted."""
    try:
        riva = adapters.make("riva_streams")(files, options, len(texts), dataset.frame_shift)
    except (ImportError, OSError) as error:
        return {"status": f"missing: {adapters.why(error)}"}
    said, took = [], []
    for chunk in chunks[: WARM_UP + rounds]:
        ready = riva.prepare(chunk)
        begin = time.perf_counter()
        said = riva.decode(ready)
        took.append(1e3 * (time.perf_counter() - begin))
    riva.decode(riva.prepare(chunks[0]), last=True)  # or its destructor finds channels that are in use
    equal = gpu_riva.same_words(texts, said)
    return {"peer_ms": float(np.median(took[WARM_UP:])), "equal": equal, "peer_settings": riva.settings}
