"""Verdicts on answers that differ: each kind is reached, and costs along a path are what the arcs say."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from arcbeam import Graph
from benchmarks.adapters import Answer
from benchmarks.tasks import agreement
from benchmarks.tasks.agreement import judge, path_cost
from tests.benchmarks.test_openfst_writer import GRAPHS


def every_path(graph, frames):
    """(columns, words, cost of the arcs, last state) of each path that reads `frames` frames."""
    first = graph.states["first_arc"]

    def walk(state, columns, words, cost):
        if len(columns) == frames:
            yield columns, words, cost, state
        for arc in range(first[state], first[state + 1]):
            column, word = int(graph.columns[arc]), int(graph.words[arc])
            read = columns if column == 0xFFFF else (*columns, column)
            if len(read) <= frames:
                written = (*words, word) if word else words
                target = graph.targets[arc]
                yield from walk(int(target["next_state"]), read, written, cost + float(target["weight"]))

    yield from itertools.islice(walk(graph.start, (), (), 0.0), 3000)


@given(GRAPHS, st.integers(0, 3), st.booleans())
def test_path_cost_is_the_smallest_over_all_paths(graph, frames, final):
    acoustic = -np.arange(frames * 4, dtype=np.float32).reshape(frames, 4) / 8
    best = {}
    paths = list(every_path(graph, frames))
    assume(len(paths) < 3000)  # else too many to be sure of the smallest: one example in ten
    for columns, words, cost, state in paths:
        cost -= sum(float(acoustic[t, c]) for t, c in enumerate(columns))
        cost += float(graph.finals[state]) if final else 0.0
        best[columns, words] = min(cost, best.get((columns, words), np.inf))
    for (columns, words), cost in best.items():
        assert path_cost(graph, acoustic, columns, words, final) == cost


@pytest.fixture
def two_words():
    """Column 0 says word 1 at no cost or word 2 at 0.5; column 1 says word 3."""
    arcs = [(0, 1, 1, 1, 0.0), (0, 1, 1, 2, 0.5), (0, 1, 2, 3, 0.0), (0, 1, 2, 4, 0.0)]
    return Graph.from_arcs(arcs, finals={1: 0.0}, num_columns=2)


LOG_PROBS = np.array([[-1.0, -1.25]], np.float32)
BEST = Answer("one", 1.0, True, [0], [1])
WORSE = Answer("two", 1.5, True, [0], [2])
NO_END = Answer("one", 1.0, False, [0], [1])
THIRD, FOURTH = Answer("three", 1.25, True, [1], [3]), Answer("four", 1.25, True, [1], [4])


@pytest.mark.parametrize(
    ("ours", "theirs", "widened", "kind"),
    [
        (BEST, BEST, None, agreement.EQUAL),
        (BEST, Answer("one", 1.004, True, [0], [1]), None, agreement.SAME_COST),
        (THIRD, FOURTH, None, agreement.TIE),
        (BEST, WORSE, None, agreement.BETTER),
        (WORSE, BEST, (BEST, BEST), agreement.PRUNED),
        (WORSE, BEST, (WORSE, BEST), agreement.UNEXPLAINED),
        (WORSE, BEST, (WORSE, WORSE), agreement.UNEXPLAINED),
        (BEST, NO_END, (BEST, BEST), agreement.BETTER),
        (NO_END, BEST, (BEST, BEST), agreement.PRUNED),
        (BEST, NO_END, (BEST, NO_END), agreement.UNEXPLAINED),
        (BEST, NO_END, (WORSE, BEST), agreement.UNEXPLAINED),
        (BEST, Answer("no such path", 1.0, True, [1], [1]), None, agreement.UNEXPLAINED),
    ],
)
def test_verdicts(two_words, ours, theirs, widened, kind):
    def wide():
        assert widened is not None, "decoded again where the answers alone decide"
        return widened

    assert judge(two_words, LOG_PROBS, 1.0, ours, theirs, wide).kind == kind
