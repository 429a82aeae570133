"""A language model of a billion n-grams on a GPU that may take 2 GB for it.

The 3-gram of the books made larger, to option `ngrams` (`data/closed_lm.py`), in memory here, rescores the workload of
`gpu_rescoring` with 3 hypotheses a state in one batch. `host-direct` may take 2 GB, and a tenth of the model; `host`
35 % of it, index and cache together. `cpu` may take 2 GB, for its cache, and looks words up in KenLM's file of the
same n-grams, hash tables, which is made here, too. Answers are the twin's, byte for byte (`cpu`: with KenLM), before
anything is timed; then all take turns with `resident`. Seconds are those until the model was there, and until a decoder
was: of the first `host-direct` the time in which the model is put in buckets, where its index exceeds the budget. Arcs
settled, of the reads: as in `gpu_arcs`.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import arcbeam
from arcbeam.errors import ArcbeamError
from benchmarks import ceilings, datasets, gpu, graphs, placements, rescoring_models, seeds, timing
from benchmarks.adapters import SearchOptions
from benchmarks.registry import Column, Context, Row
from data import closed_lm

ON_GPU = True
KERNELS = ("search", "rescore", "asking", "asking_arcs", "bucketed")
ORDER = 238
TITLE = "Rescoring with a billion n-grams"
GRAPH, SET = "spm512-3gram", "workload-512"
UTTERANCES, HYPOTHESES = 264, 3
NGRAMS = 1_050_000_000  # a little more than come out
BUDGET = 2_000_000_000
YARDSTICK = "resident"
# What decodes, and its budget: bytes, or a share of the model. A process for each row: what fails leaves the others.
TOGETHER: tuple[tuple[tuple[str, float], ...], ...] = (
    (("host-direct", BUDGET), ("host-direct", 0.1)),
    (("host", 0.35),),
    (("cpu", BUDGET),),
)
TAKES = {
    "ngrams": "of the large model, about (1.05 billion; less than 2^31)",
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
    Column("on the GPU, GB", "device_gb", "{:.2f}"),
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
    models: dict[str, Any] = dict(rescoring_models.load(GRAPH))
    ngrams = int(context.options.get("ngrams", NGRAMS))
    facts = make_models(models, ngrams, context.options.get("kenlm") != "0", context.progress)
    beams = [float(beam) for beam in context.options.get("beams", "17,12").split(",")]
    every = [(options, group) for options in gpu.BEAMS if options.beam in beams for group in TOGETHER]
    with placements.words_matched_once():
        for options, group in every:
            context.progress(f"beam {options.beam:g}: {', '.join(name for name, _ in group)}")
            what = {"search": gpu.beam_text(options), "placement": group[0][0]}
            yield from gpu.rows_or_failure(
                what, group_rows, context, files, dataset, options, models, facts, what, group
            )  # fmt: skip


def make_models(models: dict[str, Any], ngrams: int, with_kenlm: bool, say: Callable[[str], None]) -> dict[str, Row]:
    """Puts the large models in; returns what rows say of them. KenLM maps its file, whose name goes at once."""
    say(f"making a model of {ngrams:,} n-grams")
    began = time.monotonic()
    made, pairs = closed_lm.close(models["language_model"], ngrams, seeds.used("the closed model", 0))
    facts: dict[str, Row] = {"ours": {"made_s": time.monotonic() - began}, "kenlm": {}}
    models |= {"language_model": made, placements.KENLM: None}
    if not with_kenlm:
        return facts
    say(f"{made.info().bytes:,} bytes; making KenLM's")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=roomy(20 * ngrams)) as folder:
        path = Path(folder, "closed.probing")

        def write() -> "arcbeam.KenLM":
            arpa = datasets.data_folder() / "lm" / rescoring_models.LARGE
            closed_lm.write_kenlm(made, pairs, arpa, path)
            return arcbeam.KenLM(path)

        models[placements.KENLM] = placements.kenlm(write, say)
        if path.exists():
            facts["kenlm"] = {"made_s": time.monotonic() - began, "model_gb": path.stat().st_size / 1e9}
    return facts


def roomy(size: int) -> str | None:
    """The folder of files that are kept in memory, if it has room for so many bytes twice; None for the usual one."""
    memory = Path("/dev/shm")
    return str(memory) if memory.is_dir() and shutil.disk_usage(memory).free > 2 * size else None


def group_rows(
    context: Context,
    files: graphs.GraphFiles,
    dataset: datasets.Dataset,
    options: SearchOptions,
    models: Mapping[str, Any],
    facts: Mapping[str, Row],
    what: Row,
    group: tuple[tuple[str, float], ...],
) -> Iterator[Row]:
    """Rows of some placements, that of `resident` first."""
    reads = ceilings.reads_if_any(files.graph, context)
    arrays = gpu.send(dataset.utterances)
    large = models["language_model"]
    size, arcs = large.info().bytes, large.columns["arcs"].nbytes
    turns: dict[str, Callable[[], object]] = {}
    rows: dict[str, tuple[Row, Any]] = {}
    wanted: list[Any] = []
    for placement, given in ((YARDSTICK, 0.0), *group):
        budget = int(given if given > 1 else given * size)
        label = f"{placement} {budget}"
        is_kenlm = placement == "cpu"
        row = what | {"placement": placement, "budget_gb": budget / 1e9 if budget else None}
        row |= {"ngrams": sum(large.about["ngrams"]), "model_gb": size / 1e9, "arcs_gb": arcs / 1e9} | facts["ours"]
        if is_kenlm:
            row |= {"arcs_gb": None} | facts["kenlm"]
        began = time.monotonic()

        def make(placement: str = placement, budget: int = budget) -> "arcbeam.CtcDecoder":
            chosen = placements.models_of(placement, models) | {"hypotheses_per_state": HYPOTHESES}
            return gpu.decoder(files.graph, options, placement=placement, gpu_budget=budget or None, **chosen)

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
        except (ArcbeamError, gpu.Wrong) as error:
            yield row | {"status": f"failed: {type(error).__name__}: {error}"}
            continue
        taken = decoder.memory()
        row |= {"device_gb": taken.language_models / 1e9, "pinned_gb": taken.pinned / 1e9}
        row["bucketed_gb"] = taken.bucketed / 1e9
        row["share"] = None if is_kenlm else 100 * taken.language_models / size
        rows[label] = row, decoder
        turns[label] = lambda one=decoder: one.decode(arrays)  # type: ignore[misc]
    times = timing.interleave(turns, context.repeats)
    for label, (row, decoder) in rows.items():
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
        if f"{YARDSTICK} 0" in times:
            more["of_resident"] = timing.ratio(took, times[f"{YARDSTICK} 0"])[0]
        yield row | more | placements.looked_up(decoder.stats)
