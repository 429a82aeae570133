"""What rescoring with a large language model costs on a GPU: none, resident, and in host memory behind arc caches.

The graph of 512 pieces, whose 3-gram is a pruned part of the large one; and the large one inflated to the n-grams of
option `ngrams` (200 million; 0 for none), see `data/inflated_lm.py`: what it costs where nothing fits L2. Utterances
are decoded in one batch, log-probs (float32) on the device; answers are the twin's before anything is timed. Resident
and `host-direct` take turns, those who ask the host, and those in buckets; with each group `none`, and `resident`
without a cache. A cache's size is a share of the model's bytes; hit rates are of the distinct look-ups of the last
decode, when the cache is warm, and bytes are those of the model that were read, in sectors of 32; where the model is
in host memory, over the bus, the index on the device not counted; of `host` and `cpu`, those of questions and answers.
`cpu` has KenLM's model of the same ARPA, and the answers of the twin with KenLM. The twin is timed on one core, with a
part of the utterances and our model. `of the reads`: arcs settled a second over the random reads a second of the same
process.
"""

import time
from collections.abc import Callable, Iterator

import numpy as np

import arcbeam
from benchmarks import ceilings, datasets, gpu, graphs, rescoring_models, seeds, timing
from benchmarks.adapters import SearchOptions
from benchmarks.registry import Column, Context, Row
from data import inflated_lm

ON_GPU = True
KERNELS = ("search", "rescore", "asking", "asking_arcs", "bucketed")
ORDER = 236
TITLE = "Rescoring with a large language model"
GRAPH, SET = "spm512-3gram", "workload-512"
UTTERANCES, OF_TWIN = 264, 16
LIMITS = (1, 3, 8, None)
SHARES = (0.0, 0.01, 0.1, 1.0)  # of the model's bytes, for the cache
BUCKETED = "host-direct, in buckets"
NGRAMS, LIMIT = 200_000_000, 3  # of the inflated model, and the limit that it is measured with
COLUMNS = [
    Column("beam / max_active", "search"),
    Column("hypotheses a state", "hypotheses"),
    Column("n-grams", "ngrams", "{:,}"),
    Column("the model", "placement"),
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
    Column("arcs settled, G/s", "settled", "{:.1f}"),
    Column("of the reads", "share", "{:.3f}"),
    Column("one core of the twin, times as long", "of_twin", "{:.0f}"),
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
    runs = [(models, kenlm, options, n) for options in gpu.BEAMS for n in LIMITS]
    ngrams = int(context.options.get("ngrams", NGRAMS))
    if ngrams:
        context.progress(f"making a model of {ngrams:,} n-grams")
        inflated = models | {
            "language_model": inflated_lm.inflate(models["language_model"], ngrams, seeds.used("inflated model", 0))
        }
        runs += [(inflated, None, options, LIMIT) for options in gpu.BEAMS]
    for chosen, same, options, n in runs:
        count = sum(chosen["language_model"].about["ngrams"])
        context.progress(f"{count:,} n-grams, beam {options.beam:g}, {n or 'no limit'}")
        what = {"search": gpu.beam_text(options), "hypotheses": n or "no limit", "ngrams": count}
        yield from gpu.rows_or_failure(what, several, context, files, dataset, options, n, chosen, same, what)


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
    reads = ceilings.reads_of(files.graph, context.repeats)
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
    few = [np.ascontiguousarray(u) for u in dataset.utterances[:OF_TWIN]]
    twin = gpu.decoder(files.graph, options, device="cpu", threads=1, **rescoring)
    began = time.process_time()
    twin.decode(few)
    share = sum(map(len, few)) / sum(map(len, dataset.utterances))
    twin_seconds = (time.process_time() - began) / share
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
                "settled": work.leaving_arcs / took.seconds / 1e9,
                "share": work.leaving_arcs / took.seconds / reads.a_second,
            }
            if place != "none":
                row |= {
                    "of_resident": timing.ratio(took, times["resident 0"])[0],
                    "lookups": work.lookups / work.frames,
                    "distinct": (work.distinct_lookups or 0) / work.frames,
                    "hits": 100 * (work.lookup_hits or 0.0),
                    "bytes": (work.model_bytes_read or 0) / work.frames,
                    "of_twin": twin_seconds / took.seconds,
                    "model_bytes": size,
                }
            if work.lookup_waiting is not None:
                row["waiting"] = 100 * work.lookup_waiting
            yield row
        del decoders, calls, decoder
