"""Word error rates."""

from collections.abc import Sequence

import numpy as np


def word_errors(reference: Sequence[str], hypothesis: Sequence[str]) -> int:
    """Fewest substitutions, insertions and deletions that turn one into the other."""
    # Words that both begin or end with cost nothing, and most words are such ones.
    begin = _beginning(reference, hypothesis)
    reference, hypothesis = reference[begin:], hypothesis[begin:]
    end = _beginning(reference[::-1], hypothesis[::-1])
    reference, hypothesis = reference[: len(reference) - end], hypothesis[: len(hypothesis) - end]
    steps = np.arange(len(hypothesis) + 1)
    row = steps
    said = np.array(hypothesis, dtype=object)
    for word in reference:
        below = row + 1
        below[1:] = np.minimum(below[1:], row[:-1] + (said != word))
        row = np.minimum.accumulate(below - steps) + steps
    return int(row[-1])


def _beginning(some: Sequence[str], others: Sequence[str]) -> int:
    """How many words are the same from the first on."""
    return next((i for i, (a, b) in enumerate(zip(some, others, strict=False)) if a != b), min(len(some), len(others)))


def word_error_rate(references: Sequence[str], hypotheses: Sequence[str]) -> float:
    """Errors over words said, summed over all utterances."""
    pairs = [(r.split(), h.split()) for r, h in zip(references, hypotheses, strict=True)]
    return sum(word_errors(r, h) for r, h in pairs) / max(1, sum(len(r) for r, _ in pairs))
