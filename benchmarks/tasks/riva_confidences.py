"""Why riva-asrlib-decoder's confidences differ from ours: each difference, and the cause that a computation finds.

Between our confidence of a word and riva's lie confidences that are computed, each from what the one before was
computed from with one thing changed. The steps between them add up to the whole difference:

======  ===============================================================================  ===============================
number  computed from                                                                    what the step to it changes
======  ===============================================================================  ===============================
0       our lattice: what we report
1       the same, in one piece                                                           `PIECES`
2       the distinct word sequences of our lattice, each by its posterior                `JOINED`
3       the same sequences, each by the score of its best alignment                      `ALIGNMENTS`
4       the word sequences of riva's lattice; those that ours has by our scores          `SEQUENCES`
5       the same, by riva's scores                                                       `SCORES`
6       riva's lattice as it is                                                          `SHAPE`
7       nothing of ours: what riva reports                                               `UNEXPLAINED`
======  ===============================================================================  ===============================

Up to 5 they are computed by our own minimum Bayes risk decoding, from 1 on in one piece: what we report is of a lattice
that is cut at the tokens that all of its paths pass through, and words are compared within a piece alone. 6 is computed
as riva does it, by Kaldi's (`benchmarks/tasks/kaldi_risk.py`).

So a word whose last step is beyond `CONFIDENCE` is not explained by riva's lattice. That is of another run than its
answer, because riva gives one or the other, and its search does not find the same in each run. So riva is asked for
both again. Of its lattices that one is taken whose words are nearest to its answer. A word that even this one does not
explain has one of two causes, or none:

* `AGAIN`: riva has other words or confidences there in another run, or one of its lattices gives others than the rest.
* `LOST`: riva says a word there that no path of our lattice has, and no path of those lattices of riva's that hold our
  best path. With that path in the lattice behind riva's answer, a word of such a confidence would have paths that cost
  hardly more than the best, where neither our search nor riva's other runs have found any. Where no lattice of riva's
  holds our best path, each of them must have lost it: its own best path is one of ours that costs more. This explains
  what both say at that place, and nothing elsewhere in the utterance.

The cause of any other word is its largest step. A word that only one of the two says has the confidence 0 where it is
not said.
"""

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from arcbeam.ctc.lattice import _lattice
from arcbeam.ctc.lattice._lattices import LINK, Lattices
from benchmarks.tasks.kaldi_risk import kaldi_risk
from benchmarks.tasks.riva_answers import ROUNDING, naming

CONFIDENCE = 0.02  # differences up to this are not looked into
SEEN = 500  # distinct word sequences of a lattice
NO_WEIGHT = 1e6  # a slack whose weight is 0

PIECES, JOINED, ALIGNMENTS, SEQUENCES, SCORES, SHAPE, UNEXPLAINED = CAUSES = (
    "we cut our lattice where all of its paths meet",  # a word that is said twice can be missing at either place
    "where paths of our lattice meet",  # the recursion takes expectations there; and sequences behind the first SEEN
    "riva counts the best alignment of a word sequence alone",  # its lattice is determinised
    "one lattice holds word sequences that the other lacks",  # another beam, or tokens that riva's search has dropped
    "riva has other scores for the same word sequences",  # float32 sums, or a best alignment that its search has lost
    "where paths of riva's lattice meet",  # and of alignments with equally many errors Kaldi takes another there
    "not explained",
)
AGAIN = "riva says something else when it is asked again"
LOST = "riva's search has lost the best path"

Words = tuple[int, ...]  # labels
Said = list[tuple[Any, float]]  # words with their confidences


class Difference(NamedTuple):
    """A word whose confidences differ by more than `CONFIDENCE`."""

    utterance: int
    word: str
    ours: float
    theirs: float
    steps: tuple[float, ...]  # of CAUSES
    cause: str  # one of CAUSES, AGAIN or LOST
    places: tuple[int | None, int | None]  # among our words, and riva's
    said: tuple[float, ...]  # by each run of riva's, the first is `theirs`; 0 where the word is not said
    computed: tuple[float, ...]  # from each lattice of riva's, up to the first that explains all of the utterance

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
    unexplained: list[dict[str, Any]]  # a record of each difference that no cause explains, see `Utterance.record`

    def causes(self) -> dict[str, int]:
        """How many differences have each cause, without those that none has."""
        counts = {cause: sum(one.cause == cause for one in self.differences) for cause in (*CAUSES, AGAIN, LOST)}
        return {cause: count for cause, count in counts.items() if count}


def compare(ours: Sequence[Any], theirs: Sequence[Sequence[Any]], lattices: Sequence[Sequence[Any]]) -> Compared:
    """The words of minimum Bayes risk of both, and every difference with its cause.

    ours : hypotheses that were asked for lattices
    theirs : what `decode_mbr` returned each time, (word, begin, end, confidence) of each word; the first is compared
    lattices : riva's of each run, as `arcbeam.read_lattices` gives them; without any, nothing can be explained
    """
    words, of_one, largest = 0, 0, 0.0
    differences: list[Difference] = []
    unexplained: list[dict[str, Any]] = []
    for number, hypothesis in enumerate(ours):
        runs = [[(word, confidence) for word, _, _, confidence in run[number]] for run in theirs]
        one = Utterance(number, hypothesis, runs, [run[number] for run in lattices])
        both = side_by_side([one.own, one.said], one.own, one.said)
        words += len(both)
        of_one += len(both) - len(matches(one.said, one.own))
        largest = max([largest, *(abs(a - b) for _, (a, b) in both)])
        if any(apart(a, b) for _, (a, b) in both):
            found = one.differences()
            differences += found
            unexplained += [one.record(difference) for difference in found if difference.cause == UNEXPLAINED]
    return Compared(words, of_one, differences, largest, unexplained)


def apart(a: float, b: float) -> bool:
    """Whether two confidences are so different that there has to be a cause."""
    return abs(a - b) > CONFIDENCE


class Utterance:
    """What both say of an utterance, and riva's lattices of it.

    runs : riva's words as it said them each time; the first are those that are compared
    lattices : riva's, of other runs
    """

    def __init__(self, number: int, hypothesis: Any, runs: Sequence[Said], lattices: Sequence[Any]) -> None:
        self.number, self.hypothesis, self.runs, self.lattices = number, hypothesis, runs, lattices
        self.own: Said = [(word.word, word.confidence) for word in hypothesis.mbr.words]
        self.said = runs[0]
        self.name = naming(hypothesis)

    def differences(self) -> list[Difference]:
        """Every word whose confidences differ, with its cause."""
        computed: list[Said] = []
        for lattice in self.lattices:
            computed.append(named(kaldi_risk(lattice), self.name))
            if self.distance(computed[-1]) <= CONFIDENCE:
                break  # which explains every word
        chain = [self.own, self.said]
        if computed:
            nearest = min(range(len(computed)), key=lambda i: self.distance(computed[i]))
            between_them = between(self.hypothesis, self.lattices[nearest])
            chain = [self.own, *(named(one, self.name) for one in between_them), computed[nearest], self.said]
        found, behind = [], len(chain) + len(self.runs)
        rows = side_by_side([*chain, *self.runs, *computed], self.own, self.said)
        for places, (word, values) in zip(self.places, rows, strict=True):
            *before, last, theirs = values[: len(chain)]
            of_runs, of_lattices = values[len(chain) : behind], values[behind:]
            ours = values[0]
            if not apart(ours, theirs):
                continue
            steps = [b - a for a, b in pairwise([*before, last, theirs])]
            steps = [0.0] * (len(CAUSES) - len(steps)) + steps
            if computed and not apart(last, theirs):
                cause = CAUSES[int(np.argmax(np.abs(steps[:-1])))]
            elif any(apart(theirs, one) for one in of_runs) or any(apart(last, one) for one in of_lattices):
                cause = AGAIN
            else:
                cause = LOST if places in self.lost else UNEXPLAINED
            found.append(
                Difference(
                    self.number, word, ours, theirs, tuple(steps), cause, places, tuple(of_runs), tuple(of_lattices)
                )
            )
        return found

    def distance(self, words: Said) -> float:
        """The largest difference from what riva says."""
        return max((abs(a - b) for _, (a, b) in side_by_side([words, self.said], words, self.said)), default=0.0)

    @property
    def places(self) -> list[tuple[int | None, int | None]]:
        """Of each row of `side_by_side`: the places among our words and riva's."""
        ours = matches(self.said, self.own)
        alone = [place for place in range(len(self.own)) if place not in ours.values()]
        return [(ours.get(place), place) for place in range(len(self.said))] + [(place, None) for place in alone]

    @cached_property
    def holds(self) -> list[bool]:
        """Which of riva's lattices hold our best path."""
        best = tuple(self.hypothesis.lattice.nbest(1)[0].word_ids.tolist())
        return [best in sequences_of(*of_kaldi(lattice)) for lattice in self.lattices]

    @cached_property
    def loses(self) -> list[bool]:
        """Which of riva's lattices lack our best path, although their own is one of ours that costs more."""
        ours = sequences_of(*of_kaldi(self.hypothesis.lattice.to_kaldi()))
        least = min(ours.values())
        found = []
        for lattice, holds in zip(self.lattices, self.holds, strict=True):
            theirs = sequences_of(*of_kaldi(lattice))
            best = min(theirs, key=lambda words: theirs[words])
            found.append(not holds and ours.get(best, least) - least > ROUNDING)
        return found

    @cached_property
    def lost(self) -> set[tuple[int | None, int | None]]:
        """Where the two say other words, and among riva's is one that no lattice with our best path has."""
        holding = [lattice for lattice, holds in zip(self.lattices, self.holds, strict=True) if holds]
        if not holding and not (self.lattices and all(self.loses)):
            return set()
        written = [of_kaldi(lattice)[1] for lattice in (self.hypothesis.lattice.to_kaldi(), *holding)]
        known = {self.name(word) for word in np.unique(np.concatenate(written)).tolist()}
        found: set[tuple[int | None, int | None]] = set()
        for kind, a, b, c, d in matcher(self.said, self.own).get_opcodes():
            if kind != "equal" and any(word not in known for word, _ in self.said[a:b]):
                found |= {(None, place) for place in range(a, b)} | {(place, None) for place in range(c, d)}
        return found

    def record(self, one: Difference) -> dict[str, Any]:
        """All that is known of a word: confidences at its place, and what riva's lattices have of it anywhere.

        Lists have a value for each run of riva's, or for each lattice.
        """
        return {
            **one._asdict(),
            "our_words": " ".join(word for word, _ in self.own),
            "their_words": " ".join(word for word, _ in self.said),
            "posteriors": [self.posterior(one.word, lattice) for lattice in self.lattices],
            "lattices_with_the_word": sum(self.has(one.word, lattice) for lattice in self.lattices),
            "lattices_with_our_best_path": sum(self.holds),
            "lattices_that_have_lost_it": sum(self.loses),
        }

    def has(self, word: str, lattice: Any) -> bool:
        """Whether any path of a lattice has a word."""
        return word in map(self.name, of_kaldi(lattice)[1].tolist())

    def posterior(self, word: str, lattice: Any) -> float:
        """Of the word sequences of a lattice that have a word."""
        costs = sequences_of(*of_kaldi(lattice))
        least = min(costs.values())
        shares = {words: float(np.exp(least - cost)) for words, cost in costs.items()}
        having = sum(share for words, share in shares.items() if word in map(self.name, words))
        return having / sum(shares.values())


def named(words: Said, name: Callable[[int], str]) -> Said:
    """The same words as they are written."""
    return [(name(word), confidence) for word, confidence in words]


def between(hypothesis: Any, lattice: Any) -> list[Said]:
    """The words and confidences that our own decoding computes between what we report and what riva does."""
    entries = hypothesis.lattice.nbest(SEEN)
    by_score = {tuple(entry.word_ids.tolist()): -entry.score for entry in entries}
    by_posterior = {
        tuple(entry.word_ids.tolist()): -float(np.log(entry.posterior)) for entry in entries if entry.posterior > 0
    }
    theirs = sequences_of(*of_kaldi(lattice))
    shared = [theirs[words] - by_score[words] for words in theirs if words in by_score]
    shift = float(np.median(shared)) if shared else min(theirs.values()) - min(by_score.values())
    mixed = {words: by_score.get(words, cost - shift) for words, cost in theirs.items()}
    tries = [trie(one) for one in (by_posterior, by_score, mixed, theirs)]
    return [risk(*one) for one in (of_kaldi(hypothesis.lattice.to_kaldi()), *tries)]


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
    return {a + i: b + i for a, b, size in matcher(one, other).get_matching_blocks() for i in range(size)}


def matcher(one: Said, other: Said) -> SequenceMatcher[Any]:
    return SequenceMatcher(None, [word for word, _ in one], [word for word, _ in other], autojunk=False)


# Lattices of others in our form


def risk(lattice: Lattices, labels: npt.NDArray[np.uint32]) -> Said:
    """The labels of minimum Bayes risk with their confidences, the lattice being one piece."""
    found = _lattice.mbr(*in_one_piece(lattice, labels))
    return list(zip(found.words.tolist(), found.confidences.tolist(), strict=True))


def in_one_piece(lattice: Lattices, labels: npt.NDArray[np.uint32]) -> tuple[Lattices, int, npt.NDArray[np.uint32]]:
    """With a link more, of weight 0, from the first token to the last: so there is no token that all paths share."""
    arrays: dict[str, Any] = lattice.arrays(0)
    place = int(arrays["first_link"][1])
    beside = np.array((0, len(arrays["states"]) - 1, 0, NO_WEIGHT), LINK)
    first_link = arrays["first_link"] + (np.arange(len(arrays["first_link"])) > 0)
    best = arrays["best"] + (arrays["best"] >= place)
    arrays |= {"links": np.insert(arrays["links"], place, beside), "first_link": first_link, "best": best}
    return Lattices.of_arrays([arrays]), 0, np.insert(labels, place, 0)


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
