"""Which frames belong to which output label of a path: the rule of pyx/arcbeam/graph/_words/spans.cpp, spelled out."""

from __future__ import annotations

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
    tokens_before, tokens_with : list of int
        For each output label of the path, the tokens before its arc, and with that of the arc.
    """

    columns: list[int]
    starts: list[int]
    ends: list[int]
    labels_at: list[int]
    tokens_before: list[int]
    tokens_with: list[int]


def spans(graph: Graph, arcs: np.ndarray) -> list[Span]:
    """Frames [start, end) of each output label of a path, word by word as spans.hpp says."""
    return spans_and_settled(graph, arcs)[0]


def spans_and_settled(graph: Graph, arcs: np.ndarray) -> tuple[list[Span], int]:
    """The spans, and how many of them, from the first on, no path that begins with this one gives otherwise."""
    tokens = _tokens(graph, arcs)
    labels = graph.words[arcs]
    labels = labels[labels != 0].tolist()
    if graph.join == "pieces":
        return _one_token_each(labels, tokens) or _all_written(tokens), 0
    if graph.pronunciations is None:
        return _all_written(tokens), 0
    return _spelled(graph, labels, tokens)


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
    written = graph.words[arcs] != 0
    before, after = (np.searchsorted(starts, at[written]).tolist() for at in (frame_of, frame_of + emitting))
    return _Tokens(columns[starts].tolist(), starts.tolist(), ends, frame_of[written].tolist(), before, after)


def _one_token_each(labels: list[int], tokens: _Tokens) -> list[Span] | None:
    if len(labels) != len(tokens.columns):
        return None
    return list(zip(tokens.starts, tokens.ends, strict=True))


def _spelled(graph: Graph, labels: list[int], tokens: _Tokens) -> tuple[list[Span], int]:
    columns, count = tokens.columns, len(tokens.columns)
    spellings = [graph.pronunciations.of(label) for label in labels]
    closed = [*tokens.tokens_before[1:], count]  # the tokens that are read before the arc that closes a word

    def after_separators(at: int) -> int:
        while at < count and columns[at] == graph.separator_column:
            at += 1
        return at

    def begins(word: int, rest: list[int]) -> bool:
        return any(spelling and spelling[: len(rest)] == rest[: len(spelling)] for spelling in spellings[word])

    def explains(word: int, end: int) -> bool:
        at = after_separators(end)
        if word + 1 == len(labels):
            return at >= count
        read = tokens.tokens_with[word + 1]
        return at < read and begins(word + 1, columns[at:read])

    def end_of(word: int, at: int) -> int | None:
        ends = {at + len(s) for s in spellings[word] if columns[at : at + len(s)] == s}
        in_time = {end for end in ends if end <= closed[word]}
        explaining = {end for end in in_time if explains(word, end)}
        return max(explaining or in_time) if in_time else min(ends, default=None)

    def find(word: int, begin: int, follows: bool) -> Span | None:
        if follows:
            at = after_separators(begin)
            end = end_of(word, at)
            if end is None and word + 1 == len(labels) and columns[at:] and begins(word, columns[at:]):
                end = count
            if end is not None:
                return at, end
        limit = closed[word] if closed[word] > begin else count
        found = [(at, end_of(word, at)) for at in range(begin, limit)]
        found = [(at, end) for at, end in found if end is not None and at < end <= limit]
        begun = [one for one in found if one[0] < tokens.tokens_with[word]]
        return begun[-1] if begun else min(found, key=lambda one: (one[1], one[0]), default=None)

    frames: list[Span] = []
    decided: list[bool] = []  # nothing that follows can change where the word is found
    is_found: list[bool] = []
    begin, until, follows = 0, 0, True
    for word in range(len(labels)):
        found, at = find(word, begin, follows), after_separators(begin)
        # With more tokens a spelling that is read in part now could become complete.
        open_end = (
            follows and end_of(word, at) is None and any(s[: count - at] == columns[at:] for s in spellings[word])
        )
        if found is None:
            frames.append(_written(tokens, word, until))
            decided.append(word + 1 < len(labels) and not open_end and closed[word] > begin)
            begin = max(begin, tokens.tokens_with[word])
        else:
            begin, end = found
            last = tokens.ends[end - 1] if end else 0
            frames.append((tokens.starts[begin] if begin < end else last, last))
            if not follows:
                frames[word - 1] = _written(tokens, word - 1, until, frames[word][0])
            decided.append(word + 1 < len(labels) and not open_end and end < count)
            begin, until = end, last
        follows = found is not None
        is_found.append(follows)
    settled = [*decided, False].index(False)
    # The end of a word that is not found depends on where the next word begins.
    return frames, settled - (0 < settled < len(labels) and not is_found[settled - 1])


def _all_written(tokens: _Tokens) -> list[Span]:
    return [_written(tokens, word) for word in range(len(tokens.labels_at))]


def _written(tokens: _Tokens, word: int, earliest: int = 0, latest: float = math.inf) -> Span:
    """The frames from the one that writes a label to the last token before the next label, within bounds."""
    start = max(tokens.labels_at[word], earliest)
    limit = min([latest, *tokens.labels_at[word + 1 : word + 2]])
    last = bisect_left(tokens.starts, limit) - 1
    end = tokens.ends[last] if last >= 0 and tokens.starts[last] >= start else start + 1
    return start, int(max(start + 1, min(end, limit)))
