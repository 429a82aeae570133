"""Word errors and time of lattices that a large model rescores, compared with rescoring on the fly, by lattice beam.

One graph (the small 3-gram's), one pair of models, one pair of scales, as in `kl14_figure2`. On the fly, the large
model's scores are in every beam of the search (n: hypotheses a state). Else the search has the small model alone and
keeps a lattice, in which `Lattice.rescore` puts the large model's scores; a path that the search or the lattice beam
has dropped is lost. `Oracle` errors are those of the lattice's path nearest to what was said: no model that chooses
among its paths makes fewer. Before anything is timed, the search that keeps lattices says what the one without them
says, and a rescored lattice scores at least what the hypothesis' own path does with the large model. Times are one
core's, of processor time, all over those of the first row in the same turn; the second row has the acoustic scale that
is best without a large model.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import arcbeam
from arcbeam.ctc.cpu._decode import rescoring_cost
from benchmarks.adapters import SearchOptions, gpu
from benchmarks.data import datasets
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import lm_task
from benchmarks.tasks.lm_task import MAX_ACTIVE, Contender, Task
from data.word_errors import word_error_rate

ORDER = 34
TITLE = "Rescoring lattices, compared with rescoring on the fly"
BEAM = 17.0
LATTICE_BEAMS = (2.0, 4.0, 6.0, 8.0, 10.0, 12.0)
FIRST, OWN_SCALE, ON_THE_FLY = "3-gram alone", "3-gram alone, at its own scale", "on the fly"
ROUNDING = 1e-3  # of sums of float32
TAKES = {"folder": lm_task.TAKES["folder"], "beam": f"of the search ({BEAM:g})"}
COLUMNS = [
    Column("set", "set"),
    Column("n-grams", "ngrams", "{:,}"),
    Column("large model", "contender"),
    Column("lattice beam", "lattice_beam", "{:g}"),
    Column("word errors", "errors"),
    Column("WER, %", "wer", "{:.2f}"),
    Column("oracle errors", "oracle"),
    Column("utterances unlike on the fly", "unlike"),
    Column("links a frame", "links", "{:.1f}"),
    Column("rescored", "rescored", "{:.1f}"),
    Column("time of the search", "search", "{:.2f}"),
    Column("of rescoring", "rescoring", "{:.2f}"),
    Column("both", "ratio", "{:.2f}"),
    Column("spread", "spread", "{:.2f}"),
    Column("truncated", "truncated"),
]


def search(task: Task, beam: float, **more: Any) -> "arcbeam.CtcDecoder":
    """The search with the graph's own model, at the scale that goes with the large one."""
    options = SearchOptions(beam, MAX_ACTIVE, task.acoustic_scale)
    return gpu.decoder(task.graphs["small"], options, "cpu", threads=1, **more)


def rescored(task: Task, hypotheses: Sequence[Any]) -> list["arcbeam.Lattice"]:
    models = task.models["language_model"], task.small["small"]
    return [h.lattice.rescore(*models, lm_scale=task.lm_scale) for h in hypotheses]


def check(found: Sequence[Any], lattices: Sequence["arcbeam.Lattice"], wanted: Sequence[Any]) -> None:
    """Raises gpu.Wrong unless lattices leave the hypotheses as they are, and rescoring loses none of their paths."""
    gpu.compare(found, wanted)
    for h, lattice in zip(found, lattices, strict=True):
        batch: Any = lattice._batch
        own = h.lattice.total_cost + rescoring_cost(batch.graph, batch.rescoring, h.arcs, h.reached_final)
        if not lattice.total_cost <= own + ROUNDING:
            raise gpu.Wrong(f"a rescored lattice costs {lattice.total_cost}, more than one of its paths, {own}")


def measure(context: Context, task: Task, dataset: datasets.Dataset, beam: float) -> Iterator[Row]:
    utterances = dataset.utterances
    decoders = {FIRST: search(task, beam)}
    decoders[OWN_SCALE] = lm_task.decoder(task, Contender("", placement="none"), beam)
    for n in (None, 3):
        label = ON_THE_FLY if n is None else f"{ON_THE_FLY}, n = {n}"
        decoders[label] = lm_task.decoder(task, Contender("", hypotheses=n), beam)
    answers = {label: decoder.decode(utterances) for label, decoder in decoders.items()}
    turns: dict[str, Callable[[], Any]] = {
        label: partial(decoder.decode, utterances) for label, decoder in decoders.items()
    }
    lattices: dict[str, tuple[float, Any, list[arcbeam.Lattice]]] = {}
    for lattice_beam in LATTICE_BEAMS:
        label = f"lattice beam {lattice_beam:g}"
        decoder = search(task, beam, lattice_beam=lattice_beam)
        found = decoder.decode(utterances, lattice=True)
        lattices[label] = lattice_beam, found, rescored(task, found)
        check(found, lattices[label][2], answers[FIRST])
        turns[label] = partial(decoder.decode, utterances, lattice=True)
        turns[f"{label}, rescoring"] = partial(rescored, task, found)
    times = timing.interleave(turns, context.repeats, warm_up=False, step=context.step)
    shared = task.row | {"set": dataset.name, "beam": beam, "utterances": len(dataset.ids)}
    first = times[FIRST].cpu

    def over(taken: Sequence[float]) -> list[float]:
        return [a / b for a, b in zip(taken, first, strict=True)]

    def row(texts: list[str], taken: Sequence[float]) -> Row:
        wer = word_error_rate(dataset.references, texts)
        words = sum(len(reference.split()) for reference in dataset.references)
        return shared | {
            "errors": round(wer * words), "wer": 100 * wer, "taken": list(taken),
            "ratio": statistics.median(over(taken)), "spread": [min(over(taken)), max(over(taken))],
            "unlike": sum(text != h.text for text, h in zip(texts, answers[ON_THE_FLY], strict=True)),
        }  # fmt: skip

    for label, found in answers.items():
        made = row([h.text for h in found], times[label].cpu)
        if label in (FIRST, OWN_SCALE):
            made |= {"ngrams": None, "unlike": None}
        yield {"contender": label} | made | {"search": made["ratio"]}
    for label, (lattice_beam, found, large) in lattices.items():
        spent = [times[label].cpu, times[f"{label}, rescoring"].cpu]
        frames = sum(h.lattice.num_frames for h in found)
        yield {
            "contender": "in the lattice",
            "lattice_beam": lattice_beam,
            **row([lattice.text for lattice in large], [a + b for a, b in zip(*spent, strict=True)]),
            "search": statistics.median(over(spent[0])),
            "rescoring": statistics.median(over(spent[1])),
            "oracle": sum(h.lattice.oracle_wer(text).errors for h, text in zip(found, dataset.references, strict=True)),
            "links": sum(h.lattice.num_links for h in found) / frames,
            "rescored": sum(lattice.num_links for lattice in large) / frames,
            "truncated": sum(lattice.truncated for lattice in large),
        }


def run(context: Context) -> Iterator[Row]:
    task = lm_task.load(context, kenlm=False)
    beam = float(context.options.get("beam", BEAM))
    for dataset in lm_task.sets(context):
        context.progress(f"{dataset.name}, beam {beam:g}")
        yield from measure(context, task, dataset, beam)
