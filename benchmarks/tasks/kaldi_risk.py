"""Kaldi's minimum Bayes risk decoding, by which riva-asrlib-decoder says words and confidences, in plain Python.

The recursion is that of Xu, Povey, Mangu & Zhu 2011, "Minimum Bayes Risk decoding and system combination based on a
recursion for edit distance". It differs from arcbeam's own (law 8 of docs/design/rules.md) in what it takes of several
alignments with equally many errors:

* the lattice is one piece, it is not cut where all paths meet;
* a link without a word is aligned as one with a word is, and takes up a gap of the reference;
* an inserted word counts `PENALTY` more than other errors, and what is equal then is chosen by rounding.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from arcbeam import KaldiLattice

PENALTY = float(np.float32(1e-5))
MOST_ITERATIONS = 101
SUBSTITUTED, INSERTED, DELETED = range(3)

Gamma = list[dict[int, float]]  # of each slot of the reference: the words that are aligned with it, 0 for none


class Arc(NamedTuple):
    source: int
    word: int  # 0 for none
    share: float  # of the paths into its target


def kaldi_risk(lattice: KaldiLattice) -> list[tuple[int, float]]:
    """The words of minimum Bayes risk with their confidences.

    lattice : all of its states lie on paths from the start to an end
    """
    if lattice.num_states == 0:
        return []
    into, words = arcs_and_best_path(lattice)
    found: list[tuple[int, float]] = []
    for _ in range(MOST_ITERATIONS):
        reference = [0, *(slot for word in words for slot in (word, 0))]
        gamma = [{word: float(np.float32(share)) for word, share in one.items()} for one in align(into, reference)]
        chosen = [max(one.items(), key=lambda pair: (pair[1], pair[0])) for one in gamma]
        found = [(word, share) for word, share in chosen if word]
        words = [word for word, _ in found]
        if all(one.get(now) == share for one, now, (_, share) in zip(gamma, reference, chosen, strict=True)):
            break
    return found


def arcs_and_best_path(lattice: KaldiLattice) -> tuple[list[list[Arc]], list[int]]:
    """The arcs into each state, the states being sorted and the last the only end, and the words of the best path."""
    order = range(lattice.num_states)
    if (lattice.arcs["source"] >= lattice.arcs["target"]).any():
        order = lattice._topological_order()
    place = {state: number for number, state in enumerate(order)}
    of_arcs, of_ends = (-(one["graph_cost"] + one["acoustic_cost"]) for one in (lattice.arcs, lattice.finals))
    arcs: list[list[tuple[int, int, float]]] = [[] for _ in order]
    each = zip(lattice.arcs[["source", "target", "word"]].tolist(), of_arcs.tolist(), strict=True)
    for (source, target, word), score in sorted(each, key=lambda one: place[one[0][0]]):
        arcs[place[target]].append((place[source], word, score))
    ends = sorted((place[state], 0, float(of_ends[state])) for state in order if np.isfinite(of_ends[state]))
    if [(state, score) for state, _, score in ends] != [(len(arcs) - 1, 0.0)]:
        arcs.append(ends)

    into: list[list[Arc]] = [[]]
    sums, best, ways = [0.0], [0.0], [(0, 0)]
    for entering in arcs[1:]:
        scores = [sums[source] + score for source, _, score in entering]
        total = -math.inf
        for score in scores:
            larger, smaller = max(total, score), min(total, score)
            total = larger + math.log1p(math.exp(smaller - larger))
        found = zip(entering, scores, strict=True)
        into.append([Arc(source, word, math.exp(score - total)) for (source, word, _), score in found])
        score, number = max((best[source] + score, -i) for i, (source, _, score) in enumerate(entering))
        sums.append(total)
        best.append(score)
        ways.append(entering[-number][:2])
    words, state = [], len(arcs) - 1
    while state != 0:
        state, word = ways[state]
        words += [word] if word else []
    return into, words[::-1]


def align(into: Sequence[Sequence[Arc]], reference: Sequence[int]) -> Gamma:
    """What each slot of the reference, words and the gaps between, is aligned with, and the shares of that."""
    deletions = [0.0 if word == 0 else 1.0 for word in reference]
    first = [0.0]
    for deletion in deletions:
        first.append(first[-1] + deletion)
    distances, chosen = [first], [[]]
    for entering in into[1:]:
        row, choices = [0.0] * len(first), []
        for arc in entering:
            of_arc, choice = step(distances[arc.source], arc.word, reference, deletions)
            row = [a + arc.share * b for a, b in zip(row, of_arc, strict=True)]
            choices.append(choice)
        distances.append(row)
        chosen.append(choices)

    gamma: Gamma = [{} for _ in reference]
    masses = [[0.0] * len(first) for _ in into]
    masses[-1][-1] = 1.0
    for state in range(len(into) - 1, 0, -1):
        for arc, choice in zip(into[state], chosen[state], strict=True):
            carried = 0.0
            behind = masses[arc.source]
            for slot in range(len(reference), 0, -1):
                mass = carried + arc.share * masses[state][slot]
                carried = 0.0
                if mass == 0.0:
                    continue
                if choice[slot - 1] == INSERTED:
                    behind[slot] += mass
                    continue
                word = arc.word if choice[slot - 1] == SUBSTITUTED else 0
                gamma[slot - 1][word] = gamma[slot - 1].get(word, 0.0) + mass
                if choice[slot - 1] == SUBSTITUTED:
                    behind[slot - 1] += mass
                else:
                    carried = mass
            behind[0] += carried + arc.share * masses[state][0]
    left = 0.0
    for slot in range(len(reference), 0, -1):
        left += masses[0][slot]
        gamma[slot - 1][0] = gamma[slot - 1].get(0, 0.0) + left
    return gamma


def step(
    before: Sequence[float], word: int, reference: Sequence[int], deletions: Sequence[float]
) -> tuple[list[float], list[int]]:
    """Distances behind an arc to each beginning of the reference, and what is done at the last slot of each."""
    insertion = 0.0 if word == 0 else 1.0 + PENALTY
    found, choices = [before[0] + insertion], []
    for (shorter, same), slot, deletion in zip(pairwise(before), reference, deletions, strict=True):
        ways = (shorter + (0.0 if word == slot else 1.0), same + insertion, found[-1] + deletion)
        least = min(ways)
        found.append(least)
        choices.append(ways.index(least))
    return found, choices
