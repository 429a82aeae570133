"""Why riva-asrlib-decoder's confidences differ from ours: each difference, and the cause that a computation finds.

Between our confidence of a word and riva's lie confidences that are computed, each from what the one before was
computed from with one thing changed. The steps between them add up to the whole difference:

======  ===============================================================================  ===============================
number  computed from                                                                    what the step to it changes
======  ===============================================================================  ===============================
0       our lattice: what we report
1       the distinct word sequences of our lattice, each by its posterior                `JOINED`
2       the same sequences, each by the score of its best alignment                      `ALIGNMENTS`
3       the word sequences of riva's lattice; those that ours has by our scores          `SEQUENCES`
4       the same, by riva's scores                                                       `SCORES`
5       riva's lattice as it is                                                          `SHAPE`
6       nothing of ours: what riva reports                                               `UNEXPLAINED`
======  ===============================================================================  ===============================

All but the last are computed by our own minimum Bayes risk decoding. So a word whose last step is beyond `CONFIDENCE`
is not explained by riva's lattice. That is of another run than its answer, because riva gives one or the other, and its
search does not find the same in each run. So riva is asked again: where it then says something else of the word, or
gives another lattice, the cause is `AGAIN`. The cause of any other word is its largest step.

A word that only one of the two says has the confidence 0 where it is not said.
"""

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from arcbeam.ctc import _lattice
from arcbeam.ctc._lattices import LINK, Lattices
from benchmarks.tasks.riva_answers import naming

CONFIDENCE = 0.02  # differences up to this are not looked into
SEEN = 500  # distinct word sequences of a lattice

JOINED, ALIGNMENTS, SEQUENCES, SCORES, SHAPE, UNEXPLAINED = CAUSES = (
    "where paths of our lattice meet",  # the recursion takes expectations there; and sequences behind the first SEEN
    "riva counts the best alignment of a word sequence alone",  # its lattice is determinised
    "one lattice holds word sequences that the other lacks",  # another beam, or tokens that riva's search has dropped
    "riva has other scores for the same word sequences",  # float32 sums, or a best alignment that its search has lost
    "where paths of riva's lattice meet",
    "not explained",
)
AGAIN = "riva says something else when it is asked again"

Words = tuple[int, ...]  # labels
Said = list[tuple[Any, float]]  # words with their confidences


class Difference(NamedTuple):
    """A word whose confidences differ by more than `CONFIDENCE`."""

    utterance: int
    word: str
    ours: float
    theirs: float
    steps: tuple[float, ...]  # of CAUSES
    changes: bool  # when riva is asked again

    @property
    def cause(self) -> str:
        """One of CAUSES, or AGAIN."""
        if abs(self.steps[-1]) > CONFIDENCE:
            return AGAIN if self.changes else UNEXPLAINED
        return CAUSES[int(np.argmax(np.abs(self.steps[:-1])))]

    def __str__(self) -> str:
        steps = ", ".join(f"{step:+.3f}" for step in self.steps)
        both = f"utterance {self.utterance}, {self.word!r}: {self.ours:.3f}, riva: {self.theirs:.3f}"
        return f"{both}; {steps}: {self.cause}"


class Compared(NamedTuple):
    """The confidences of a set."""

    words: int  # that either of the two says
    of_one: int  # that only one of them says
    differences: list[Difference]
    largest: float

    def causes(self) -> dict[str, int]:
        """How many differences have each cause, without those that none has."""
        counts = {cause: sum(one.cause == cause for one in self.differences) for cause in (*CAUSES, AGAIN)}
        return {cause: count for cause, count in counts.items() if count}


def compare(
    ours: Sequence[Any],
    theirs: Sequence[Any],
    lattices: Sequence[Any] | None,
    again: Sequence[Sequence[Any]] = (),
    lattices_again: Sequence[Sequence[Any]] = (),
) -> Compared:
    """The words of minimum Bayes risk of both, and every difference with its cause.

    ours : hypotheses that were asked for lattices
    theirs : what `decode_mbr` returned: (word, begin, end, confidence) of each word
    lattices : riva's, as `arcbeam.read_lattices` gives them; None: nothing can be explained
    again, lattices_again : what riva returned when it was asked for the same again
    """
    words, of_one, largest, found = 0, 0, 0.0, []
    for number, (hypothesis, theirs_of_one) in enumerate(zip(ours, theirs, strict=True)):
        own: Said = [(word.word, word.confidence) for word in hypothesis.mbr.words]
        said: Said = [(word, confidence) for word, _, _, confidence in theirs_of_one]
        both = side_by_side([own, said], own, said)
        words += len(both)
        of_one += len(both) - len(matches(said, own))
        largest = max([largest, *(abs(a - b) for _, (a, b) in both)])
        if all(abs(a - b) <= CONFIDENCE for _, (a, b) in both):
            continue
        name = naming(hypothesis)
        between_them = [] if lattices is None else between(hypothesis, lattices[number])
        computed = [named(one, name) for one in between_them]
        said_again: list[Said] = [[(word, confidence) for word, _, _, confidence in run[number]] for run in again]
        of_lattices = [named(risk(*of_kaldi(run[number])), name) for run in lattices_again] if computed else []
        chain = [own, *computed, said]
        for word, all_values in side_by_side([*chain, *said_again, *of_lattices], own, said):
            values, asked_again = all_values[: len(chain)], all_values[len(chain) :]
            if abs(values[-1] - values[0]) > CONFIDENCE:
                steps = [b - a for a, b in pairwise(values)]
                none = [0.0] * (len(CAUSES) - len(steps))
                before = [values[-1]] * len(said_again) + [values[-2]] * len(of_lattices)
                changes = any(abs(b - a) > CONFIDENCE for a, b in zip(before, asked_again, strict=True))
                found.append(Difference(number, word, values[0], values[-1], (*none, *steps), changes))
    return Compared(words, of_one, found, largest)


def named(words: Said, name: Callable[[int], str]) -> Said:
    """The same words as they are written."""
    return [(name(word), confidence) for word, confidence in words]


def between(hypothesis: Any, lattice: Any) -> list[Said]:
    """The words and confidences that are computed between what we report and what riva does."""
    entries = hypothesis.lattice.nbest(SEEN)
    by_score = {tuple(entry.word_ids.tolist()): -entry.score for entry in entries}
    by_posterior = {
        tuple(entry.word_ids.tolist()): -float(np.log(entry.posterior)) for entry in entries if entry.posterior > 0
    }
    riva, labels = of_kaldi(lattice)
    theirs = sequences_of(riva, labels)
    shared = [theirs[words] - by_score[words] for words in theirs if words in by_score]
    shift = float(np.median(shared)) if shared else min(theirs.values()) - min(by_score.values())
    mixed = {words: by_score.get(words, cost - shift) for words, cost in theirs.items()}
    return [risk(*trie(one)) for one in (by_posterior, by_score, mixed, theirs)] + [risk(riva, labels)]


def side_by_side(lists: Sequence[Said], own: Said, said: Said) -> list[tuple[Any, list[float]]]:
    """Each word of `said`, then those of `own` alone, with its confidence in each list; 0 where it is not there."""
    found = [(word, []) for word, _ in said]
    alone = [place for place in range(len(own)) if place not in matches(said, own).values()]
    found += [(own[place][0], []) for place in alone]
    for one in lists:
        of_said, of_own = matches(said, one), matches(own, one)
        places = [of_said.get(place) for place in range(len(said))] + [of_own.get(place) for place in alone]
        for (_, values), place in zip(found, places, strict=True):
            values.append(0.0 if place is None else float(one[place][1]))
    return found


def matches(one: Said, other: Said) -> dict[int, int]:
    """The places of words of one list, and those of the same words of the other."""
    matcher = SequenceMatcher(None, [word for word, _ in one], [word for word, _ in other], autojunk=False)
    return {a + i: b + i for a, b, size in matcher.get_matching_blocks() for i in range(size)}


# Lattices of others in our form


def risk(lattice: Lattices, labels: npt.NDArray[np.uint32]) -> Said:
    """The labels of minimum Bayes risk with their confidences."""
    found = _lattice.mbr(lattice, 0, labels)
    return list(zip(found.words.tolist(), found.confidences.tolist(), strict=True))


def sequences_of(lattice: Lattices, labels: npt.NDArray[np.uint32]) -> dict[Words, float]:
    """The first distinct word sequences of a lattice, with the cost of the best path of each."""
    found = _lattice.nbest(lattice, 0, labels, SEEN)
    paths = [labels[found.links[a:b]] for a, b in pairwise(found.first_link.tolist())]
    return {tuple(path[path > 0].tolist()): cost for path, cost in zip(paths, found.costs.tolist(), strict=True)}


def trie(costs: dict[Words, float]) -> tuple[Lattices, npt.NDArray[np.uint32]]:
    """A lattice that has these word sequences and no other: they share their beginnings, and meet at the end alone."""
    nodes: dict[Words, int] = {(): 0}
    arcs, ends = [], []
    for words, cost in costs.items():
        for count in range(1, len(words) + 1):
            if words[:count] not in nodes:
                nodes[words[:count]] = len(nodes)
                arcs.append((nodes[words[: count - 1]], nodes[words[:count]], words[count - 1], 0.0))
        ends.append((nodes[words], cost))
    return as_lattice(len(nodes), arcs, ends)


def of_kaldi(lattice: Any) -> tuple[Lattices, npt.NDArray[np.uint32]]:
    """A lattice of Kaldi's form, and the word of each of its links; without states it has the empty sequence alone."""
    if lattice.num_states == 0:
        return trie({(): 0.0})
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
