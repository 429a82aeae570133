"""Every launch shape that the search can have, for both graphs and beams, one utterance and full batches.

For tuning `pyx/arcbeam/search_plan.py`; the shape that the plan chooses is marked. All give the twin's bytes. Rows
with `512 shared` keep so many states of a frame in shared memory, which leaves the rest of it to the L1 cache. Arcs
settled and `of the reads`: as in `gpu_arcs`.
"""

from collections.abc import Iterator
from dataclasses import replace
from unittest import mock

from arcbeam.gpu.tuned import search_plan
from benchmarks.adapters import SearchOptions, gpu
from benchmarks.data import datasets, graphs
from benchmarks.engine import ceilings
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row

ON_GPU = True
ORDER = 300
TITLE = "Launch shapes"
BATCHES = (1, 64, 264, 1056)
LITTLE_SHARED, LITTLE_SHARED_BATCHES = 512, (1, 264)  # states in shared memory, batches of which it is tried
COLUMNS = [
    Column("graph", "graph"),
    Column("beam / max_active", "search"),
    Column("batch", "batch", "{:,}"),
    Column("shape", "shape"),
    Column("chosen", "chosen"),
    Column("milliseconds", "ms", "{:.3f}"),
    Column("spread", "spread", "{:.3f}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("to the best", "to_best", "{:.2f}"),
    *ceilings.SETTLED,
    Column("status", "status"),
]


TEAM_TOKENS = (256, 1024)  # for clusters
CLUSTERS = [replace(search_plan.CLUSTER, cluster=blocks) for blocks in (8, 4, 2)]


def shapes() -> list[tuple[search_plan.LaunchShape, int]]:
    """Shapes, and the tokens from which on a cluster works on a frame together."""
    wide = [search_plan.LaunchShape("wide", threads, 1) for threads in (128, 256, 512)]
    dense = [search_plan.LaunchShape("dense", threads, blocks) for threads, blocks in ((64, 4), (128, 4), (256, 2))]
    blocks = [(shape, search_plan.TEAM_TOKENS) for shape in (search_plan.WIDE, search_plan.DENSE, *wide, *dense)]
    clusters = [(shape, tokens) for shape in CLUSTERS for tokens in TEAM_TOKENS]
    return list(dict.fromkeys(blocks + clusters))


def chosen_for(utterances: int, multiprocessors: int) -> tuple[search_plan.LaunchShape, int]:
    """What the plan takes."""
    return search_plan.launch_shapes(utterances, multiprocessors)[0], search_plan.TEAM_TOKENS


def run(context: Context) -> Iterator[Row]:
    only = context.options.get("graph")
    sizes = [int(n) for n in context.options.get("batches", "").split(",") if n] or list(BATCHES)
    for graph_name, set_name in gpu.WORKLOADS:
        if only and graph_name != only:
            continue
        files = graphs.get(graph_name, context.progress)
        for options in gpu.BEAMS:
            for size in [context.utterances] if context.utterances else sizes:
                context.progress(f"{graph_name}, beam {options.beam:g}, batch {size}")
                dataset = gpu.cycled(datasets.load(set_name, size), size)
                what = {"graph": graph_name, "search": gpu.beam_text(options), "batch": size}
                yield from gpu.rows_or_failure(what, one, context, files, dataset, options)


def one(context: Context, files: graphs.GraphFiles, dataset: datasets.Dataset, options: SearchOptions) -> Iterator[Row]:
    gpu.require()
    from arcbeam.gpu import _cuda

    arrays, reads = gpu.send(dataset.utterances), ceilings.reads_of(files.graph, context.repeats)
    chosen = chosen_for(len(arrays), _cuda.device_properties(0)["multiprocessors"])
    first_room = search_plan.first_room
    rows: list[Row] = []
    tried = [(*shape, None) for shape in shapes()]
    if len(arrays) in LITTLE_SHARED_BATCHES:
        tried += [(*shape, LITTLE_SHARED) for shape in shapes()]
    for shape, team_tokens, shared in tried:
        row: Row = {
            "graph": files.name,
            "search": gpu.beam_text(options),
            "batch": len(arrays),
            "shape": f"{shape.kernel} {shape.threads} x {shape.blocks_per_multiprocessor}"
            + (f", cluster {shape.cluster} from {team_tokens:,} tokens" if shape.cluster > 1 else "")
            + (f", {shared} shared" if shared else ""),
            "chosen": "chosen" if (shape, team_tokens, shared) == (*chosen, None) else None,
        }
        with (
            mock.patch.object(search_plan, "launch_shapes", lambda *_, shape=shape: (shape, search_plan.WIDE)),
            mock.patch.object(search_plan, "TEAM_TOKENS", team_tokens),
            mock.patch.object(search_plan, "first_room", lambda n, s=shared: replace(first_room(n), shared_states=s)),
        ):
            decoder = gpu.decoder(files.graph, options)
            try:
                gpu.check(decoder.decode(arrays), files.graph, options, dataset.utterances)
            except gpu.Wrong:
                raise
            except Exception as error:  # a shape that the device does not take
                rows.append(row | {"status": f"refused: {str(error).splitlines()[0]}"})
                continue
            took = timing.interleave({"gpu": lambda d=decoder: d.decode(arrays)}, min(3, context.repeats))["gpu"]
        rows.append(
            row
            | {
                "ms": 1e3 * took.seconds,
                "spread": [1e3 * s for s in took.spread()],
                "rtfx": dataset.seconds / took.seconds,
                **reads.share(decoder.stats.leaving_arcs, took.seconds),
            }
        )
        context.progress(f"{row['shape']}: {1e3 * took.seconds:.3f} ms {row['chosen'] or ''}")
    best = min(float(row["ms"]) for row in rows if "ms" in row)  # type: ignore[arg-type]
    for row in rows:
        yield row | ({"to_best": float(row["ms"]) / best} if "ms" in row else {})  # type: ignore[arg-type]
