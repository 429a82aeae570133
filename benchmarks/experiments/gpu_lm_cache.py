"""Time against the size of the arc cache, for each placement of the large language model on a GPU.

Workload, graph and models are those of `gpu_rescoring`: the 3-gram of the books over its pruned part, and the same made
larger, to option `ngrams` (`data/closed_lm.py`); 3 hypotheses a state, one batch, log-probs (float32) on the device.
Sizes of the cache are shares of the model's bytes, from none to all of them. Answers are the twin's before anything is
timed, those of `cpu` the twin's with KenLM's model, which has the same n-grams, and the caches of a placement take
turns with `resident` without a cache. Hit rates are of the distinct look-ups, of the first decode of an empty cache and
of the last one; bytes are those of the model that were read, in sectors of 32, over the bus where the model is in host
memory; of `host` and `cpu`, those of questions and answers. Arcs settled, of the reads: as in `gpu_arcs`.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from arcbeam.core.errors import ArcbeamError
from benchmarks.adapters import SearchOptions, gpu
from benchmarks.data import datasets, graphs
from benchmarks.engine import ceilings, placements, rescoring_models
from benchmarks.harness import plots, timing
from benchmarks.harness.registry import Column, Context, Row

ON_GPU = True
KERNELS = ("search", "rescore", "asking", "asking_arcs", "bucketed")
ORDER = 237
TITLE = "Rescoring: time against the size of the arc cache"
GRAPH, SET = "spm512-3gram", "workload-512"
UTTERANCES, HYPOTHESES = 264, 3
NGRAMS = 224_000_000  # 211 million come out
SHARES = (0.0, 0.001, 0.01, 0.1, 0.3, 1.0)
YARDSTICK = "resident, no cache"
TAKES = {
    "ngrams": "of the larger model, at most; 0 for none (224 million, of which 211 come out)",
    "beams": "17, 12 (both)",
}
COLUMNS = [
    Column("n-grams", "ngrams", "{:,}"),
    Column("beam / max_active", "search"),
    Column("placement", "placement"),
    Column("cache, % of the model", "share", "{:g}"),
    Column("cache, MB", "cache_mb", "{:,.2f}"),
    Column("milliseconds", "ms", "{:.2f}"),
    Column("spread", "spread", "{:.2f}"),
    Column("times resident without", "of_resident", "{:.2f}"),
    Column("hit rate, first decode, %", "cold_hits", "{:.1f}"),
    Column("last, %", "hits", "{:.1f}"),
    Column("look-ups a frame", "lookups", "{:.2f}"),
    Column("distinct", "distinct", "{:.2f}"),
    Column("bytes a frame", "bytes", "{:,.0f}"),
    Column("rounds a frame", "rounds", "{:.2f}"),
    Column("lanes wait, % of their time", "waits", "{:.1f}"),
    Column("arcs settled, of the reads", "of_reads", "{:.3f}"),
    Column("on the GPU, MB", "device_mb", "{:,.1f}"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    files = graphs.get(GRAPH, context.progress)
    dataset = gpu.cycled(datasets.load(SET, UTTERANCES), context.utterances or UTTERANCES)
    models: dict[str, Any] = dict(rescoring_models.load(GRAPH))
    several = [models | {placements.KENLM: placements.kenlm(rescoring_models.kenlm, context.progress)}]
    ngrams = int(context.options.get("ngrams", NGRAMS))
    if ngrams:
        several.append(rescoring_models.closed(models, ngrams, context.progress)[0])
    beams = [float(beam) for beam in context.options.get("beams", "17,12").split(",")]
    with placements.words_matched_once():
        for chosen in several:
            for options in (o for o in gpu.BEAMS if o.beam in beams):
                count = sum(chosen["language_model"].about["ngrams"])
                context.progress(f"{count:,} n-grams, beam {options.beam:g}")
                what = {"ngrams": count, "search": gpu.beam_text(options)}
                yield from gpu.rows_or_failure(what, rows_of_all, context, files, dataset, options, chosen, what)


def rows_of_all(
    context: Context,
    files: graphs.GraphFiles,
    dataset: datasets.Dataset,
    options: SearchOptions,
    models: Mapping[str, Any],
    what: Row,
) -> Iterator[Row]:
    """Rows of every placement of one model and beam."""
    reads = ceilings.reads_if_any(files.graph, context)
    arrays = gpu.send(dataset.utterances)
    limit = {"hypotheses_per_state": HYPOTHESES}
    ours = placements.models_of("resident", models) | limit
    yardstick = gpu.decoder(files.graph, options, **ours, **placements.options("resident"))
    wanted = yardstick.decode(arrays)
    gpu.check(wanted, files.graph, options, dataset.utterances, **ours)
    size = models["language_model"].info().bytes
    for placement in placements.ON_GPU:
        row = what | {"placement": placement, "model_bytes": size}
        of_share: dict[float, Any] = {}
        colds: dict[float, object] = {}
        for share in SHARES:
            cache = int(size * share)
            decoder, status = placements.seat(
                lambda cache=cache, placement=placement: gpu.decoder(  # type: ignore[misc]
                    files.graph, options, **placements.models_of(placement, models), **limit,
                    **placements.options(placement, cache),
                )
            )  # fmt: skip
            if decoder is None:
                yield row | {"status": status}
                break  # a larger cache would not help
            try:
                found = decoder.decode(arrays)
                if placement == "cpu" and not of_share:
                    theirs = placements.models_of("cpu", models) | limit
                    gpu.check(found, files.graph, options, dataset.utterances, **theirs)
                    wanted = found
                gpu.compare(found, wanted)
            except (ArcbeamError, gpu.Wrong) as error:  # the others' rows are worth having
                yield row | {"share": 100 * share, "status": f"failed: {type(error).__name__}: {error}"}
                continue
            colds[share] = placements.looked_up(decoder.stats)["hits"]
            of_share[share] = decoder
        turns: dict[str, Callable[[], object]] = {YARDSTICK: lambda: yardstick.decode(arrays)}
        turns |= {f"{share}": lambda one=one: one.decode(arrays) for share, one in of_share.items()}  # type: ignore[misc]
        times = timing.interleave(turns, context.repeats, warm_up=False) if of_share else {}
        for share, decoder in of_share.items():
            took = times[f"{share}"]
            yield (
                row
                | placements.looked_up(decoder.stats)
                | {
                    "share": 100 * share,
                    "cache_mb": int(size * share) / 1e6,
                    "wall": took.wall,
                    "ms": 1e3 * took.seconds,
                    "spread": [1e3 * s for s in took.spread()],
                    "of_resident": timing.ratio(took, times[YARDSTICK])[0],
                    "cold_hits": colds[share],
                    "device_mb": decoder.memory().language_models / 1e6,
                    "of_reads": reads and reads.share(decoder.stats.leaving_arcs, took.seconds)["share"],
                }
            )


def draw(rows: list[Row], path: Path) -> None:
    """Times of the largest model at the narrower beam; the legend has the time without a cache."""
    timed: list[dict[str, Any]] = [row for row in rows if "ms" in row]
    largest = max((row["ngrams"] for row in timed), default=0)
    search = timed[-1]["search"] if timed else "none"
    series: dict[str, list[tuple[float, float]]] = {}
    for placement in placements.ON_GPU:
        mine = [r for r in timed if (r["placement"], r["ngrams"], r["search"]) == (placement, largest, search)]
        without = "".join(f", none: {row['ms']:.1f} ms" for row in mine if not row["share"])
        if points := [(row["share"], row["ms"]) for row in mine if row["share"]]:
            series[placement + without] = points
    title = f"{largest:,} n-grams, beam / max_active {search}"
    plots.line_plot(path, series, "arc cache, % of the model's bytes", "milliseconds", log="x", title=title)
