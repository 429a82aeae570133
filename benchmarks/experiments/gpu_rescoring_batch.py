"""Rescoring at batches of 256, 1,024 and 2,048 utterances: where the device is full, not the last utterance late.

Workload, graph and models are those of `gpu_rescoring`, 3 hypotheses a state, the cache of `host-direct`, `host` and
`cpu` a tenth of the model. The same utterances are decoded for every size, in batches of that size one after the other,
log-probs (float32) on the device; all contenders of a size take turns, and the clock runs over all batches of a turn.
Answers are the twin's before anything is timed, those of `cpu` the twin's with KenLM.

The twin decodes the same utterances on all cores, three turns, and on one, once. "Times as long" is its time over the
row's: our goal is at least 100 on one core and 10 on 16. Arcs settled and `of the reads`: as in `gpu_arcs`.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import arcbeam
from arcbeam.ctc.decoder import DecodeStats
from benchmarks.adapters import SearchOptions, gpu
from benchmarks.data import datasets, graphs
from benchmarks.engine import ceilings, placements, rescoring_models
from benchmarks.experiments import gpu_rescoring
from benchmarks.harness import plots, timing
from benchmarks.harness.registry import Column, Context, Row

ON_GPU = True
KERNELS = ("search", "rescore", "asking", "asking_arcs")
ORDER = 237
TITLE = "Rescoring, at each size of the batch"
GRAPH, SET, LIMIT = gpu_rescoring.GRAPH, gpu_rescoring.SET, gpu_rescoring.LIMIT
LARGEST, SIZES = 2048, (256, 1024, 2048)
PLACEMENTS = ("none", "resident", "host-direct", "host", "cpu")
SHARE = 0.1  # of the model's bytes, for the cache; `resident` has none
TAKES = {"beams": "17, 12 (both)"}
COLUMNS = [
    Column("beam / max_active", "search"),
    Column("the model", "placement"),
    Column("cores", "cores"),
    Column("batch", "batch", "{:,}"),
    Column("utterances", "utterances", "{:,}"),
    Column("milliseconds a batch", "ms", "{:.2f}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("spread", "spread", "{:,.0f}", timing.rtfx_spread),
    Column("times none", "of_plain", "{:.2f}"),
    Column("times resident", "of_resident", "{:.2f}"),
    Column("tokens a frame", "tokens", "{:.1f}"),
    Column("hit rate, %", "hits", "{:.1f}"),
    Column("one core of the twin, times as long", "of_twin", "{:.0f}"),
    Column("all cores, times as long", "of_cores", "{:.1f}"),
    *ceilings.SETTLED,
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    files = graphs.get(GRAPH, context.progress)
    dataset = datasets.load(SET, context.utterances or LARGEST)
    models = rescoring_models.load(GRAPH) | {
        placements.KENLM: placements.kenlm(rescoring_models.kenlm, context.progress)
    }
    beams = [float(beam) for beam in context.options.get("beams", "17,12").split(",")]
    for options in (o for o in gpu.BEAMS if o.beam in beams):
        context.progress(f"beam {options.beam:g}")
        what = {"search": gpu.beam_text(options)}
        yield from gpu.rows_or_failure(what, rows_of_all, context, files, dataset, options, models, what)


def rows_of_all(
    context: Context,
    files: graphs.GraphFiles,
    dataset: datasets.Dataset,
    options: SearchOptions,
    models: Mapping[str, Any],
    what: Row,
) -> Iterator[Row]:
    """Rows of every size of the batch at one beam, and two of the twin."""
    reads = ceilings.reads_of(files.graph, context.repeats)
    arrays, limit = gpu.send(dataset.utterances), {"hypotheses_per_state": LIMIT}
    ours = placements.models_of("resident", models) | limit
    one_core, all_cores = gpu_rescoring.twins(files, options, ours)
    batch = gpu_rescoring.on_host(dataset)
    wanted = all_cores.decode(batch)
    cache = int(models["language_model"].info().bytes * SHARE)

    def seat(placement: str) -> "arcbeam.CtcDecoder":
        if placement == "none":
            return gpu.decoder(files.graph, options)
        size = 0 if placement == "resident" else cache
        given = placements.models_of(placement, models) | limit | placements.options(placement, size)
        return gpu.decoder(files.graph, options, **given)

    decoders: dict[str, arcbeam.CtcDecoder] = {}
    for placement in PLACEMENTS:
        decoder, status = placements.seat(lambda placement=placement: seat(placement))  # type: ignore[misc]
        if decoder is None:
            yield what | {"placement": placement, "status": status}
            continue
        found = decoder.decode(arrays)
        if placement in ("none", "cpu"):
            theirs = {} if placement == "none" else placements.models_of("cpu", models) | limit
            gpu.check(found, files.graph, options, dataset.utterances, **theirs)
        else:
            gpu.compare(found, wanted)
        decoders[placement] = decoder

    began = time.perf_counter()
    found = one_core.decode(batch)
    on_one = time.perf_counter() - began
    gpu.compare(found, wanted)
    on_all = timing.interleave({"all": lambda: all_cores.decode(batch)}, context.repeats, warm_up=False)["all"]
    twin = what | {"placement": gpu_rescoring.TWIN, "utterances": len(batch)}
    twin["tokens"] = all_cores.stats.tokens / all_cores.stats.frames
    for cores, wall in ((1, [on_one]), (len(os.sched_getaffinity(0)), on_all.wall)):
        yield twin | {"cores": cores, "wall": wall, "rtfx": dataset.seconds / timing.Timing(wall, wall).seconds}
    for size in (size for size in SIZES if size <= max(len(arrays), SIZES[0])):
        context.progress(f"beam {options.beam:g}, batch {size}")
        batches = [arrays[first : first + size] for first in range(0, len(arrays), size)]
        works: dict[str, list[DecodeStats]] = {}

        def decode(placement: str, batches: list[Any] = batches, works: dict[str, Any] = works) -> None:
            works[placement] = []
            for part in batches:
                decoders[placement].decode(part)
                works[placement].append(decoders[placement].stats)

        calls: dict[str, Callable[[], object]] = {p: lambda p=p, decode=decode: decode(p) for p in decoders}  # type: ignore[misc]
        times = timing.interleave(calls, context.repeats)
        for placement, took in times.items():
            work = placements.total(works[placement])
            row = what | {
                "placement": placement,
                "batch": size,
                "utterances": len(arrays),
                "ms": 1e3 * took.seconds / len(batches),
                "rtfx": dataset.seconds / took.seconds,
                "wall": took.wall,
                "tokens": work.tokens / work.frames,
                "of_plain": timing.ratio(took, times["none"])[0],
                **reads.share(work.leaving_arcs, took.seconds),
            }
            if placement != "none":
                row |= {
                    "of_resident": timing.ratio(took, times["resident"])[0],
                    "hits": 100 * (work.lookup_hits or 0.0),
                    "of_twin": on_one / took.seconds,
                    "of_cores": on_all.seconds / took.seconds,
                }
            yield row


def draw(rows: list[Row], path: Path) -> None:
    series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if "batch" in row:
            points = series.setdefault(f"{row['placement']}, beam {row['search']}", [])
            points.append((float(row["batch"]), float(row["rtfx"])))  # type: ignore[arg-type]
    plots.line_plot(path, series, "utterances in a batch", "RTFx", log="x", title=f"{GRAPH}, {SET}, n = {LIMIT}")
