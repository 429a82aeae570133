"""What a picture shows of a lattice: its words over time, how they follow each other, and how probable they are."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

LEFT_OUT, START, END, FIRST_WORD = range(4)  # what a path has said last
TOGETHER = 6  # frames from one link to the next that may write the same occurrence of a word
NEGLIGIBLE = 1e-6  # posterior of a link whose paths are not followed
MOST_WORDS = 200

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Node(NamedTuple):
    """An occurrence of a word; or the start or the end, whose word is 0."""

    frame: float  # where it is written, on average
    word: int
    posterior: float  # of the paths that have it
    best: bool  # whether the best path has it


class Edge(NamedTuple):
    """Two nodes that follow each other, by their numbers, and the posterior of the paths where they do."""

    source: int
    target: int
    posterior: float
    best: bool


class WordGraph(NamedTuple):
    """Nodes by time, the start first and the end last; edges; and how many words were left out."""

    nodes: list[Node]
    edges: list[Edge]
    left_out: int


def word_graph(
    links: npt.NDArray[Any],
    words: npt.NDArray[np.uint32],
    steps: npt.NDArray[np.int32],
    posteriors: Floats,
    best: npt.NDArray[np.uint32],
    least: float,
    span: tuple[float, float] = (-np.inf, np.inf),
) -> WordGraph:
    """Merges links that write the same word at about the same time, and adds up what follows what."""
    # `least` and the limit MOST_WORDS drop the least probable words and edges, never those of the best path: ValueError
    # if that alone has more words in the `span` of frames. Links are ordered by source; `steps`: frames before each
    # token.
    groups, of_link = _occurrences(links["source"], words, steps)
    weights = np.maximum(posteriors, np.finfo(float).tiny)
    total = np.bincount(of_link[groups], weights[groups])[1:] if len(groups) else np.zeros(0)
    frames = (steps[links["source"][groups]] + steps[links["target"][groups]]) / 2
    mean = np.bincount(of_link[groups], weights[groups] * frames)[1:] / total if len(groups) else np.zeros(0)
    spoken = np.zeros(len(total), np.uint32)
    spoken[of_link[groups] - 1] = words[groups]
    on_best = np.zeros(len(total), bool)
    best_groups = of_link[best[words[best] != 0]] - 1
    on_best[best_groups] = True
    within = (mean >= span[0]) & (mean <= span[1])
    drawn, others = np.flatnonzero(within & on_best), np.flatnonzero(within & ~on_best & (total >= least))
    if len(drawn) > MOST_WORDS:
        raise ValueError(
            f"start, end: expected a stretch of at most {MOST_WORDS} words of the best path, which can be drawn, got "
            f"{len(drawn):,}; draw some seconds of the speech, such as start=10.0, end=15.0"
        )
    kept = np.append(drawn, others[np.argsort(-total[others], kind="stable")[: MOST_WORDS - len(drawn)]])
    kept = kept[np.lexsort((kept, mean[kept]))]
    number = np.full(len(total) + 1, LEFT_OUT)
    number[kept + 1] = FIRST_WORD + np.arange(len(kept))
    follows = _follows(links, np.where(words != 0, number[of_link], -1), posteriors, len(steps), FIRST_WORD + len(kept))
    said = [START, *number[best_groups + 1].tolist(), END]
    of_best = set(pairwise(said)) if len(steps) else set()
    place = {START: 0, END: len(kept) + 1} | {FIRST_WORD + i: i + 1 for i in range(len(kept))}
    edges = [
        Edge(place[a], place[b], min(float(follows[a, b]), 1.0), (a, b) in of_best)
        for a in place
        for b in place
        if a != b and b != START and a != END and (follows[a, b] >= least or (a, b) in of_best)
    ]
    last = float(steps[-1]) if len(steps) else 0.0
    begin, end = min(max(span[0], 0.0), last), min(span[1], last)
    inner = [Node(float(mean[i]), int(spoken[i]), min(float(total[i]), 1.0), bool(on_best[i])) for i in kept.tolist()]
    nodes = [Node(begin, 0, 1.0, True), *inner, Node(end, 0, 1.0, True)]
    return WordGraph(nodes, edges, int(within.sum()) - len(kept))


def _occurrences(
    sources: npt.NDArray[np.uint32], words: npt.NDArray[np.uint32], steps: npt.NDArray[np.int32]
) -> tuple[Ints, Ints]:
    """The links with words, by word and time; and the occurrence of each link, from 1 on, 0 for none."""
    spoken = np.flatnonzero(words).astype(np.int64)
    frames = steps[sources[spoken]]
    order = np.lexsort((frames, words[spoken]))
    spoken, frames = spoken[order], frames[order]
    begins = np.ones(len(spoken), bool)
    begins[1:] = (np.diff(words[spoken].astype(np.int64)) != 0) | (np.diff(frames) > TOGETHER)
    of_link = np.zeros(len(words), np.int64)
    of_link[spoken] = np.cumsum(begins)
    return spoken, of_link


def _follows(links: npt.NDArray[Any], numbers: Ints, posteriors: Floats, num_tokens: int, count: int) -> Floats:
    """float64[count, count]: the posterior of the paths on which one of `numbers` (-1: no word) follows another."""
    # The posterior of a token is divided by the last word of its paths; that does not change how they continue.
    follows = np.zeros((count, count))
    if not num_tokens:
        return follows
    last_said = {0: np.eye(count)[START]}
    first = np.searchsorted(links["source"], np.arange(num_tokens + 1))
    for token in range(num_tokens):
        here = last_said.pop(token, None)
        if here is None:
            continue
        arrived = left = float(here.sum())
        for link in range(int(first[token]), int(first[token + 1])):
            posterior = float(posteriors[link])
            if posterior < NEGLIGIBLE:
                continue
            left -= posterior
            moved = here * (min(posterior / arrived, 1.0))
            said, target = int(numbers[link]), int(links["target"][link])
            if said >= 0:
                follows[:, said] += moved
                moved = np.eye(count)[said] * moved.sum()
            last_said[target] = last_said[target] + moved if target in last_said else moved
        follows[:, END] += here * max(left / arrived, 0.0)
    return follows
