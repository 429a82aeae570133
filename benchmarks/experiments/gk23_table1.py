"""GK23 Table 1: word error rate of the lexicon decoder and of graphs with compact and normal topology.

Every decoder has the same words and the same 3-gram LM. The acoustic scale is chosen for each on `ljspeech-200`, from
1, 1.5 and 2, and then used on `test-other-100`, which is never tuned on; beside it is the WER at scale 1. A corpus of
your own (`--set corpus=`) is decoded at each scale, and the table shows all of them. Nothing is timed: the decoders of
CPUs use all cores.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from benchmarks.adapters import Adapter, SearchOptions, why
from benchmarks.data.datasets import Dataset
from benchmarks.data.graphs import NORMAL, GraphFiles
from benchmarks.experiments.wer import greedy
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import contest, forked, gk23
from benchmarks.tasks.contest import Contender
from data.word_errors import word_error_rate

ORDER, PAPER, ON_GPU = 1, gk23.PAPER, None
KEEPS_CUDA = True
TITLE = "Table 1: word error rate"
TUNED_ON, TESTED_ON = "ljspeech-200", "test-other-100"
SCALES = (1.0, 1.5, 2.0)
TAKES = {
    **gk23.GRAPH_OPTIONS,
    **gk23.CORPUS_OPTIONS,
    **{k: v for k, v in gk23.SEARCH_OPTIONS.items() if k != "acoustic_scale"},
}
COLUMNS = [
    Column("decoder", "decoder"),
    Column("graph", "graph"),
    Column("set", "set"),
    Column("utterances", "utterances"),
    Column("words", "words", "{:,}"),
    Column("WER, %", "wer", "{:.2f}"),
    Column("acoustic scale", "scale", "{:g}"),
    *(Column(f"WER at scale {s:g}, %", f"wer_{s:g}", "{:.2f}") for s in SCALES),
    Column("device", "device"),
    Column("settings", "settings"),
    Column("status", "status"),
]
CORES = {"threads": gk23.core_counts()[-1]}
LEXICON = (
    Contender("flashlight-text", gk23.REFERENCE),
    Contender("baseline", "baseline_words", CORES),
    Contender("baseline, mended rules", "baseline_words", {"mended": True} | CORES),
)
WFST = (
    Contender("arcbeam cpu", "arcbeam_cpu", CORES),
    Contender("arcbeam cuda", "arcbeam_cuda"),
    Contender("riva-asrlib-decoder", "riva"),
)


def run(context: Context) -> Iterator[Row]:
    compact = gk23.graph_files(context)
    options = gk23.search_options(context)
    found = gk23.sets(context, compact, (TUNED_ON, TESTED_ON), options.batch)
    yield from greedy_rows(found, compact)
    wanted = contest.chosen(LEXICON + WFST, context.options.get("contenders"))
    for contender in (c for c in wanted if c in LEXICON):
        yield from rows(context, contender, compact, "none", found, options)
    with_graphs = [c for c in wanted if c not in LEXICON]
    for topology, files in graphs_of(context, compact) if with_graphs else ():
        for contender in with_graphs:
            yield from rows(context, contender, files, topology, found, options)


def graphs_of(context: Context, compact: GraphFiles) -> Iterator[tuple[str, GraphFiles]]:
    yield "compact", compact
    if "graph_normal" in context.options:
        yield "normal", gk23.graph_files(context, key="graph_normal")
    elif "graph" not in context.options or not context.options["graph"].endswith((".fst", ".arcbeam", ".arc")):
        yield "normal", gk23.graph_files(context, compact.name.removesuffix(NORMAL) + NORMAL, key="graph_normal")


def greedy_rows(found: list[Dataset], files: GraphFiles) -> Iterator[Row]:
    if files.graph.separator_column is None:
        return  # pieces: their spelling is the decoders' business
    for dataset in found:
        wer = 100 * word_error_rate(dataset.references, greedy(dataset))
        yield {"decoder": "greedy", "graph": "none", **_of(dataset), "wer": wer, "device": "cpu"}


def _of(dataset: Dataset) -> Row:
    words = sum(len(r.split()) for r in dataset.references)
    return {"set": dataset.name, "utterances": len(dataset.ids), "words": words}


def rows(
    context: Context,
    contender: Contender,
    files: GraphFiles,
    topology: str,
    found: list[Dataset],
    options: SearchOptions,
) -> Iterator[Row]:
    """A row a set: WER at each scale, and at the one that was best on the tuning set."""
    context.step(f"making {contender.label}")
    seat = contest.seat(contender, files, options)
    if seat.adapter is None:
        yield seat.row | {"graph": topology}
        return
    wers: dict[str, dict[float, float]] = {dataset.name: {} for dataset in found}
    for scale in SCALES:
        context.progress(f"{contender.label}, {topology}, acoustic scale {scale:g}")
        for dataset in found:
            scaled = [u.astype(np.float32) * np.float32(scale) for u in dataset.utterances]
            try:
                said = texts(context, contender, seat.adapter, scaled)
            except Exception as error:  # of one decoder; the others' rows are worth having
                yield seat.row | {"graph": topology, "status": f"failed: {type(error).__name__}: {why(error)}"}
                return
            wers[dataset.name][scale] = 100 * word_error_rate(dataset.references, said)
    settings = str(seat.row["settings"]).replace(", acoustic scale 1", "")
    for dataset in found:
        of_set = wers[dataset.name]
        row = seat.row | {"graph": topology, "settings": settings, **_of(dataset)}
        row |= {f"wer_{scale:g}": wer for scale, wer in of_set.items()}
        if TUNED_ON in wers:
            best = min(SCALES, key=lambda s: wers[TUNED_ON][s])
            row |= {"scale": best, "wer": of_set[best]}
        yield row


def texts(
    context: Context, contender: Contender, adapter: Adapter, utterances: list[npt.NDArray[np.float32]]
) -> list[str]:
    """What the decoder says; flashlight-text by as many processes as there are cores, unless CUDA has been used."""
    if contender.adapter == gk23.REFERENCE and not (context.gpu and "corpus" in context.options):
        return forked.texts_of_processes(adapter, utterances, CORES["threads"])
    return forked.texts(adapter, utterances)
