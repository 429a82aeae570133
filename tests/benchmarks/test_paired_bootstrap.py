"""Intervals of differences between word error rates."""

import numpy as np

from benchmarks.tasks import paired_bootstrap


def test_what_every_utterance_has():
    assert paired_bootstrap.difference([3, 1, 2], [2, 0, 1], [10, 10, 10]) == [10.0, 10.0]
    assert paired_bootstrap.difference([3, 1, 2], [3, 1, 2], [10, 5, 1]) == [0.0, 0.0]


def test_the_spread_of_a_known_distribution():
    """Of 400 utterances of one word, half of which one system has right: a normal distribution by the limit theorem."""
    errors = np.tile([0, 1], 200)
    low, high = paired_bootstrap.difference(errors, np.ones(400, int), np.ones(400, int))
    deviation = 100 * 0.5 / 20
    assert abs(low - (-50 - 1.96 * deviation)) < 0.5 and abs(high - (-50 + 1.96 * deviation)) < 0.5


def test_the_pairs_matter():
    """Systems that err on the same utterances have a narrow interval, others a wide one."""
    base = np.arange(100) % 5
    low, high = paired_bootstrap.difference(base + (np.arange(100) == 7), base, np.full(100, 10))
    far, wide = paired_bootstrap.difference(base[::-1], base, np.full(100, 10))
    assert 0 <= low <= 0.1 <= high < 0.5 < wide - far
