"""New lists of phrases: how long it takes until a GPU has them. 264 lists of 1,000 phrases, and one of 10,000.

A turn begins with the phrases as lists of str and ends with the answers to one frame of speech for each list: `made` is
`arcbeam.Boost`, which checks the phrases; `compiled` is what the first decode does on all cores; `sent` is the time of
the decode after it, which sends all lists in one copy, less that of the same decode with lists that are there. `total`
is their sum. `one core` is `compiled` with one thread. First the answers are compared with the CPU twin's as bytes. The
goal is 40 ms for 264 lists on 16 cores.
"""

import os
import time
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import numpy as np

import arcbeam
from arcbeam.ctc.boost.boosts import compiled_for
from benchmarks.adapters import gpu
from benchmarks.data import datasets, graphs
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks.phrase_lists import PHRASES, Vocabulary

ON_GPU = True
KERNELS = ("boosted",)
ORDER = 208
TITLE = "Boosting: new lists"
LISTS, LONG = 264, 10_000
GOAL_MS = 40.0
COLUMNS = [
    Column("graph", "graph"),
    Column("lists", "lists", "{:,}"),
    Column("phrases in each", "phrases", "{:,}"),
    Column("cores", "cores"),
    Column("total, ms", "total_ms", "{:.1f}"),
    Column("spread", "spread", "{:.1f}"),
    Column("goal, ms", "goal_ms", "{:.0f}"),
    Column("made, ms", "made_ms", "{:.1f}"),
    Column("compiled, ms", "compiled_ms", "{:.1f}"),
    Column("sent, ms", "sent_ms", "{:.1f}"),
    Column("compiled on one core, ms", "one_core_ms", "{:.1f}"),
    Column("MB on the device", "mb", "{:.1f}"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    for graph_name, set_name in gpu.WORKLOADS:
        files = graphs.get(graph_name, context.progress)
        dataset = gpu.cycled(datasets.load(set_name), context.utterances or LISTS)
        what = {"graph": graph_name}
        yield from gpu.rows_or_failure(what, both, context, files, dataset)


def both(context: Context, files: graphs.GraphFiles, dataset: datasets.Dataset) -> Iterator[Row]:
    gpu.require()
    words = Vocabulary(files.graph)
    many = words.lists(dataset.references, PHRASES)
    yield {"goal_ms": GOAL_MS if len(many) == LISTS else None} | rows_of(context, files, dataset, many)
    yield rows_of(context, files, dataset.first(1), words.lists(dataset.references[:1], LONG))


def rows_of(context: Context, files: graphs.GraphFiles, dataset: datasets.Dataset, lists: list[list[str]]) -> Row:
    graph, cores = files.graph, len(os.sched_getaffinity(0))
    frames = [np.ascontiguousarray(u[:1], np.float32) for u in dataset.utterances]
    arrays = gpu.send(frames)
    decoder = gpu.decoder(graph, gpu.WIDE)
    kept = [arcbeam.Boost(phrases) for phrases in lists]
    twin = gpu.decoder(graph, gpu.WIDE, device="cpu")
    gpu.compare(decoder.decode(arrays, boost=kept), twin.decode(frames, boost=kept))
    size = decoder.memory().boosts
    parts: dict[str, list[float]] = {name: [] for name in ("total", "made", "compiled", "sent", "one_core")}
    with timing.own_garbage():
        for turn in range(2 * context.repeats + 1):  # the first one warms up
            found = one_turn(graph, decoder, arrays, lists, kept, cores)
            for name, seconds in found.items():
                if turn:
                    parts[name].append(1e3 * seconds)
    return {
        "graph": files.name,
        "lists": len(lists),
        "phrases": len(lists[0]),
        "cores": cores,
        "spread": [min(parts["total"]), max(parts["total"])],
        "mb": size / 1e6,
        "turns_ms": parts,
        **{f"{name}_ms": median(each) for name, each in parts.items()},
    }


def one_turn(
    graph: "arcbeam.Graph",
    decoder: "arcbeam.CtcDecoder",
    arrays: Sequence[Any],
    lists: Sequence[Sequence[str]],
    kept: "Sequence[arcbeam.Boost]",
    cores: int,
) -> dict[str, float]:
    """Seconds of each part."""
    alone = [arcbeam.Boost(phrases) for phrases in lists]
    marks = [time.perf_counter()]
    compiled_for(graph, alone, 1)
    marks.append(time.perf_counter())
    del alone
    marks.append(time.perf_counter())
    decoder.decode(arrays, boost=kept)
    marks.append(time.perf_counter())
    boosts = [arcbeam.Boost(phrases) for phrases in lists]
    marks.append(time.perf_counter())
    compiled_for(graph, boosts, cores)
    marks.append(time.perf_counter())
    decoder.decode(arrays, boost=boosts)
    marks.append(time.perf_counter())
    one_core, _, warm, made, compiled, first = np.diff(marks).tolist()
    return {
        "total": made + compiled + first - warm,
        "made": made,
        "compiled": compiled,
        "sent": first - warm,
        "one_core": one_core,
    }
