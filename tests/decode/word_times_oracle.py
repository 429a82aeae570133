"""Which frames belong to which output label of a path: the rule of pyx/arcbeam/graph/_words/spans.cpp, spelled out."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from arcbeam import Graph

EPSILON_COLUMN = 0xFFFF

Span = tuple[int, int]


@dataclass(frozen=True)
class _Tokens:
    """The tokens of a path, repeats and blanks taken out.

    Attributes
    ----------
    columns, starts, ends : list of int
        Column and frames [start, end) of each token.
    labels_at : list of int
        For each output label of the path, the frame that its arc reads, or that follows if it reads none.
    """

    columns: list[int]
    starts: list[int]
    ends: list[int]
    labels_at: list[int]


def spans(graph: Graph, arcs: np.ndarray) -> list[Span]:
    """Frames [start, end) of each output label of a path.

    Labels are matched with the tokens that spell them by the graph's pronunciations. A path of a graph without
    pronunciations, or one that they do not explain, falls back on the frames at which the labels are written.
    """
    tokens = _tokens(graph, arcs)
    labels = graph.words[arcs]
    labels = labels[labels != 0].tolist()
    if graph.join == "pieces":
        found = _one_token_each(graph, labels, tokens)
    else:
        found = _spelled(graph, labels, tokens)
    return found if found is not None else _between_labels(tokens)


def _tokens(graph: Graph, arcs: np.ndarray) -> _Tokens:
    columns = graph.columns[arcs]
    emitting = columns != EPSILON_COLUMN
    frame_of = np.cumsum(emitting) - emitting
    destinations = graph.targets["next_state"][arcs]
    sources = np.concatenate(([graph.start], destinations[:-1])) if len(arcs) else destinations
    # A repeat of a token goes round its state's self-loop and writes nothing; any other arc that is not blank is a new
    # token.
    repeat = ((destinations == sources) & (graph.words[arcs] == 0))[emitting]
    columns = columns[emitting]
    spoken = columns != (EPSILON_COLUMN if graph.blank is None else graph.blank)
    repeat &= np.concatenate(([False], columns[1:] == columns[:-1])) if len(columns) else False
    starts = np.flatnonzero(spoken & ~repeat)
    ends = [int(start) + 1 for start in starts]
    for i, start in enumerate(starts.tolist()):
        while ends[i] < len(columns) and repeat[ends[i]] and columns[ends[i]] == columns[start]:
            ends[i] += 1
    labels_at = frame_of[graph.words[arcs] != 0].tolist()
    return _Tokens(columns[starts].tolist(), starts.tolist(), ends, labels_at)


def _one_token_each(graph: Graph, labels: list[int], tokens: _Tokens) -> list[Span] | None:
    if len(labels) != len(tokens.columns):
        return None
    return list(zip(tokens.starts, tokens.ends, strict=True))


def _spelled(graph: Graph, labels: list[int], tokens: _Tokens) -> list[Span] | None:
    """Depth-first search for the pronunciations that add up to the tokens; None if none do."""
    pronunciations = graph.pronunciations
    if pronunciations is None:
        return None
    count = len(tokens.columns)
    separator = graph.separator_column

    def starts_and_ends(word: int, at: int) -> list[Span]:
        while at < count and tokens.columns[at] == separator:
            at += 1
        options = []
        for spelling in pronunciations.of(labels[word]):
            rest = tokens.columns[at : at + len(spelling)]
            # The last word of a path that ends too early may lack its last tokens.
            if rest == spelling or (word == len(labels) - 1 and rest and rest == spelling[: len(rest)]):
                options.append((at, at + len(rest)))
        return options

    dead: set[tuple[int, int]] = set()
    choices: list[list[Span]] = []
    chosen: list[Span] = []
    at = 0
    while len(chosen) < len(labels):
        word = len(chosen)
        if len(choices) == word:
            choices.append([] if (word, at) in dead else starts_and_ends(word, at))
            dead.add((word, at))
        if choices[word]:
            chosen.append(choices[word].pop(0))
            at = chosen[-1][1]
        elif word == 0:
            return None
        else:
            choices.pop()
            chosen.pop()
            at = -1  # the word before has its choices already
    behind = [tokens.ends[end - 1] if end else 0 for _, end in chosen]
    # A word may be spelled by nothing.
    return [(tokens.starts[a] if a < b else end, end) for (a, b), end in zip(chosen, behind, strict=True)]


def _between_labels(tokens: _Tokens) -> list[Span]:
    found = []
    for start, limit in itertools.pairwise([*tokens.labels_at, math.inf]):
        last = bisect_left(tokens.starts, limit) - 1
        end = tokens.ends[last] if last >= 0 and tokens.starts[last] >= start else start + 1
        found.append((int(start), int(max(start + 1, min(end, limit)))))
    return found
