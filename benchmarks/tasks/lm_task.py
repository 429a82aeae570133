"""The task of the experiments after Fukunaga et al. 2019 and Kim & Lane 2014: graphs, large model, contenders, timing.

A folder has a large model, a small 3-gram that is a part of it, the lower orders of that as a bigram, and the graphs of
both, words spelled in letters. ``large-lm`` in the cache is made by `data/make_large_lm.py` from the text of the books
(4-gram, 76 million n-grams); ``books-lm`` is made here, on first use, from the 3-gram of the books by pruning it.
"""

import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import arcbeam
from arcbeam.core.errors import ArcbeamError
from arcbeam.ctc.decoder import DecodeStats
from arcbeam.graph.token_table import TokenTable
from benchmarks.adapters import SearchOptions, gpu
from benchmarks.data import datasets, graphs
from benchmarks.engine import placements, rescoring_models
from benchmarks.harness import plots, timing
from benchmarks.harness.registry import Column, Context, Row
from data import arpa_orders, arpa_prune
from data.word_errors import word_error_rate

ACOUSTIC_SCALE, LM_SCALE, MAX_ACTIVE = 1.5, 1.2, 10_000  # chosen on ljspeech-200, as in `rescoring_wer`
SETS = ("ljspeech-200", "test-other-100")
BOOKS = "books-lm"
PRUNED = 1e-6  # threshold of the small model of books-lm: 0.7 million n-grams
PIECES, WORKLOAD = "spm512-3gram", "workload-512"  # a search of many tokens, as in `gpu_rescoring`
TAKES = {
    "folder": "of the models and graphs (large-lm of the cache if it is there, else books-lm, made on first use)",
    "cores": "of the rows of several cores (all; 1 for no such rows, where other work disturbs them)",
}


@dataclass(frozen=True)
class Task:
    """Models and graphs by name: `small` and `bigram`; and the scales that go with them.

    models : the large LanguageModel, and KenLM's model of the same ARPA under `placements.KENLM`, or None there
    """

    models: Mapping[str, Any]
    graphs: Mapping[str, "arcbeam.Graph"]
    small: Mapping[str, "arcbeam.LanguageModel"]
    acoustic_scale: float = ACOUSTIC_SCALE
    lm_scale: float = LM_SCALE

    @property
    def row(self) -> Row:
        return {"ngrams": sum(self.models["language_model"].about["ngrams"])}


@dataclass(frozen=True)
class Contender:
    """One who decodes. placement : "none" without rescoring; on a CPU "auto", or "cpu" with KenLM's model

    hypotheses : a state, None for no limit
    single : one utterance after the other, not all in one batch
    first : so many utterances of the set alone
    """

    label: str
    device: str = "cpu"
    placement: str = "auto"
    graph: str = "small"
    hypotheses: int | None = None
    threads: int = 1
    single: bool = False
    first: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


def cores(context: Context) -> int:
    return int(context.options.get("cores", len(os.sched_getaffinity(0))))


def folder_of(context: Context) -> Path:
    if given := context.options.get("folder"):
        return Path(given)
    found = datasets.CACHE / "large-lm"
    return found if found.exists() else datasets.CACHE / BOOKS


def small_arpa(folder: Path, name: str, say: Callable[[str], None]) -> Path:
    """The ARPA of a small model, made on first use. Raises DataMissing."""
    path = folder / f"{name}.arpa"
    with graphs.one_at_a_time(f"{folder.name}-{name}-arpa"):
        if path.exists():
            return path
        say(f"making {path}")
        if name == "bigram":
            arpa_orders.cut_file(small_arpa(folder, "small", say), path, 2)
        elif folder.name == BOOKS:
            folder.mkdir(parents=True, exist_ok=True)
            arpa_prune.prune_file(datasets.data_folder() / "lm" / rescoring_models.LARGE, path, PRUNED)
        else:
            raise datasets.DataMissing(f"{path} is not there; python -m data.make_large_lm makes it")
    return path


def small_model(folder: Path, name: str, say: Callable[[str], None]) -> "arcbeam.LanguageModel":
    path = folder / f"{name}.lm"
    with graphs.one_at_a_time(f"{folder.name}-{name}-lm"):
        if not path.exists():
            arcbeam.LanguageModel.build(small_arpa(folder, name, say)).save(path)
    return arcbeam.LanguageModel.load(path)


def graph(folder: Path, name: str, say: Callable[[str], None]) -> "arcbeam.Graph":
    """The graph of a small model, letters to words, built on first use (a minute)."""
    from arcbeam.recipe.lexicon import Lexicon
    from arcbeam.recipe.word_lists import words_of_arpa

    path = folder / f"{name}.arcbeam"
    with graphs.one_at_a_time(f"{folder.name}-{name}"):
        if not path.exists():
            lm = small_arpa(folder, name, say)
            say(f"building {path}")
            tokens = TokenTable.read(datasets.data_folder() / "tokens.txt")
            arcbeam.Graph.build(tokens, Lexicon.spell(words_of_arpa(lm), tokens), lm).save(path)
    return arcbeam.Graph.load(path)


def large_model(folder: Path, say: Callable[[str], None]) -> "arcbeam.LanguageModel":
    path = folder / "large.lm"
    if folder.name == BOOKS:
        return rescoring_models.large()
    if not path.exists():
        arpa = folder / "large.arpa"
        if not arpa.exists():
            raise datasets.DataMissing(f"{arpa} is not there; python -m data.make_large_lm makes it")
        say(f"building {path}")
        arcbeam.LanguageModel.build(arpa).save(path)
    return arcbeam.LanguageModel.load(path)


def large_kenlm(folder: Path) -> "arcbeam.KenLM":
    if folder.name == BOOKS:
        return rescoring_models.kenlm()
    path = folder / "large.probing"
    if not path.exists():
        raise datasets.DataMissing(f"{path} is not there; KenLM's build_binary makes it of large.arpa")
    return arcbeam.KenLM(path)


def load(context: Context, names: Sequence[str] = ("small",), kenlm: bool = True) -> Task:
    """The models, KenLM's only where it is wanted, and the graphs of these names."""
    folder, say = folder_of(context), context.progress
    models = {
        "language_model": large_model(folder, say),
        placements.KENLM: placements.kenlm(lambda: large_kenlm(folder), say) if kenlm else None,
    }
    return Task(
        models,
        {name: graph(folder, name, say) for name in names},
        {name: small_model(folder, name, say) for name in names},
    )


def make(folder: Path, say: Callable[[str], None], names: Sequence[str] = ("small", "bigram")) -> None:
    """Everything of a task but KenLM's model."""
    large_model(folder, say)
    for name in names:
        graph(folder, name, say)
        small_model(folder, name, say)


def pieces(context: Context) -> Task:
    """SentencePiece words: the graph of a pruned 3-gram, rescored by the 3-gram of the books."""
    files = graphs.get(PIECES, context.progress)
    found = rescoring_models.load(PIECES)
    models = {
        "language_model": found["language_model"],
        placements.KENLM: placements.kenlm(rescoring_models.kenlm, context.progress),
    }
    return Task(models, {"small": files.graph}, {"small": found["graph_language_model"]}, 1.0, 1.0)


def sets(context: Context, names: Sequence[str] = SETS) -> list[datasets.Dataset]:
    return [datasets.load(name).first(context.utterances) for name in names]


def decoder(task: Task, contender: Contender, beam: float) -> "arcbeam.CtcDecoder":
    """Raises what :func:`placements.seat` knows where it cannot be made."""
    options = SearchOptions(beam, MAX_ACTIVE, task.acoustic_scale)
    more: dict[str, Any] = dict(contender.more)
    if contender.device == "cpu":
        more["threads"] = contender.threads
    if contender.placement == "none":
        options = SearchOptions(beam, MAX_ACTIVE, task.acoustic_scale / task.lm_scale)  # the graph's model has scale 1
    else:
        more |= placements.models_of(contender.placement, task.models)
        more |= {"graph_language_model": task.small[contender.graph], "lm_scale": task.lm_scale}
        more["hypotheses_per_state"] = contender.hypotheses
        if contender.device != "cpu":
            more["placement"] = contender.placement
    return gpu.decoder(task.graphs[contender.graph], options, contender.device, **more)


def measure(
    context: Context, task: Task, dataset: datasets.Dataset, beam: float, contenders: Sequence[Contender],
) -> Iterator[Row]:  # fmt: skip
    """A row a contender: its answers are those of a twin on all cores, byte for byte; then they take turns.

    Seconds are of the clock, and of processor time where one core works alone, which is the same on a quiet machine.
    The ratio is to the first contender that could be made, by seconds a second of audio, within a turn.
    """
    twins: dict[tuple[str, str, int | None], tuple[list[Any], float]] = {}

    def wanted(c: Contender) -> tuple[list[Any], float]:
        """What the CPU engine says on all cores, with KenLM's model where the contender has that; and its WER."""
        kind = c.placement if c.placement in ("none", "cpu") else "auto"
        key = (kind, c.graph, c.hypotheses)
        if key not in twins:
            twin = decoder(task, Contender("twin", "cpu", kind, c.graph, c.hypotheses, cores(context)), beam)
            answers = twin.decode(utterances)
            twins[key] = answers, word_error_rate(dataset.references, [h.text for h in answers])
        return twins[key]

    utterances = [np.ascontiguousarray(u, np.float32) for u in dataset.utterances]
    on_gpu = any(c.device != "cpu" for c in contenders)
    arrays: Sequence[Any] = gpu.send(utterances) if on_gpu else ()
    seats: dict[str, arcbeam.CtcDecoder] = {}
    statuses: dict[str, str] = {}
    turns: dict[str, Callable[[], Any]] = {}
    parts: dict[str, datasets.Dataset] = {}
    works: dict[str, DecodeStats] = {}
    for c in contenders:
        part = parts[c.label] = dataset.first(c.first)
        made, statuses[c.label] = placements.seat(lambda c=c: decoder(task, c, beam))  # type: ignore[misc]
        if made is None:
            continue
        rows = (utterances if c.device == "cpu" else arrays)[: len(part.ids)]
        batches = [[row] for row in rows] if c.single else [rows]
        try:
            found: list[Any] = []
            each = []
            for batch in batches:
                found += made.decode(batch)
                each.append(made.stats)
            gpu.compare(found, wanted(c)[0][: len(part.ids)])
        except (ArcbeamError, gpu.Wrong) as error:  # the others' rows are worth having
            statuses[c.label] = f"failed: {type(error).__name__}: {error}"
            continue
        seats[c.label], works[c.label] = made, placements.total(each)
        turns[c.label] = lambda made=made, batches=batches: [made.decode(batch) for batch in batches]  # type: ignore[misc]
    times = timing.interleave(turns, context.repeats, warm_up=False, step=context.step)
    first = next((c for c in contenders if c.label in turns), None)
    taken = {c.label: spent(c, times[c.label]) for c in contenders if c.label in turns}
    for c in contenders:
        row = task.row | {
            "set": dataset.name, "beam": beam, "contender": c.label, "device": c.device, "placement": c.placement,
            "graph": c.graph, "hypotheses": c.hypotheses or "no limit", "mode": "single" if c.single else "multi",
            "threads": c.threads, "utterances": len(parts[c.label].ids),
        }  # fmt: skip
        if c.placement == "none":
            row |= {"ngrams": None, "hypotheses": None}
        if c.label not in seats:
            yield row | {"status": statuses[c.label]}
            continue
        mine, seconds = taken[c.label], parts[c.label].seconds
        words = sum(len(r.split()) for r in dataset.references)
        wer = wanted(c)[1]
        work = works[c.label] if c.single else seats[c.label].stats
        row |= {
            "rtf": statistics.median(mine) / seconds, "rtf_spread": [min(mine) / seconds, max(mine) / seconds],
            "rtfx": seconds / statistics.median(mine), "taken": mine, "wall": times[c.label].wall,
            "cpu": times[c.label].cpu, "wer": 100 * wer,
            "errors": round(wer * words), "tokens": work.tokens / work.frames, "seconds": seconds,
            "shift": dataset.frame_shift,
        }  # fmt: skip
        if c.placement != "none":
            row |= placements.looked_up(work)
        if first is not None:
            longer = seconds / parts[first.label].seconds
            row["ratio"] = longer * statistics.median(a / b for a, b in zip(taken[first.label], mine, strict=True))
        yield row


def spent(contender: Contender, took: timing.Timing) -> list[float]:
    """Seconds of each turn."""
    return took.cpu if contender.device == "cpu" and contender.threads == 1 else took.wall


def several(
    context: Context, task: Task, sets: Sequence[datasets.Dataset], beams: Sequence[float],
    contenders: Callable[[str], Sequence[Contender]],
) -> Iterator[Row]:  # fmt: skip
    """Rows of :func:`measure` for every set and beam; on a GPU in a process of their own."""
    if context.gpu:
        what: Row = {"set": ", ".join(dataset.name for dataset in sets)}
        yield from gpu.rows_or_failure(what, sweep, context, task, sets, beams, contenders)
    else:
        yield from sweep(context, task, sets, beams, contenders)


def sweep(
    context: Context, task: Task, sets: Sequence[datasets.Dataset], beams: Sequence[float],
    contenders: Callable[[str], Sequence[Contender]],
) -> Iterator[Row]:  # fmt: skip
    for dataset in sets:
        for beam in beams:
            context.progress(f"{dataset.name}, beam {beam:g}")
            yield from measure(context, task, dataset, beam, contenders(dataset.name))


def curve_columns(ratio: Column) -> list[Column]:
    """Of a table with a row for each beam of several decoders; ``ratio`` compares their speed with the first's."""
    return [
        Column("set", "set"),
        Column("n-grams", "ngrams", "{:,}"),
        Column("decoder", "contender"),
        Column("beam", "beam", "{:g}"),
        Column("WER, %", "wer", "{:.2f}"),
        Column("word errors", "errors"),
        Column("RTF", "rtf", "{:.6f}"),
        Column("spread", "rtf_spread", "{:.6f}"),
        ratio,
        Column("tokens a frame", "tokens", "{:.1f}"),
        Column("look-ups a frame", "lookups", "{:.2f}"),
        Column("status", "status"),
    ]


def curves(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[float, float]]]:
    """Points (RTF, WER) of each decoder and set that has been timed."""
    series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if "rtf" in row:
            series.setdefault(f"{row['contender']}, {row['set']}", []).append((row["rtf"], row["wer"]))
    return series


def draw_curves(rows: list[Row], path: Path, title: str) -> None:
    plots.line_plot(path, curves(rows), "RTF", "WER, %", log="x", title=title, from_zero=False)
