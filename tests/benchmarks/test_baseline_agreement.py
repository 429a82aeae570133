"""What judges the words of the baseline and the graph search: alignments and spellings, by brute force."""

import itertools
import math

import numpy as np
import pytest

from arcbeam import TokenTable
from benchmarks.experiments import baseline_agreement

BLANK, SPACE = 0, 1


def collapsed(path, space):
    """The tokens of a path; spaces in a row are one, if there is a space."""
    tokens = [column for column, _ in itertools.groupby(path)]
    tokens = [column for column in tokens if column != BLANK]
    return [c for i, c in enumerate(tokens) if not (c == space and i and tokens[i - 1] == space)]


@pytest.mark.parametrize("space", [None, SPACE])
@pytest.mark.parametrize("tokens", [[2], [2, 2], [1, 2, 1], [2, 1, 3], [2, 3, 3]])
def test_alignments_are_the_best_paths(tokens, space):
    log_probs = np.random.default_rng(5).normal(size=(5, 4)).astype(np.float32)
    score, path = baseline_agreement.align(log_probs, tokens, BLANK, space)
    paths = [p for p in itertools.product(range(4), repeat=5) if collapsed(p, space) == tokens]
    best = max(float(log_probs[range(5), p].astype(np.float64).sum()) for p in paths)
    assert score == pytest.approx(best, abs=1e-9)
    assert log_probs[range(5), path].astype(np.float64).sum() == pytest.approx(best, abs=1e-9)
    assert collapsed(path, space) == tokens


def test_spellings():
    tokens = TokenTable.from_list(["<blank>", "<space>", "a", "b"], "<blank>")
    by_letters = baseline_agreement.spelled_by_letters(tokens)
    assert by_letters(["ab", "b"]) == [[1, 2, 3, 1, 3, 1], [1, 2, 3, 1, 3], [2, 3, 1, 3, 1], [2, 3, 1, 3]]
    by_pieces = baseline_agreement.spelled_by_pieces([("ab", [4, 3]), ("b", [5])])
    assert by_pieces(["b", "ab", "b"]) == [[5, 4, 3, 5]]
    with pytest.raises(ValueError, match="one spelling a word, got 2 of 1 words"):
        baseline_agreement.spelled_by_pieces([("ab", [4, 3]), ("ab", [5])])


def test_reasons():
    scores, reason = baseline_agreement.Scores, baseline_agreement.reason
    assert reason(scores(-2.0, -math.inf), scores(-1.0, -1.0)) == "baseline pruned"
    assert reason(scores(-1.0, -1.0), scores(-2.0, -2.0)) == "graph pruned"
    assert reason(scores(-1.0, -2.0), scores(-2.0, -1.0)) == "models differ"
    assert reason(scores(-1.0, -1.0), scores(-1.0, -1.0)) == "tie"
