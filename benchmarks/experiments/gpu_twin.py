"""The GPU beside its twin on the CPU, with 1 thread and with 16 (or as many as there are cores): the same bytes.

Whole sets; log-probs are float32, on the device for the GPU. In turns, by the clock, paths only on both sides.
`settled` and `of the reads` as in `gpu_arcs`.
"""

import os
from collections.abc import Iterator

import numpy as np

from benchmarks.adapters import SearchOptions, gpu
from benchmarks.data import datasets, graphs
from benchmarks.engine import ceilings
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row

ON_GPU = True
ORDER = 260
TITLE = "Beside the twin"
COLUMNS = [
    Column("graph", "graph"),
    Column("set", "set"),
    Column("minutes", "minutes", "{:.1f}"),
    Column("beam / max_active", "search"),
    Column("RTFx GPU", "rtfx", "{:,.0f}"),
    Column("RTFx 1 thread", "rtfx_1", "{:,.0f}"),
    Column("ratio", "ratio_1", "{:.1f}"),
    Column("threads", "threads"),
    Column("RTFx threads", "rtfx_n", "{:,.0f}"),
    Column("ratio", "ratio_n", "{:.1f}"),
    Column("spread", "spread_n", "{:.1f}"),
    *ceilings.SETTLED,
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    yield from gpu.each_search(context, one)


def one(context: Context, files: graphs.GraphFiles, dataset: datasets.Dataset, options: SearchOptions) -> Iterator[Row]:
    gpu.require()
    reads = ceilings.reads_of(files.graph, context.repeats)
    threads = min(16, len(os.sched_getaffinity(0)))
    single = [np.ascontiguousarray(u, np.float32) for u in dataset.utterances]
    arrays = gpu.send(single)
    on_gpu = gpu.decoder(files.graph, options)
    one_thread, many = (gpu.decoder(files.graph, options, device="cpu", threads=n) for n in (1, threads))
    gpu.check(on_gpu.decode(arrays), files.graph, options, single)
    runs = {"gpu": lambda: on_gpu.decode(arrays), "many": lambda: many.decode(single)}
    # One thread takes long: fewer turns.
    took = timing.interleave(runs, context.repeats) | timing.interleave({"one": lambda: one_thread.decode(single)}, 1)
    ratio, spread = timing.ratio(took["many"], took["gpu"])
    yield {
        "graph": files.name,
        "set": dataset.name,
        "minutes": dataset.seconds / 60,
        "search": gpu.beam_text(options),
        "rtfx": dataset.seconds / took["gpu"].seconds,
        "rtfx_1": dataset.seconds / took["one"].seconds,
        "ratio_1": took["one"].seconds / took["gpu"].seconds,
        "threads": threads,
        "rtfx_n": dataset.seconds / took["many"].seconds,
        "ratio_n": ratio,
        "spread_n": spread,
        **reads.share(on_gpu.stats.leaving_arcs, took["gpu"].seconds),
    }
