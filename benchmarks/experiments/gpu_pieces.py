"""Graphs of 512 and of 1,024 SentencePiece tokens: full batches of the two workloads made from text, frames of 40 ms.

Log-probs lie on the device; the answers of some utterances are the twin's, byte for byte, before anything is timed.
"""

from collections.abc import Iterator

from benchmarks.adapters import SearchOptions, gpu
from benchmarks.data import datasets, graphs
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row

ON_GPU = True
ORDER = 272
TITLE = "512 and 1,024 pieces"
UTTERANCES = 1056
COLUMNS = [
    Column("graph", "graph"),
    Column("states", "states", "{:,}"),
    Column("arcs", "arcs", "{:,}"),
    Column("beam / max_active", "search"),
    Column("batch", "batch", "{:,}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("spread", "spread", "{:,.0f}"),
    Column("tokens, M/s", "tokens", "{:,.0f}"),
    Column("arcs a token", "arcs_a_token", "{:.1f}"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    for pieces in (512, 1024):
        files = graphs.get(f"spm{pieces}-3gram", context.progress)
        dataset = datasets.load(f"workload-{pieces}", context.utterances or UTTERANCES)
        for options in gpu.BEAMS:
            context.progress(f"{files.name}, beam {options.beam:g}")
            what = {"graph": files.name, "search": gpu.beam_text(options)}
            yield from gpu.rows_or_failure(what, one, context, files, dataset, options)


def one(context: Context, files: graphs.GraphFiles, dataset: datasets.Dataset, options: SearchOptions) -> Iterator[Row]:
    gpu.require()
    graph, arrays = files.graph, gpu.send(dataset.utterances)
    decoder = gpu.decoder(graph, options)
    gpu.check(decoder.decode(arrays), graph, options, dataset.utterances)
    work = decoder.stats
    took = timing.interleave({"gpu": lambda: decoder.decode(arrays)}, context.repeats)["gpu"]
    yield {
        "graph": files.name,
        "states": graph.num_states,
        "arcs": graph.num_arcs,
        "search": gpu.beam_text(options),
        "batch": len(dataset.ids),
        "rtfx": dataset.seconds / took.seconds,
        "spread": [dataset.seconds / s for s in reversed(took.spread())],
        "tokens": work.tokens / took.seconds / 1e6,
        "arcs_a_token": work.leaving_arcs / work.tokens,
    }
