"""Oracle word error rates (WER): of the first n answers, or of a lattice, counts what is nearest to the reference."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.ctc.lattice import _lattice
from arcbeam.ctc.lattice._lattices import LINK, Lattices
from benchmarks.harness.plots import Points, line_plots
from data.workload import word_errors

UNKNOWN = 0xFFFFFFFF  # a label that no word has
CURVE = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100)


def oracle(references: Sequence[Sequence[str]], answers: Sequence[Sequence[str]], count: int) -> float:
    """The oracle WER of the first answers, in percent; an utterance without any counts as silence."""
    return _rates(references, answers, [count])[0]


def curve(references: Sequence[Sequence[str]], answers: Sequence[Sequence[str]]) -> list[float]:
    """The same of the first n answers, for each n of `CURVE`."""
    return _rates(references, answers, CURVE)


def _rates(references: Sequence[Sequence[str]], answers: Sequence[Sequence[str]], counts: Sequence[int]) -> list[float]:
    errors = [0] * len(counts)
    for reference, texts in zip(references, answers, strict=True):
        each = [word_errors(reference, text.split()) for text in (texts[: max(counts)] or [""])]
        least = list(accumulate(each, min))
        errors = [sum_ + least[min(n, len(least)) - 1] for sum_, n in zip(errors, counts, strict=True)]
    return [_rate(sum_, references) for sum_ in errors]


def of_lattices(references: Sequence[Sequence[str]], lattices: Sequence[Any]) -> float:
    """The oracle WER of our lattices, in percent."""
    errors = sum(one.oracle_wer(words).errors for one, words in zip(lattices, references, strict=True))
    return _rate(errors, references)


def of_kaldi_lattices(
    references: Sequence[Sequence[str]], lattices: Sequence[Any], beams: Iterable[float], ids: Mapping[str, int]
) -> list[tuple[float, float]]:
    """The oracle WER of lattices in Kaldi's form, pruned to each beam.

    ids : the label of each word; those of the reference that have none are in no lattice
    """
    made = [of_kaldi(lattice) for lattice in lattices]
    found = []
    for beam in beams:
        errors = 0
        for (whole, words), reference in zip(made, references, strict=True):
            pruned, _, links = _lattice.prune(whole, 0, beam)
            wanted = [ids.get(word, UNKNOWN) for word in reference]
            errors += _lattice.oracle(pruned, 0, words[links], wanted).errors
        found.append((beam, _rate(errors, references)))
    return found


def of_kaldi(lattice: Any) -> tuple[Lattices, npt.NDArray[np.uint32]]:
    """A lattice of Kaldi's form, and the word of each of its links; without states it has the empty sequence alone."""
    if lattice.num_states == 0:
        return as_lattice(1, [], [(0, 0.0)])
    of_arcs, of_ends = lattice.costs()
    arcs = list(zip(lattice.arcs[["source", "target", "word"]].tolist(), of_arcs.tolist(), strict=True))
    order = lattice._topological_order()
    before, behind = {lattice.start}, set(np.flatnonzero(np.isfinite(of_ends)).tolist())
    leaving: dict[int, list[int]] = {state: [] for state in order}
    for (source, target, _), _ in arcs:
        leaving[source].append(target)
    for state in order:
        if state in before:
            before.update(leaving[state])
    for state in reversed(order):
        if not behind.isdisjoint(leaving[state]):
            behind.add(state)
    places = {state: place for place, state in enumerate(state for state in order if state in before & behind)}
    return as_lattice(
        len(places),
        [(places[a], places[b], word, cost) for (a, b, word), cost in arcs if a in places and b in places],
        [(place, of_ends[state]) for state, place in places.items() if np.isfinite(of_ends[state])],
    )


def as_lattice(
    tokens: int, arcs: Sequence[tuple[int, int, int, float]], ends: Sequence[tuple[int, float]]
) -> tuple[Lattices, npt.NDArray[np.uint32]]:
    """A lattice of tokens in topological order, all of which lie on paths from the first to an end.

    Each token is a step of its own; one more token behind them all is the end.

    arcs : source, target, word (0 for none) and cost
    ends : a token and the cost of ending there
    """
    links = sorted([*arcs, *((token, tokens, 0, cost) for token, cost in ends)])
    into: list[list[int]] = [[] for _ in range(tokens + 1)]
    for number, link in enumerate(links):
        into[link[1]].append(number)
    best, winners = [0.0], [-1]
    for token in range(1, tokens + 1):
        cost, number = min((best[links[number][0]] + links[number][3], number) for number in into[token])
        best.append(cost)
        winners.append(number)
    made = np.zeros(len(links), LINK)
    for number, (source, target, _, cost) in enumerate(links):
        made[number] = (source, target, number, best[source] + cost - best[target])
    path, at = [], tokens
    while at != 0:
        path.append(winners[at])
        at = links[winners[at]][0]
    arrays = {
        "first_token": np.arange(tokens + 2),
        "states": np.arange(tokens + 1),
        "costs": np.array(best),
        "links": made,
        "first_link": np.searchsorted(made["source"], np.arange(tokens + 2)),
        "end_extras": np.zeros(1),
        "best": np.array(path[::-1]),
        "total_cost": best[-1],
        "reached_final": True,
        "complete": True,
    }
    return Lattices.of_arrays([arrays]), np.array([word for _, _, word, _ in links], np.uint32)


def _rate(errors: int, references: Sequence[Sequence[str]]) -> float:
    return 100 * errors / max(1, sum(map(len, references)))


def draw(lists: Mapping[str, Points], beams: Mapping[str, Points], path: Path) -> None:
    """Draws oracle WERs against n, and against the lattice beam where there are lattices."""
    panels = {"answers (n)": lists} | ({"lattice beam": beams} if beams else {})
    line_plots(path, panels, "oracle WER, %", logarithmic=["answers (n)"])
