"""What answers of streams cost on one GPU, at the end of each sentence or after every chunk.

Streams of letters that speak in turn, in chunks of 20 frames (0.4 s): a stream ends after 25 chunks (10 s) and another
begins in its place, so that every round has sentences of all ages. The clock stops when all texts are Python strings;
n-best lists and confidences are then arrays on the host. First rounds are not counted. The last results of some streams
are compared with the twin's, decoded in one piece: paths, and of every answer the words, scores and posteriors. `times`
is over the round in which nothing but the best path is requested.
"""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.adapters import gpu
from benchmarks.data import datasets, graphs
from benchmarks.experiments.gpu_streams import FRAMES, RING, TURN, WARM_UP, Rounds, Speakers, some_of
from benchmarks.harness.registry import Column, Context, Row

ON_GPU = True
KERNELS = ("search", "search_lattice")
ORDER = 206
TITLE = "Answers of streams on one GPU"
WORK = ("char-3gram", "throughput", gpu.NARROW, (1, 256))
CHECKED = 16
LISTS: dict[str, Any] = {"nbest": 10, "confidence": True}
REQUESTED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("the best path", {}),
    ("n-best 10 and confidence at the end", LISTS),
    ("confidence after every chunk", {"confidence": True, "interim_answers": True}),
    ("n-best 10 and confidence after every chunk", LISTS | {"interim_answers": True}),
    ("these and MBR after every chunk", LISTS | {"mbr": True, "interim_answers": True}),
)
TAKES = {"rounds": "rounds that are timed (200)"}

COLUMNS = [
    Column("graph", "graph"),
    Column("beam / max_active", "search"),
    Column("streams", "streams"),
    Column("outputs", "asked"),
    Column("ms a round: half", "ms", "{:.2f}"),
    Column("99 %", "p99", "{:.2f}"),
    Column("times", "times", "{:.2f}"),
    Column("of real time, %", "share", "{:.2f}"),
    Column("bytes a stream", "bytes", "{:,.0f}"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    rounds = int(context.options.get("rounds") or 200)
    graph_name, set_name, options, counts = WORK
    files, dataset = graphs.get(graph_name, context.progress), datasets.load(set_name)
    for streams in counts:
        best_path = None
        for requested, wanted in REQUESTED:
            context.progress(f"{graph_name}, {streams} streams, {requested}")
            what = {"graph": graph_name, "search": gpu.beam_text(options), "streams": streams, "asked": requested}
            for row in gpu.rows_or_failure(what, one, files, dataset, options, streams, rounds, wanted):
                if not wanted and isinstance(row.get("ms"), float):
                    best_path = row["ms"]
                times = row["ms"] / best_path if best_path is not None and "ms" in row else None
                yield what | row | ({} if times is None else {"times": times})


def one(
    files: graphs.GraphFiles,
    dataset: datasets.Dataset,
    options: Any,
    streams: int,
    rounds: int,
    wanted: dict[str, Any],
) -> Iterator[Row]:
    gpu.require()
    total = WARM_UP + rounds
    ring = min(total, RING)
    spoken = Rounds(dataset.utterances, streams, ring, FRAMES)
    decoder = gpu.decoder(files.graph, options, frame_shift=dataset.frame_shift)
    speakers = Speakers(decoder, streams, TURN, **wanted)
    took = []
    for number in range(total):
        begin = time.perf_counter()
        partials = decoder.decode_chunks(speakers.streams, spoken.chunks[number % ring], last=speakers.last(number))
        partials.texts()
        took.append(1e3 * (time.perf_counter() - begin))
        if number != total - 1:
            speakers.go_on(number, speakers.last(number))
    bytes_of_streams = decoder.memory().streams
    checked = some_of(streams, CHECKED)
    speech = [spoken.rows(i, speakers.begins[i], total) for i in checked]
    twin = gpu.decoder(files.graph, options, device="cpu", frame_shift=dataset.frame_shift)
    whole = twin.decode_chunks(
        [twin.stream(**wanted) for _ in checked], speech, last=[speakers.last(total - 1)[i] for i in checked]
    )
    gpu.compare([partials[i] for i in checked], whole)
    for i, other in zip(checked, whole, strict=True):
        if answers(partials[i]) != answers(other):
            raise gpu.Wrong(
                f"stream {i}: answers differ from the twin's: {partials[i].nbest!r}, expected {other.nbest!r}"
            )
    counted = np.array(took[WARM_UP:])
    half = float(np.median(counted))
    yield {
        "ms": half,
        "p99": float(np.percentile(counted, 99)),
        "share": half / (10 * FRAMES * dataset.frame_shift),
        "bytes": bytes_of_streams / streams,
    }


def answers(partial: Any) -> Any:
    """All outputs besides the best path, to be compared."""
    lists = [(entry.words, entry.score, entry.posterior) for entry in partial.nbest or []]
    return lists, partial.confidence, partial.sausage, [word.confidence for word in partial.words]
