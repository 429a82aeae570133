"""Arcs of the surviving tokens settled a second, beside the rate at which the device reads at random.

Settled: scored, or proven inadmissible without being read; they are the emitting arcs of the tokens that leave a frame,
as the engine counts them. Full batches of `batch` utterances, log-probs on the device. The arcs of one graph fit L2
(48 MB; its states, of 32 bytes on the device, are 44 more), those of the others do not. `of the reads` is the arcs
settled over the random 16-byte reads a second measured in the same process: from L2 for the graph that fits there, from
HBM for the others; above 1 there is only because most arcs are not read.
"""

import statistics
from collections.abc import Iterator

from benchmarks.adapters import SearchOptions, gpu
from benchmarks.data import datasets, graphs
from benchmarks.engine import ceilings
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row

ON_GPU = True
ORDER = 270
TITLE = "Arcs settled"
# Graph, set, utterances; char-large is there where its LM is, see data/make_lm.py.
WORKLOADS = (
    ("spm512-3gram", "workload-512", 1056),
    ("char-3gram", "throughput", 760),
    ("char-large", "throughput", 760),
)
COLUMNS = [
    Column("graph", "graph"),
    Column("states", "states", "{:,}"),
    Column("arcs", "arcs", "{:,}"),
    Column("hot MB", "hot_mb", "{:,.0f}"),
    Column("beam / max_active", "search"),
    Column("batch", "batch", "{:,}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("arcs settled, G/s", "settled", "{:.1f}"),
    Column("spread", "spread", "{:.1f}"),
    Column("tokens, M/s", "tokens", "{:,.0f}"),
    Column("arcs a token", "arcs_a_token", "{:.1f}"),
    Column("random reads, G/s", "reads", "{:.1f}"),
    Column("of the reads", "share", "{:.2f}"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    yield from settled(context, WORKLOADS)


def settled(context: Context, workloads: "tuple[tuple[str, str, int], ...]") -> Iterator[Row]:
    """Rows of graphs, each with its set and the utterances of a full batch."""
    only = context.options.get("graph")
    for graph_name, set_name, count in workloads:
        if only and graph_name != only:
            continue
        try:
            files = graphs.get(graph_name, context.progress)
        except datasets.DataMissing as error:
            yield {"graph": graph_name, "status": f"missing: {error}"}
            continue
        dataset = datasets.load(set_name, context.utterances or count)
        for options in gpu.BEAMS:
            context.progress(f"{graph_name}, beam {options.beam:g}")
            what = {"graph": graph_name, "search": gpu.beam_text(options)}
            yield from gpu.rows_or_failure(what, one, context, files, dataset, options)


def one(context: Context, files: graphs.GraphFiles, dataset: datasets.Dataset, options: SearchOptions) -> Iterator[Row]:
    gpu.require()
    graph, reads = files.graph, ceilings.reads_of(files.graph, context.repeats)
    arrays = gpu.send(dataset.utterances)
    decoder = gpu.decoder(graph, options)
    gpu.check(decoder.decode(arrays), graph, options, dataset.utterances)
    work = decoder.stats
    took = timing.interleave({"gpu": lambda: decoder.decode(arrays)}, context.repeats)["gpu"]
    settled = [work.leaving_arcs / s / 1e9 for s in took.wall]
    yield {
        "graph": files.name,
        "set": dataset.name,
        "states": graph.num_states,
        "arcs": graph.num_arcs,
        "hot_mb": reads.hot_bytes / 1e6,
        "search": gpu.beam_text(options),
        "batch": len(dataset.ids),
        "rtfx": dataset.seconds / took.seconds,
        "wall": took.wall,
        "settled": statistics.median(settled),
        "spread": [min(settled), max(settled)],
        "tokens": work.tokens / took.seconds / 1e6,
        "arcs_a_token": work.leaving_arcs / work.tokens,
        "reads": reads.a_second / 1e9,
        "fits_l2": reads.fits_l2,
        "share": statistics.median(settled) / (reads.a_second / 1e9),
    }
