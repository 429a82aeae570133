"""One core: what a lattice, an n-best list of ten, confidences and minimum Bayes risk (MBR) cost over the best path.

The same utterances with the same decoder, in turns; a ratio is taken within a turn. The clock stops when the answers of
all utterances are arrays: of an n-best list the words, times, scores and posteriors of all entries. `texts` also makes
Python strings of all entries, and words with times and confidences of the hypotheses. Before that the answers are
checked: the best path is the same bytes whatever the other outputs, it is the lattice's and the first of the n-best
list, whose entries are distinct and fall off; confidences lie in [0, 1]; links, lists and confidences do not depend on
other outputs; MBR words and confusion networks are those of the lattice.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import arcbeam
from benchmarks.data import datasets, graphs
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row

ORDER = 22
TITLE = "Lattices, n-best lists, confidences and minimum Bayes risk on one core"
WORKLOADS = (("char-3gram", "throughput", 80), ("spm512-3gram", "workload-512", 40))  # first utterances
BEAMS = ((17.0, 10_000), (12.0, 5_000))
LATTICE_BEAM, NBEST = 8.0, 10
BEST, MBR = "best path", "MBR"
REQUESTED: Mapping[str, Mapping[str, Any]] = {
    BEST: {},
    "lattice": {"lattice": True},
    "n-best 10, confidence": {"nbest": NBEST, "confidence": True},
    MBR: {"mbr": True},
    "all": {"lattice": True, "nbest": NBEST, "confidence": True},
}
TEXTS = "all, texts"
TAKES = {"graph": f"one of {', '.join(graph for graph, _, _ in WORKLOADS)} alone"}
COLUMNS = [
    Column("graph", "graph"),
    Column("set", "set"),
    Column("minutes", "minutes", "{:.1f}"),
    Column("beam / max_active", "search"),
    Column("lattice beam", "lattice_beam", "{:g}"),
    Column("outputs", "asked"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("time over the best path's", "ratio", "{:.2f}"),
    Column("spread", "ratio_spread", "{:.2f}"),
    Column("in CPU time", "cpu_ratio", "{:.2f}"),
    Column("links a frame", "links", "{:,.1f}"),
    Column("answers an utterance", "entries", "{:.1f}"),
]


def check(found: Mapping[str, arcbeam.Hypotheses]) -> None:
    """AssertionError unless the answers of all requests agree."""
    for hypotheses in zip(*found.values(), strict=True):
        one = dict(zip(found, hypotheses, strict=True))
        path = one[BEST].arcs.tobytes()
        if any(each.arcs.tobytes() != path for each in hypotheses):
            raise AssertionError("the best path depends on other outputs")
        small, every = one["n-best 10, confidence"], one["all"]
        if lattice_bytes(one["lattice"]) != lattice_bytes(every) or listed(small) != listed(every):
            raise AssertionError("outputs depend on other outputs")
        if not isinstance(every.lattice, arcbeam.Lattice) or every.nbest is None or not every.nbest:
            raise AssertionError("expected a lattice and an n-best list")
        if every.lattice.links["arc"][every.lattice.best].tobytes() != path or every.nbest[0].arcs.tobytes() != path:
            raise AssertionError("the best path is not that of the lattice, or not the first of the n-best list")
        if (one[MBR].mbr, one[MBR].sausage) != (every.lattice.mbr, every.lattice.sausage):
            raise AssertionError("the words of minimum Bayes risk are not those of the lattice")
        scores, texts = [entry.score for entry in every.nbest], {entry.text for entry in every.nbest}
        if scores != sorted(scores, reverse=True) or len(texts) != len(scores) or len(scores) > NBEST:
            raise AssertionError(f"expected distinct answers that fall off, at most {NBEST}: {scores}")
        values = [every.confidence, *(word.confidence for word in every.words)]
        if not all(value is not None and 0.0 <= value <= 1.0 for value in values):
            raise AssertionError(f"expected confidences in [0, 1], got {values}")


def lattice_bytes(hypothesis: arcbeam.Hypothesis) -> bytes:
    lattice = hypothesis.lattice
    return b"" if lattice is None else lattice.links.tobytes() + lattice.states.tobytes()


def listed(hypothesis: arcbeam.Hypothesis) -> list[Any]:
    entries = [(entry.arcs.tobytes(), entry.score, entry.posterior) for entry in hypothesis.nbest or ()]
    return [*entries, hypothesis.confidence, *hypothesis.words]


def read(hypotheses: arcbeam.Hypotheses) -> None:
    """Makes the Python objects that a program reads."""
    for hypothesis in hypotheses:
        hypothesis.words  # noqa: B018 - words are derived when first requested
        for entry in hypothesis.nbest or ():
            entry.text  # noqa: B018


def run(context: Context) -> Iterator[Row]:
    for graph, name, count in WORKLOADS:
        if context.options.get("graph", graph) != graph:
            continue
        files = graphs.get(graph, context.progress)
        dataset = datasets.load(name).first(min(context.utterances or count, count))
        for beam, max_active in BEAMS:
            decoder = arcbeam.CtcDecoder(
                files.graph, beam=beam, max_active=max_active, lattice_beam=LATTICE_BEAM,
                frame_shift=dataset.frame_shift, threads=1, device="cpu",
            )  # fmt: skip
            context.progress(f"{graph}, {name}, beam {beam:g}")
            common = {"graph": graph, "set": name, "minutes": dataset.seconds / 60, "utterances": len(dataset.ids)}
            common |= {"search": f"{beam:g} / {max_active:,}", "lattice_beam": LATTICE_BEAM}
            utterances = [np.ascontiguousarray(one, np.float32) for one in dataset.utterances]
            for row in rows(context, decoder, utterances, dataset.seconds):
                yield common | row


def rows(
    context: Context, decoder: arcbeam.CtcDecoder, utterances: Sequence[npt.NDArray[np.float32]], seconds: float
) -> Iterator[Row]:
    """A row for each set of outputs."""

    def turn(options: Mapping[str, Any], texts: bool) -> Callable[[], None]:
        def decode() -> None:
            found = decoder.decode(utterances, **options)
            if texts:
                read(found)

        return decode

    found = {name: decoder.decode(utterances, **options) for name, options in REQUESTED.items()}
    check(found)
    frames = sum(map(len, utterances))
    links = sum(0 if h.lattice is None else h.lattice.num_links for h in found["all"]) / frames
    entries = sum(len(h.nbest or ()) for h in found["all"]) / len(utterances)
    turns = {name: turn(options, False) for name, options in REQUESTED.items()} | {TEXTS: turn(REQUESTED["all"], True)}
    timings = timing.interleave(turns, context.repeats, warm_up=False, step=context.step)
    for name, mine in timings.items():
        ratio, spread = timing.ratio(mine, timings[BEST])
        yield {
            "asked": name,
            "rtfx": seconds / mine.seconds,
            "ratio": ratio,
            "ratio_spread": spread,
            "cpu_ratio": timing.cpu_ratio(mine, timings[BEST]),
            "wall": mine.wall,
            "cpu": mine.cpu,
            "links": links if name != BEST else None,
            "entries": entries if name not in (BEST, "lattice", MBR) else None,
        }
