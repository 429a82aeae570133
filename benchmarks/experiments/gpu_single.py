"""One utterance alone on the GPU: microseconds a frame, from the call of decode until its path is on the host.

Each utterance is a batch of its own, its log-probs on the device. `short` ones are of middle length; a `long` one is
several of them one after another, for which what a call costs once no longer counts. The clock is read around single
calls: the median over the utterances of their medians, smallest and largest utterance. `twin` is one core of the CPU.
"""

import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.adapters import SearchOptions, gpu
from benchmarks.data import datasets, graphs
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row

ON_GPU = True
ORDER = 220
TITLE = "One utterance alone"
COUNT, JOINED = 24, 16
COLUMNS = [
    Column("graph", "graph"),
    Column("beam / max_active", "search"),
    Column("utterance", "kind"),
    Column("frames", "frames", "{:,.0f}"),
    Column("microseconds a frame", "us_a_frame", "{:.2f}"),
    Column("spread", "spread", "{:.2f}"),
    Column("milliseconds", "ms", "{:.2f}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("twin, microseconds a frame", "twin_us_a_frame", "{:.2f}"),
    Column("tokens a frame", "tokens", "{:,.0f}"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    for graph_name, set_name in gpu.WORKLOADS:
        files = graphs.get(graph_name, context.progress)
        dataset = datasets.load(set_name)
        for options in gpu.BEAMS:
            context.progress(f"{graph_name}, beam {options.beam:g}")
            what = {"graph": graph_name, "search": gpu.beam_text(options)}
            yield from gpu.rows_or_failure(what, one, context, files, dataset, options)


def of_middle_length(dataset: datasets.Dataset, utterances: int | None) -> list[Any]:
    """So many utterances of middle length, or the usual number."""
    by_length = sorted(dataset.utterances, key=len)
    count = min(utterances or COUNT, len(by_length))
    middle = (len(by_length) - count) // 2
    return by_length[middle : middle + count]


def one(context: Context, files: graphs.GraphFiles, dataset: datasets.Dataset, options: SearchOptions) -> Iterator[Row]:
    short = [np.ascontiguousarray(u, np.float32) for u in of_middle_length(dataset, context.utterances)]
    joined = [np.concatenate(short[:JOINED])]
    decoder = gpu.decoder(files.graph, options)
    twin = gpu.decoder(files.graph, options, device="cpu", threads=1)
    for kind, utterances in (("short", short), ("long", joined)):
        arrays = gpu.send(utterances)
        gpu.check([h for a in arrays for h in decoder.decode([a])], files.graph, options, utterances)
        each, on_cpu = [], []
        for array, logp in zip(arrays, utterances, strict=True):
            runs = {"gpu": lambda a=array: decoder.decode([a]), "twin": lambda u=logp: twin.decode([u])}
            took = timing.interleave(runs, 3 * context.repeats)
            each.append(1e6 * took["gpu"].seconds / len(logp))
            on_cpu.append(1e6 * took["twin"].seconds / len(logp))
        frames = sum(map(len, utterances)) / len(utterances)
        decoder.decode(arrays)
        yield {
            "graph": files.name,
            "set": dataset.name,
            "search": gpu.beam_text(options),
            "kind": kind,
            "utterances": len(utterances),
            "frames": frames,
            "us_a_frame": statistics.median(each),
            "spread": [min(each), max(each)],
            "ms": statistics.median(e * len(u) for e, u in zip(each, utterances, strict=True)) / 1e3,
            "rtfx": 1e6 * dataset.frame_shift / statistics.median(each),
            "twin_us_a_frame": statistics.median(on_cpu),
            "tokens": decoder.stats.tokens / decoder.stats.frames,
        }
