"""Intervals of a difference of word error rates: utterances drawn with replacement, both systems on the same ones.

Bisani and Ney 2004, *Bootstrap Estimates for Confidence Intervals in ASR Performance Evaluation*.
"""

from collections.abc import Sequence

import numpy as np

from benchmarks.harness import seeds

DRAWS = 10_000
SEED = 0
LEVEL = 95  # percent


def difference(errors: Sequence[int], base: Sequence[int], words: Sequence[int]) -> list[float]:
    """What the error rate is above that of a base, in points: the interval's ends.

    errors, base, words : of each utterance: word errors of both, and words of the reference
    """
    random = np.random.default_rng(seeds.used("bootstrap", SEED))
    chosen = random.integers(0, len(words), (DRAWS, len(words)))
    more = (np.asarray(errors) - np.asarray(base))[chosen].sum(1)
    points = 100 * more / np.maximum(np.asarray(words)[chosen].sum(1), 1)
    beyond = (100 - LEVEL) / 2
    return [float(end) for end in np.percentile(points, [beyond, 100 - beyond])]
