"""A batch in which one utterance in 64 has about 100 times the tokens of the others.

The log-probs of every 64th utterance are scaled down until a frame of it keeps so many tokens; beam 12, max_active
5,000 (which bounds the tokens that leave, not those that stay). Three batches, in turns: with these `hot` utterances as
they were, with them hot, and one of them hot and alone. If the load were balanced without loss, the batch with hot ones
would take what its additional work takes when it is spread over the device, and never more than both others together.
`of the reads`: arcs settled a second over the random reads a second of the same process, as in `gpu_arcs`.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import arcbeam
from benchmarks.adapters import SearchOptions, gpu
from benchmarks.data import datasets, graphs
from benchmarks.engine import ceilings
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row

ON_GPU = True
ORDER = 250
TITLE = "Balance of load"
BATCHES, EVERY, TIMES = (264, 1056), 64, 100.0
COLUMNS = [
    Column("graph", "graph"),
    Column("batch", "batch", "{:,}"),
    Column("hot", "hot"),
    Column("tokens a frame", "tokens", "{:,.0f}"),
    Column("of the hot", "hot_tokens", "{:,.0f}"),
    Column("times", "times", "{:,.0f}"),
    Column("ms without", "ms_without", "{:.2f}"),
    Column("ms with", "ms_with", "{:.2f}"),
    Column("spread", "spread", "{:.2f}"),
    Column("ms hottest alone", "ms_alone", "{:.2f}"),
    Column("with over without + alone", "share", "{:.2f}"),
    Column("tokens/s without, M", "rate_without", "{:,.1f}"),
    Column("with, M", "rate_with", "{:,.1f}"),
    Column("of the reads, without", "reads_without", "{:.3f}"),
    Column("with", "reads_with", "{:.3f}"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    sizes = [context.utterances] if context.utterances else BATCHES
    for graph_name, set_name in gpu.WORKLOADS:
        files = graphs.get(graph_name, context.progress)
        for size in sizes:
            context.progress(f"{graph_name}, batch {size}")
            dataset = gpu.cycled(datasets.load(set_name, size), size)
            what = {"graph": graph_name, "batch": size}
            yield from gpu.rows_or_failure(what, one, context, files, dataset, gpu.NARROW)


def tokens_a_frame(decoder: "arcbeam.CtcDecoder", utterances: list[np.ndarray]) -> float:
    decoder.decode(utterances)
    return decoder.stats.tokens / max(1, decoder.stats.frames)


def heated(files: graphs.GraphFiles, options: SearchOptions, logp: np.ndarray, wanted: float) -> np.ndarray:
    """The log-probs times the factor at which a frame keeps the wanted number of tokens, as nearly as can be."""
    decoder = gpu.decoder(files.graph, options, device="cpu", threads=1)
    low, high = 0.0, 1.0
    for _ in range(8):
        middle = np.float32((low + high) / 2)
        low, high = (middle, high) if tokens_a_frame(decoder, [logp * middle]) > wanted else (low, middle)
    return logp * np.float32(high)


def one(context: Context, files: graphs.GraphFiles, dataset: datasets.Dataset, options: SearchOptions) -> Iterator[Row]:
    gpu.require()
    reads = ceilings.reads_of(files.graph, context.repeats)
    single = [np.array(u, np.float32) for u in dataset.utterances]
    cores = len(os.sched_getaffinity(0))
    twin = gpu.decoder(files.graph, options, device="cpu")
    usual = tokens_a_frame(twin, single)
    # Utterances of middle length, so that it is their tokens that make them long.
    order = np.argsort([len(u) for u in single], kind="stable")
    places = order[(np.linspace(0.4, 0.6, max(1, len(single) // EVERY)) * (len(single) - 1)).astype(int)]
    mixed = list(single)
    with ThreadPoolExecutor(cores) as pool:
        hot = list(pool.map(lambda place: heated(files, options, single[place], TIMES * usual), places))
    for place, logp in zip(places, hot, strict=True):
        mixed[place] = logp
    hottest = max(hot, key=lambda u: tokens_a_frame(twin, [u]) * len(u))
    batches = {"without": single, "with": mixed, "alone": [hottest]}
    arrays = {name: gpu.send(batch) for name, batch in batches.items()}
    decoder = gpu.decoder(files.graph, options)
    tokens, arcs = {}, {}
    for name, batch in batches.items():
        gpu.check(decoder.decode(arrays[name]), files.graph, options, batch)
        tokens[name], arcs[name] = decoder.stats.tokens, decoder.stats.leaving_arcs
    timings = timing.interleave(
        {name: lambda a=batch: decoder.decode(a) for name, batch in arrays.items()}, context.repeats
    )
    ms = {name: 1e3 * took.seconds for name, took in timings.items()}
    of_hot = tokens_a_frame(twin, hot)
    yield {
        "graph": files.name,
        "set": dataset.name,
        "search": gpu.beam_text(options),
        "batch": len(single),
        "hot": len(hot),
        "tokens": usual,
        "hot_tokens": of_hot,
        "times": of_hot / usual,
        "ms_without": ms["without"],
        "ms_with": ms["with"],
        "spread": [1e3 * s for s in timings["with"].spread()],
        "ms_alone": ms["alone"],
        "share": ms["with"] / (ms["without"] + ms["alone"]),
        "rate_without": tokens["without"] / ms["without"] / 1e3,
        "rate_with": tokens["with"] / ms["with"] / 1e3,
        **{f"reads_{name}": reads.share(arcs[name], timings[name].seconds)["share"] for name in ("without", "with")},
    }
