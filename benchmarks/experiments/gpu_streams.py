"""Streams on one GPU: milliseconds of a round, in which every stream gets its next chunk.

Endless streams, each several utterances of letters behind each other; chunks of 20 frames (0.4 s) for all streams in
one array on the device. The clock stops when the texts of all partial results are Python strings; `arrays` stops before
texts are made. First rounds are not counted. The final results of some streams are compared with the twin's for the
whole, as bytes. `of real time` is the share of 0.4 s that a round takes. Bytes of a stream are those that its states
have on the device, two of them.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.adapters import gpu
from benchmarks.data import datasets, graphs
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
TAKES = {"rounds": "rounds that are timed (60)"}
COLUMNS = [
    Column("graph", "graph"),
    Column("beam / max_active", "search"),
    Column("streams", "streams", "{:,}"),
    Column("rounds", "rounds"),
    Column("ms a round: half", "ms", "{:.2f}"),
    Column("99 %", "p99", "{:.2f}"),
    Column("largest", "most", "{:.2f}"),
    Column("arrays, ms", "arrays_ms", "{:.2f}"),
    Column("of real time, %", "share", "{:.2f}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("bytes a stream", "bytes", "{:,.0f}"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    rounds = int(context.options.get("rounds") or 60)
    for graph_name, set_name, options, counts in WORK:
        files = graphs.get(graph_name, context.progress)
        dataset = datasets.load(set_name)
        for streams in counts:
            what = {"graph": graph_name, "search": gpu.beam_text(options), "streams": streams}
            context.progress(f"{graph_name}, {streams} streams")
            work = (files, dataset, options, streams, min(rounds, 240_000 // streams))
            yield from gpu.rows_or_failure(what, one, *work)


def endless(utterances: Sequence[npt.NDArray[Any]], streams: int, frames: int) -> npt.NDArray[np.float32]:
    """float32[streams, frames, columns]: stream i begins with utterance i, and goes on with those behind it."""
    lengths = [len(utterance) for utterance in utterances]
    joined = np.concatenate([np.asarray(utterance, np.float32) for utterance in utterances])
    firsts = np.concatenate([[0], np.cumsum(lengths)])
    begins = firsts[np.arange(streams) % len(utterances)]
    return joined[(begins[:, None] + np.arange(frames)) % len(joined)]


def one(files: graphs.GraphFiles, dataset: datasets.Dataset, options: Any, streams: int, rounds: int) -> Iterator[Row]:
    gpu.require()
    total = WARM_UP + rounds + WARM_UP  # the last without texts
    speech = endless(dataset.utterances, streams, total * FRAMES)
    by_round = np.ascontiguousarray(speech.reshape(streams, total, FRAMES, -1).transpose(1, 0, 2, 3))
    memory = gpu.DeviceMemory()
    memory.write(by_round)
    chunks = [gpu.DeviceArray(memory, i * by_round[0].nbytes, by_round[0].shape, by_round.dtype) for i in range(total)]
    decoder = gpu.decoder(files.graph, options, frame_shift=dataset.frame_shift)
    members = [decoder.stream() for _ in range(streams)]
    with_texts, arrays = [], []
    with timing.own_garbage():
        for number, chunk in enumerate(chunks):
            begin = time.perf_counter()
            partials = decoder.decode_chunks(members, chunk)
            if number < WARM_UP + rounds:
                partials.texts()
                with_texts.append(1e3 * (time.perf_counter() - begin))
            else:
                arrays.append(1e3 * (time.perf_counter() - begin))
    bytes_of_streams = decoder.memory().streams
    checked = np.unique(np.linspace(0, streams - 1, min(CHECKED, streams)).astype(int)).tolist()
    finals = [members[i].finish() for i in checked]
    gpu.check(finals, files.graph, options, [speech[i] for i in checked], frame_shift=dataset.frame_shift)
    counted = np.array(with_texts[WARM_UP:])
    seconds = FRAMES * dataset.frame_shift
    yield {
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
