"""A language model of two billion n-grams on a GPU that may hold 2 GB for it.

The 3-gram of the books made larger, to option `ngrams` (`data/closed_lm.py`), in memory here, rescores the workload of
`gpu_rescoring` with 3 hypotheses a state in one batch. A bound is for all that is held on the device for language
models, the small one and tables of what was asked included (`decoder.memory().language_models`): 2 GB, and a tenth of
the model, for `host-direct`, 35 % of the model for `host`, 2 GB for `cpu`, which looks words up in KenLM's file of the
same n-grams, hash tables, made here, too. A budget (`gpu_budget`) is the bound less what budgets do not count; whoever
holds more than the bound, after the first decode or after all of them, has failed. Answers are the twin's, byte for
byte (`cpu`: with KenLM), before anything is timed; then all take turns with `resident`. Seconds are those until the
model was there, and until a decoder was: of the first `host-direct` the time in which the model is put in buckets,
where its index exceeds the budget. Arcs settled, of the reads: as in `gpu_arcs`.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import arcbeam
from arcbeam.core.errors import ArcbeamError
from benchmarks.adapters import SearchOptions, gpu
from benchmarks.data import datasets, graphs
from benchmarks.engine import ceilings, placements, rescoring_models
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row

ON_GPU = True
KERNELS = ("search", "rescore", "asking", "asking_arcs", "bucketed")
ORDER = 238
TITLE = "Rescoring with two billion n-grams"
GRAPH, SET = "spm512-3gram", "workload-512"
UTTERANCES, HYPOTHESES = 264, 3
NGRAMS = 2_110_000_000  # a little more than come out
YARDSTICK = "resident"


@dataclass(frozen=True)
class Holder:
    """Who decodes, and what it may hold of the device for language models.

    bound : bytes, or a share of the large model; none for the yardstick
    uncounted : bytes that a budget does not count: the small model; of who asks the host, tables of a batch, too
    """

    placement: str
    bound: float = 0.0
    uncounted: int = 0

    def bytes_of(self, model: int) -> int:
        """The bound in bytes, for a model of so many."""
        return int(self.bound if self.bound > 1 else self.bound * model)

    def budget(self, model: int) -> int | None:
        return self.bytes_of(model) - self.uncounted if self.bound else None


TWO_GB, SMALL, TABLES = 2e9, 50_000_000, 650_000_000
# A process for each: what fails leaves the others.
TOGETHER: tuple[tuple[Holder, ...], ...] = (
    (Holder("host-direct", TWO_GB, SMALL), Holder("host-direct", 0.1, SMALL)),
    (Holder("host", 0.35, TABLES),),
    (Holder("cpu", TWO_GB, TABLES),),
)
TAKES = {
    "ngrams": "of the large model, about (2.11 billion, of which 2.05 come out; less than 2^31)",
    "kenlm": "0: KenLM has no model",
    "beams": "17, 12 (both)",
}
COLUMNS = [
    Column("beam / max_active", "search"),
    Column("placement", "placement"),
    Column("n-grams", "ngrams", "{:,}"),
    Column("model, GB", "model_gb", "{:.2f}"),
    Column("its arcs, GB", "arcs_gb", "{:.2f}"),
    Column("made in, s", "made_s", "{:.1f}"),
    Column("budget, GB", "budget_gb", "{:.2f}"),
    Column("bound, GB", "bound_gb", "{:.2f}"),
    Column("on the GPU, GB", "device_gb", "{:.2f}"),
    Column("of the bound, %", "of_bound", "{:.1f}"),
    Column("share of the model, %", "share", "{:.1f}"),
    Column("pinned, GB", "pinned_gb", "{:.2f}"),
    Column("in buckets, GB", "bucketed_gb", "{:.2f}"),
    Column("decoder after, s", "ready_s", "{:.1f}"),
    Column("milliseconds", "ms", "{:.2f}"),
    Column("spread", "spread", "{:.2f}"),
    Column("the first", "first_ms", "{:.2f}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("times resident", "of_resident", "{:.2f}"),
    Column("look-ups a frame", "lookups", "{:.2f}"),
    Column("distinct", "distinct", "{:.2f}"),
    Column("hit rate, %", "hits", "{:.1f}"),
    Column("bytes a frame", "bytes", "{:,.0f}"),
    Column("lanes wait, % of their time", "waits", "{:.1f}"),
    Column("arcs settled, of the reads", "of_reads", "{:.3f}"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    files = graphs.get(GRAPH, context.progress)
    dataset = gpu.cycled(datasets.load(SET, UTTERANCES), context.utterances or UTTERANCES)
    models = rescoring_models.load(GRAPH)
    ngrams = int(context.options.get("ngrams", NGRAMS))
    larger, facts = rescoring_models.closed(models, ngrams, context.progress, context.options.get("kenlm") != "0")
    beams = [float(beam) for beam in context.options.get("beams", "17,12").split(",")]
    every = [(options, group) for options in gpu.BEAMS if options.beam in beams for group in TOGETHER]
    with placements.words_matched_once():
        for options, group in every:
            context.progress(f"beam {options.beam:g}: {', '.join(one.placement for one in group)}")
            what = {"search": gpu.beam_text(options), "placement": group[0].placement}
            yield from gpu.rows_or_failure(
                what, group_rows, context, files, dataset, options, larger, facts, what, group
            )  # fmt: skip


class TooMuch(ArcbeamError):
    """More is held on the device for language models than the bound."""


def note_held(row: Row, decoder: "arcbeam.CtcDecoder", model_bytes: int, bound: int | None) -> None:
    """Notes what a decoder holds, on the device for language models and of pinned memory.

    Raises
    ------
    TooMuch
        More than the bound, in bytes.
    """
    taken = decoder.memory()
    found = taken.language_models
    row |= {"device_gb": found / 1e9, "pinned_gb": taken.pinned / 1e9, "bucketed_gb": taken.bucketed / 1e9}
    row |= {"of_bound": bound and 100 * found / bound, "share": 100 * found / model_bytes}
    if bound is not None and found > bound:
        raise TooMuch(f"{found:,} bytes are held for language models, {bound:,} are the bound")


def group_rows(
    context: Context,
    files: graphs.GraphFiles,
    dataset: datasets.Dataset,
    options: SearchOptions,
    models: Mapping[str, Any],
    facts: Mapping[str, Row],
    what: Row,
    group: tuple[Holder, ...],
) -> Iterator[Row]:
    """Rows of some placements, that of `resident` first."""
    reads = ceilings.reads_if_any(files.graph, context)
    arrays = gpu.send(dataset.utterances)
    large = models["language_model"]
    size, arcs = large.info().bytes, large.columns["arcs"].nbytes
    turns: dict[str, Callable[[], object]] = {}
    rows: dict[str, tuple[Row, Any, int | None]] = {}
    wanted: list[Any] = []
    for holder in (Holder(YARDSTICK), *group):
        placement, budget = holder.placement, holder.budget(size)
        bound = None if budget is None else holder.bytes_of(size)
        label = f"{placement} {bound}"
        is_kenlm = placement == "cpu"
        row = what | {"placement": placement}
        row |= {"ngrams": sum(large.about["ngrams"]), "model_gb": size / 1e9, "arcs_gb": arcs / 1e9} | facts["ours"]
        if budget is not None and bound is not None:
            row |= {"budget_gb": budget / 1e9, "bound_gb": bound / 1e9}
        if is_kenlm:
            row |= {"arcs_gb": None} | facts["kenlm"]
        began = time.monotonic()

        def make(placement: str = placement, budget: int | None = budget) -> "arcbeam.CtcDecoder":
            chosen = placements.models_of(placement, models) | {"hypotheses_per_state": HYPOTHESES}
            return gpu.decoder(files.graph, options, placement=placement, gpu_budget=budget, **chosen)

        decoder, status = placements.seat(make)
        if decoder is None:
            yield row | {"status": status}
            continue
        row["ready_s"] = time.monotonic() - began
        try:
            began = time.perf_counter()
            found = decoder.decode(arrays)
            row["first_ms"] = 1e3 * (time.perf_counter() - began)
            if is_kenlm or not wanted:
                theirs = placements.models_of(placement, models) | {"hypotheses_per_state": HYPOTHESES}
                gpu.check(found, files.graph, options, dataset.utterances, **theirs)
            if not is_kenlm:
                wanted = wanted or found
                gpu.compare(found, wanted)
            note_held(row, decoder, size, bound)
        except (ArcbeamError, gpu.Wrong) as error:
            yield row | {"status": f"failed: {type(error).__name__}: {error}"}
            continue
        rows[label] = row, decoder, bound
        turns[label] = lambda one=decoder: one.decode(arrays)  # type: ignore[misc]
    times = timing.interleave(turns, context.repeats)
    for label, (row, decoder, bound) in rows.items():
        if row["placement"] == YARDSTICK and group is not TOGETHER[0]:
            continue  # it has its row
        took = times[label]
        more: Row = {
            "wall": took.wall,
            "ms": 1e3 * took.seconds,
            "spread": [1e3 * s for s in took.spread()],
            "rtfx": dataset.seconds / took.seconds,
            "of_reads": reads and reads.share(decoder.stats.leaving_arcs, took.seconds)["share"],
        }
        if f"{YARDSTICK} None" in times:
            more["of_resident"] = timing.ratio(took, times[f"{YARDSTICK} None"])[0]
        try:
            note_held(row, decoder, size, bound)
        except TooMuch as error:
            more["status"] = f"failed: {type(error).__name__}: {error}"
        yield row | more | placements.looked_up(decoder.stats)
