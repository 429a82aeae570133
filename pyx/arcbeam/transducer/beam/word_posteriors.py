"""How probable it is that a word of a hypothesis is right, by the hypotheses that its search ended with."""

from __future__ import annotations

import math
from collections.abc import Sequence


def word_posteriors(words: Sequence[str], others: Sequence[tuple[Sequence[str], float]]) -> list[float]:
    """For each word the sum of the posteriors of those hypotheses that have it at its place.

    `others` are the words and posteriors of all hypotheses, this one among them. Two sequences of words are aligned
    with the fewest substitutions, insertions and deletions.
    """
    agree = [(posterior, kept_words(words, other)) for other, posterior in others]
    return [min(1.0, math.fsum(posterior for posterior, kept in agree if kept[i])) for i in range(len(words))]


def kept_words(words: Sequence[str], other: Sequence[str]) -> list[bool]:
    """Which words another sequence keeps; of alignments with equally few errors the one that keeps words first."""
    first = 0
    while first < min(len(words), len(other)) and words[first] == other[first]:
        first += 1
    last = 0
    while last < min(len(words), len(other)) - first and words[-1 - last] == other[-1 - last]:
        last += 1
    a, b = words[first : len(words) - last], other[first : len(other) - last]
    # costs[i][j]: the fewest errors that make b[j:] of a[i:]
    costs = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a), -1, -1):
        for j in range(len(b), -1, -1):
            if i == len(a) or j == len(b):
                costs[i][j] = len(a) - i + len(b) - j
            else:
                change = costs[i + 1][j + 1] + (a[i] != b[j])
                costs[i][j] = min(change, costs[i + 1][j] + 1, costs[i][j + 1] + 1)
    kept, i, j = [False] * len(a), 0, 0
    while i < len(a) and j < len(b):
        if costs[i][j] == costs[i + 1][j + 1] + (a[i] != b[j]):
            kept[i] = a[i] == b[j]
            i, j = i + 1, j + 1
        elif costs[i][j] == costs[i + 1][j] + 1:
            i += 1
        else:
            j += 1
    return [True] * first + kept + [True] * last
