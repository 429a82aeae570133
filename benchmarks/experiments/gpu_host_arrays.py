"""Log-probs in host memory instead of on the device: what that costs, at batches of 264 and 1,056 utterances.

The same values as float32 numpy arrays, as float16 ones, and as float32 views of page-locked memory, beside float32 and
float16 arrays on the device. In turns, by the clock; `slower` is the median of the ratios within a turn to the device
array of the same type. Copies of the values go over the bus once a decode: `of the copy` is their GB/s over those of a
page-locked copy that does nothing else, in the same process; `settled` and `of the reads` as in `gpu_arcs`.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.adapters import SearchOptions, gpu
from benchmarks.data import datasets, graphs
from benchmarks.engine import ceilings
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row

ON_GPU = True
ORDER = 240
TITLE = "Host arrays"
BATCHES = (264, 1056)
COLUMNS = [
    Column("graph", "graph"),
    Column("beam / max_active", "search"),
    Column("batch", "batch", "{:,}"),
    Column("log-probs", "kind"),
    Column("MB", "megabytes", "{:,.0f}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("spread", "rtfx_spread", "{:,.0f}", timing.rtfx_spread),
    Column("slower, %", "slower", "{:.1f}"),
    Column("spread of that, %", "spread", "{:.1f}"),
    Column("GB/s", "gb_a_second", "{:.1f}"),
    Column("of the copy", "of_copy", "{:.2f}"),
    *ceilings.SETTLED,
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    sizes = [context.utterances] if context.utterances else BATCHES
    for graph_name, set_name in gpu.WORKLOADS:
        files = graphs.get(graph_name, context.progress)
        for options in gpu.BEAMS:
            for size in sizes:
                context.progress(f"{graph_name}, beam {options.beam:g}, batch {size}")
                dataset = gpu.cycled(datasets.load(set_name, size), size)
                what = {"graph": graph_name, "search": gpu.beam_text(options), "batch": size}
                yield from gpu.rows_or_failure(what, one, context, files, dataset, options)


def pinned(utterances: list[np.ndarray]) -> tuple[Any, list[np.ndarray]]:
    """The arrays in page-locked memory, and what keeps that."""
    from arcbeam.gpu import _cuda
    from arcbeam.gpu._memory import PinnedBuffer

    memory = PinnedBuffer(_cuda.context_of(0))
    memory.resize(sum(u.nbytes for u in utterances) or 1)
    values, at, views = np.frombuffer(memory, np.uint8), 0, []
    for u in utterances:
        view = values[at : at + u.nbytes].view(u.dtype).reshape(u.shape)
        view[:] = u
        views.append(view)
        at += u.nbytes
    return memory, views


def one(context: Context, files: graphs.GraphFiles, dataset: datasets.Dataset, options: SearchOptions) -> Iterator[Row]:
    gpu.require()
    reads, copies = ceilings.reads_of(files.graph, context.repeats), ceilings.copies_of(context.repeats)
    single = [np.array(u, np.float32) for u in dataset.utterances]
    half = [np.array(u, np.float16) for u in dataset.utterances]
    kept, locked = pinned(single)
    inputs = {
        "device, float32": gpu.send(single),
        "host, float32": single,
        "host, float32, page-locked": locked,
        "device, float16": gpu.send(half, np.float16),
        "host, float16": half,
    }
    # A decoder of its own for each, as a user would have, so that none inherits the room of another.
    decoders = {kind: gpu.decoder(files.graph, options) for kind in inputs}
    for kind, arrays in inputs.items():
        gpu.check(decoders[kind].decode(arrays), files.graph, options, dataset.utterances)
    timings = timing.interleave(
        {kind: lambda k=kind, a=arrays: decoders[k].decode(a) for kind, arrays in inputs.items()}, context.repeats
    )
    for kind in inputs:
        reference = "device, " + kind.split(", ")[1]
        ratio, spread = timing.ratio(timings[kind], timings[reference])
        size = sum(u.nbytes for u in (half if "float16" in kind else single))
        row: Row = {
            "graph": files.name,
            "set": dataset.name,
            "search": gpu.beam_text(options),
            "batch": len(dataset.ids),
            "kind": kind,
            "megabytes": size / 1e6,
            "rtfx": dataset.seconds / timings[kind].seconds,
            "rtfx_spread": [dataset.seconds / s for s in reversed(timings[kind].spread())],
            "wall": timings[kind].wall,
            **reads.share(decoders[kind].stats.leaving_arcs, timings[kind].seconds),
        }
        if kind != reference:
            row |= {
                "slower": 100 * (ratio - 1),
                "spread": [100 * (s - 1) for s in spread],
                "gb_a_second": size / timings[kind].seconds / 1e9,
                "of_copy": size / timings[kind].seconds / copies,
            }
        yield row
    del locked, inputs, kept
