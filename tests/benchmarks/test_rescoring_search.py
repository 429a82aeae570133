"""What the experiment counts as a lost path."""

import pytest

from benchmarks.experiments.rescoring_search import lost


def test_lost_paths_score_less():
    assert lost([-10.0, -20.0, -30.0], [-10.0, -19.9, -30.0]) == 1
    assert lost([-10.0005, -20.0], [-10.0, -25.0]) == 0, "rounding, and a path that is better"
    with pytest.raises(ValueError):
        lost([1.0], [1.0, 2.0])
