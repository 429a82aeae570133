import numpy as np
import pytest

from arcbeam import Graph, _stages
from arcbeam.ctc.cpu._decode import graph_cost

NONE = _stages.NO_SOURCE


def graph(finals):
    return Graph.from_arcs(
        [(0, 1, 1, 5, 0.5), (0, 2, 1, 6, 0.5), (1, 3, 0, 7, 0.25), (2, 2, 2, 0, 1.0)], start=0, finals=finals
    )


def log_of_one_frame():
    """Arcs: 0 (0 to 1), 1 (0 to 2), 2 (1 to 3, epsilon)."""
    log = _stages.TokenLog(100)
    log.prune(np.array([(0.0, NONE, 0, NONE)], dtype=_stages.CANDIDATE))
    log.prune(np.array([(1.5, 0, 1, 0), (1.5, 1, 2, 0), (1.75, 2, 3, 1)], dtype=_stages.CANDIDATE))
    return log


@pytest.mark.parametrize(
    ("finals", "alive", "arcs", "total", "reached"),
    [
        ({3: 0.125}, True, [0, 2], 1.875, True),
        ({3: 0.125}, False, [0], 1.5, False),  # the search died later: finals do not count
        ({}, True, [0], 1.5, False),  # a tie goes to the smaller state
        ({1: 0.5, 2: 0.25}, True, [1], 1.75, True),
        ({1: 0.25, 2: 0.25}, True, [0], 1.75, True),
        ({1: float("inf"), 2: 9.0}, True, [1], 10.5, True),
    ],
)
def test_the_best_end(finals, alive, arcs, total, reached):
    path = log_of_one_frame().backtrack(graph(finals), offset=1.5, alive=alive)
    assert path[0].tolist() == arcs
    assert path[1] == total
    assert path[2] is reached
    weights = {0: 0.5, 1: 0.5, 2: 0.25}
    end = {(0, 2): 3, (0,): 1, (1,): 2}[tuple(arcs)]
    wanted = sum(weights[arc] for arc in arcs) + (finals[end] if reached else 0.0)
    assert graph_cost(graph(finals), path[0], reached) == wanted
