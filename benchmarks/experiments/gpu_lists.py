"""Log-probs on the device as a list of torch's tensors instead of one array: what that costs the host.

Batches of short utterances (20 frames of letters), where it shows most. `list` has a tensor with memory of its own for
each utterance, `array` is one tensor of all. First the answers of both are compared with the twin's as bytes; then both
take turns by the clock. `an utterance` is the median of the differences within a turn over the utterances; its goal is
0.3 microseconds.
"""

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.adapters import gpu
from benchmarks.data import datasets, graphs
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row

ON_GPU = True
ORDER = 241
TITLE = "Lists of tensors"
GRAPH, SET = gpu.WORKLOADS[-1]  # letters
FRAMES = 20
BATCHES = (264, 1024, 4096)
GOAL = 0.3
TURNS = 5  # for each repeat
COLUMNS = [
    Column("graph", "graph"),
    Column("beam / max_active", "search"),
    Column("batch", "batch", "{:,}"),
    Column("array, ms", "array_ms", "{:.2f}"),
    Column("list, ms", "list_ms", "{:.2f}"),
    Column("an utterance, microseconds", "each_us", "{:.2f}"),
    Column("spread", "each_spread", "{:.2f}"),
    Column("goal, microseconds", "goal", "{:g}"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    files, dataset = graphs.get(GRAPH, context.progress), datasets.load(SET)
    frames = np.concatenate([np.asarray(u, np.float32) for u in dataset.utterances])
    for batch in [context.utterances] if context.utterances else BATCHES:
        context.progress(f"batch {batch:,}")
        pieces = np.resize(frames, (batch, FRAMES, frames.shape[1]))
        what = {"graph": GRAPH, "search": gpu.beam_text(gpu.NARROW), "batch": batch}
        yield from gpu.rows_or_failure(what, one, context, files, pieces, what)


def on_device(pieces: npt.NDArray[np.float32]) -> tuple[Any, Sequence[Any]]:
    """The array and the list."""
    import torch

    array = torch.from_numpy(pieces).cuda()
    return array, [piece.clone() for piece in array]


def one(context: Context, files: graphs.GraphFiles, pieces: npt.NDArray[np.float32], what: Row) -> Iterator[Row]:
    gpu.require()
    array, tensors = on_device(pieces)
    decoders = {"array": gpu.decoder(files.graph, gpu.NARROW), "list": gpu.decoder(files.graph, gpu.NARROW)}
    inputs: dict[str, Any] = {"array": array, "list": tensors}
    for name, decoder in decoders.items():
        gpu.check(decoder.decode(inputs[name]), files.graph, gpu.NARROW, pieces)
    took = timing.interleave(
        {name: lambda k=name: decoders[k].decode(inputs[k]) for name in inputs}, TURNS * context.repeats
    )
    each = [1e6 * (b - a) / len(pieces) for a, b in zip(took["array"].wall, took["list"].wall, strict=True)]
    yield what | {
        "array_ms": 1e3 * took["array"].seconds,
        "list_ms": 1e3 * took["list"].seconds,
        "each_us": statistics.median(each),
        "each_spread": [min(each), max(each)],
        "goal": GOAL,
    }
