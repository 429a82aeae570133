"""What rescoring with a large language model costs on a GPU: none, resident, and in host memory behind arc caches.

The graph of 512 pieces, whose 3-gram is a pruned part of the large one. Utterances are decoded in one batch, log-probs
(float32) on the device; answers are the twin's before anything is timed. Resident and `host-direct` take turns, those
with requests to the host, and those in buckets; with each group `none`, and `resident` without a cache. A cache's size
is a share of the model's bytes; hit rates are of the distinct look-ups of the last decode, when the cache is warm, and
bytes are those of the model that were read, in sectors of 32; where the model is in host memory, over the bus, the
index on the device not counted; of `host` and `cpu`, those of questions and answers. `cpu` has KenLM's model of the
same n-grams, and the answers of the twin with KenLM.

With 3 hypotheses a state the twin with our model, on one core and on all of them, takes turns with `resident` without a
cache. It has all utterances; the first 16 where one core would take more than 25 seconds a turn. Its own "times
resident" is the ratio within a turn, for all utterances; that of other rows is in the columns "times as long", the
twin's median over theirs. Our goal is at least 100 times one core and 10 times 16 cores. With other limits one
core alone decodes the first 16, once, and its time is that of the processor.
"""

import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import arcbeam
from benchmarks.adapters import SearchOptions, gpu
from benchmarks.data import datasets, graphs
from benchmarks.engine import rescoring_models
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row

ON_GPU = True
KERNELS = ("search", "rescore", "host_lookup", "host_arcs", "bucketed")
ORDER = 236
TITLE = "Rescoring with a large language model"
GRAPH, SET = "spm512-3gram", "workload-512"
UTTERANCES, OF_TWIN = 264, 16
MOST_TWIN_S = 25.0  # that one core of the twin may take for a turn of all utterances
LIMITS = (1, 3, 8, None)
SHARES = (0.0, 0.01, 0.1, 1.0)  # of the model's bytes, for the cache
BUCKETED, TWIN = "host-direct, in buckets", "the twin"
LIMIT = 3  # with which the twin is measured in turns
COLUMNS = [
    Column("beam / max_active", "search"),
    Column("hypotheses a state", "hypotheses"),
    Column("n-grams", "ngrams", "{:,}"),
    Column("the model", "placement"),
    Column("cores", "cores"),
    Column("utterances", "utterances"),
    Column("cache, MB", "cache_mb", "{:.1f}"),
    Column("milliseconds", "ms", "{:.2f}"),
    Column("spread", "spread", "{:.2f}", timing.ms_spread),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("times none", "of_plain", "{:.2f}"),
    Column("times resident", "of_resident", "{:.2f}"),
    Column("tokens a frame", "tokens", "{:.1f}"),
    Column("look-ups a frame", "lookups", "{:.2f}"),
    Column("distinct", "distinct", "{:.2f}"),
    Column("hit rate, %", "hits", "{:.1f}"),
    Column("bytes a frame", "bytes", "{:,.0f}"),
    Column("waits for the host, %", "waiting", "{:.1f}"),
    Column("one core of the twin, times as long", "of_twin", "{:.0f}"),
    Column("all cores, times as long", "of_cores", "{:.1f}"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    files = graphs.get(GRAPH, context.progress)
    dataset = gpu.cycled(datasets.load(SET, UTTERANCES), context.utterances or UTTERANCES)
    models = rescoring_models.load(GRAPH)
    kenlm = None
    try:
        kenlm = rescoring_models.kenlm()
    except arcbeam.MissingDependencyError as error:
        yield {"placement": "cpu", "status": f"missing: {error}"}
    count = sum(models["language_model"].about["ngrams"])
    for options, n in itertools.product(gpu.BEAMS, LIMITS):
        context.progress(f"beam {options.beam:g}, {n or 'no limit'}")
        what = {"search": gpu.beam_text(options), "hypotheses": n or "no limit", "ngrams": count}
        yield from gpu.rows_or_failure(what, several, context, files, dataset, options, n, models, kenlm, what)


def several(
    context: Context,
    files: graphs.GraphFiles,
    dataset: datasets.Dataset,
    options: SearchOptions,
    n: int | None,
    models: "dict[str, arcbeam.LanguageModel]",
    kenlm: "arcbeam.KenLM | None",
    what: Row,
) -> Iterator[Row]:
    """Rows of one model, beam and limit: contenders that take turns."""
    arrays = gpu.send(dataset.utterances)
    rescoring = models | {"hypotheses_per_state": n}
    size = models["language_model"].info().bytes
    askers = ("host",) if kenlm is None else ("host", "cpu")
    groups = [
        [("resident", size // 10), *(("host-direct", int(size * share)) for share in SHARES)],
        [(asker, int(size * share)) for asker in askers for share in (0.0, 0.1)],
        [(BUCKETED, int(size * share)) for share in SHARES[:3]],
    ]
    plain = gpu.decoder(files.graph, options)
    gpu.check(plain.decode(arrays), files.graph, options, dataset.utterances)

    def seat(placement: str, cache: int) -> "arcbeam.CtcDecoder":
        """A decoder whose answers are the twin's."""
        # A budget that the cache fills has no room for the index: the model is in buckets.
        where = {"placement": placement.split(",")[0], "gpu_budget": max(1, cache) if placement == BUCKETED else None}
        given = rescoring | ({"language_model": kenlm} if placement == "cpu" else {})
        decoder = gpu.decoder(files.graph, options, arc_cache=cache, **where, **given)
        found = decoder.decode(arrays)
        known = wanted.get(placement == "cpu")
        if known is not None:
            gpu.compare(found, known)
        else:
            gpu.check(found, files.graph, options, dataset.utterances, **given)
            wanted[placement == "cpu"] = found
        return decoder

    wanted: dict[bool, list[arcbeam.Hypothesis]] = {}
    yardsticks = {("none", 0): plain, ("resident", 0): seat("resident", 0)}
    one_core, all_cores = twins(files, options, rescoring)
    seconds = processor_seconds(one_core, dataset)
    beside: dict[str, float] = {"of_twin": seconds}
    of_twins: list[Row] = []
    if n == LIMIT:
        part = dataset if seconds <= MOST_TWIN_S else dataset.first(OF_TWIN)
        resident = yardsticks["resident", 0]
        beside, of_twins = twin_rows(
            context, dataset, part, (one_core, all_cores), lambda: resident.decode(arrays), wanted[False], what
        )
    for places in groups:
        # All at once have no room on the device where there is no limit: the last ones got few lanes, and were slow.
        decoders = yardsticks | {place: seat(*place) for place in places}
        calls: dict[str, Callable[[], object]] = {
            f"{place} {cache}": lambda one=one: one.decode(arrays)  # type: ignore[misc]
            for (place, cache), one in decoders.items()
        }
        times = timing.interleave(calls, context.repeats)
        for (place, cache), decoder in decoders.items():
            if (place, cache) in yardsticks and places is not groups[0]:
                continue
            took, work = times[f"{place} {cache}"], decoder.stats
            row: Row = what | {
                "placement": place,
                "cache_mb": cache / 1e6,
                "wall": took.wall,
                "ms": 1e3 * took.seconds,
                "spread": [1e3 * s for s in took.spread()],
                "rtfx": dataset.seconds / took.seconds,
                "of_plain": timing.ratio(took, times["none 0"])[0],
                "tokens": work.tokens / work.frames,
            }
            if place != "none":
                row |= {
                    "of_resident": timing.ratio(took, times["resident 0"])[0],
                    "lookups": work.lookups / work.frames,
                    "distinct": (work.distinct_lookups or 0) / work.frames,
                    "hits": 100 * (work.lookup_hits or 0.0),
                    "bytes": (work.model_bytes_read or 0) / work.frames,
                    "model_bytes": size,
                }
                row |= {key: seconds / took.seconds for key, seconds in beside.items()}
            if work.lookup_waiting is not None:
                row["waiting"] = 100 * work.lookup_waiting
            yield row
        del decoders, calls, decoder
    yield from of_twins


def twins(
    files: graphs.GraphFiles, options: SearchOptions, rescoring: Mapping[str, Any]
) -> tuple["arcbeam.CtcDecoder", "arcbeam.CtcDecoder"]:
    """The twin on one core, and on all."""
    cores = len(os.sched_getaffinity(0))
    one, every = (gpu.decoder(files.graph, options, device="cpu", threads=k, **rescoring) for k in (1, cores))
    return one, every


def on_host(dataset: datasets.Dataset) -> list[Any]:
    return [np.ascontiguousarray(u, np.float32) for u in dataset.utterances]


def processor_seconds(twin: "arcbeam.CtcDecoder", dataset: datasets.Dataset) -> float:
    """What all utterances would take, by the first of them."""
    few = dataset.first(OF_TWIN)
    batch, began = on_host(few), time.process_time()
    twin.decode(batch)
    return (time.process_time() - began) * dataset.seconds / few.seconds


def twin_rows(
    context: Context,
    dataset: datasets.Dataset,
    part: datasets.Dataset,
    twins: Sequence["arcbeam.CtcDecoder"],
    resident: Callable[[], object],
    wanted: Sequence[Any],
    what: Row,
) -> tuple[dict[str, float], list[Row]]:
    """Seconds that one core and all would take for the whole set, and a row of each, in turns with ``resident``.

    part : what the twins decode
    wanted : the GPU's answers to the whole set
    """
    batch, longer = on_host(part), dataset.seconds / part.seconds
    calls: dict[str, Callable[[], object]] = {"resident": resident}
    for key, twin in zip(("of_twin", "of_cores"), twins, strict=True):
        gpu.compare(twin.decode(batch), wanted[: len(batch)])
        calls[key] = lambda twin=twin: twin.decode(batch)  # type: ignore[misc]
    times = timing.interleave(calls, context.repeats, warm_up=False)
    rows: list[Row] = []
    for key, twin, cores in zip(("of_twin", "of_cores"), twins, (1, len(os.sched_getaffinity(0))), strict=True):
        took, work = times[key], twin.stats
        rows.append(
            what
            | {
                "placement": TWIN,
                "cores": cores,
                "utterances": len(batch),
                "wall": took.wall,
                "ms": 1e3 * took.seconds,
                "spread": [1e3 * s for s in took.spread()],
                "rtfx": part.seconds / took.seconds,
                "of_resident": longer * timing.ratio(took, times["resident"])[0],
                "tokens": work.tokens / work.frames,
                "lookups": work.lookups / work.frames,
            }
        )
    return {key: longer * times[key].seconds for key in ("of_twin", "of_cores")}, rows
