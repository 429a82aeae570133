"""Arcs to columns, and law 6: what a graph may not be."""

import math
import re

import numpy as np
import pytest
from hypothesis import given

from arcbeam.core.errors import GraphError
from arcbeam.graph.graph import Graph
from tests.graph import examples


def test_hand_made_example():
    graph = examples.example()
    assert graph.states.tolist() == [
        (0, 2, 0.0625, 0),
        (6, 6, 0.125, 0),
        (7, 8, math.inf, 1),
        (8, 8, math.inf, 2),
        (9, 9, math.inf, 0),
    ]
    assert graph.targets["next_state"].tolist() == [2, 3, 1, 1, 2, 0, 3, 3, 0]
    assert graph.columns.tolist() == [65535, 65535, 0, 1, 1, 3, 0, 65535, 2]
    assert graph.words.tolist() == [0, 4, 2, 0, 0, 0, 1, 3, 0]
    assert graph.finals.tolist() == [math.inf, 0.0, math.inf, 0.5]
    assert (graph.start, graph.num_states, graph.num_arcs, graph.max_depth) == (0, 4, 9, 2)
    assert (graph.num_columns, graph.width_is_exact, graph.blank, graph.separator_column) == (4, True, 3, 2)


@given(examples.graphs(max_states=40))
def test_layout_is_that_of_plain_python(given_graph):
    arcs, finals, num_states = given_graph
    graph = Graph.from_arcs(arcs, finals=finals, num_states=num_states)
    states, out = examples.layout(arcs, num_states)
    assert examples.compiled(graph) == (states, out)
    assert graph.max_depth == max(state[3] for state in states)
    assert graph.finals.tolist() == [finals.get(state, math.inf) for state in range(num_states)]


def test_many_arcs_in_a_state_and_many_states():
    # Enough to reach the sort of long lists, the threads and the prefetches.
    rng = np.random.default_rng(7)
    states, arcs = 200_000, 600_000
    sources = np.concatenate([np.zeros(5000, np.int64), rng.integers(0, states, arcs)])
    inputs = np.where(rng.random(len(sources)) < 0.3, 0, rng.integers(1, 50, len(sources)))
    ahead = sources + 1 + (rng.random(len(sources)) * (states - 1 - sources)).astype(np.int64)
    inputs[ahead >= states] = 1
    destinations = np.where(inputs == 0, ahead, rng.integers(0, states, len(sources)))
    outputs = np.arange(len(sources))
    weights = rng.integers(0, 64, len(sources)).astype(np.float32)
    graph = Graph.from_arcs([sources, destinations, inputs, outputs, weights], finals={0: 0.0}, num_states=states)

    order = np.lexsort((inputs, sources))  # lexsort is stable
    assert np.array_equal(graph.words, outputs[order])
    assert np.array_equal(graph.columns, (inputs[order] - 1).astype(np.uint16))
    assert np.array_equal(graph.targets["next_state"], destinations[order])
    depth = np.zeros(states, np.int64)
    epsilon = np.flatnonzero(inputs == 0)
    while True:
        deeper = depth.copy()
        np.maximum.at(deeper, destinations[epsilon], depth[sources[epsilon]] + 1)
        if np.array_equal(deeper, depth):
            break
        depth = deeper
    assert np.array_equal(graph.states["depth"][:-1], depth)
    assert graph.max_depth == depth.max()


def test_arrays_and_tuples_give_the_same():
    arrays = [np.array(column) for column in zip(*examples.ARCS, strict=True)]
    plain = Graph.from_arcs(iter(examples.ARCS), finals=examples.FINALS)
    finals = np.array([np.inf, 0.0, np.inf, 0.5], np.float32)
    examples.same(plain, Graph.from_arcs(arrays, finals=finals))
    assert not plain.width_is_exact and plain.num_columns == 4


def test_columns_cannot_be_written():
    graph = examples.example()
    for array in (graph.states, graph.targets, graph.columns, graph.words, graph.finals):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0


def test_label_to_column():
    # Kaldi's HCLG: the input label is a transition id, several of them read one pdf.
    arcs = [(0, 1, 3, 1, 0.0), (1, 1, 4, 0, 0.0), (1, 0, 1, 0, 0.0), (0, 1, 0, 0, 0.5)]
    graph = Graph.from_arcs(arcs, finals={1: 0.0}, label_to_column=[-1, 7, 9, 2, 2], num_columns=10)
    assert graph.columns.tolist() == [65535, 2, 2, 7]
    assert (graph.num_columns, graph.width_is_exact) == (10, True)
    assert Graph.from_arcs(arcs, finals={1: 0.0}, label_to_column=np.array([0, 7, 9, 2, 2])).num_columns == 10


ARC = (0, 1, 1, 1, 0.0)
NAN = math.nan
BAD = [
    ([ARC, (1, 9, 1, 0, 0.0)], {"num_states": 2}, "state 1, arc 0: leads to state 9.* 0 to 1"),
    ([(5, 1, 1, 0, 0.0)], {"num_states": 2}, "arc 0: leaves state 5.* 0 to 1"),
    ([ARC, (0, -1, 1, 0, 0.0)], {}, "arc 1: destination is -1"),
    ([(0, 1, -2, 0, 0.0)], {}, "arc 0: input label is -2"),
    ([ARC, (0, 1, 1, 0, NAN)], {}, "state 0, arc 1: weight is -?nan"),
    ([(0, 1, 1, 0, -math.inf)], {}, "state 0, arc 0: weight is -inf"),
    ([(0, 1, 0, 0, -math.inf)], {}, "state 0, arc 0: weight is -inf"),
    ([ARC], {"finals": {1: NAN}}, "state 1: final cost is -?nan"),
    ([ARC], {"finals": {7: 0.0}, "num_states": 2}, "final state 7 does not exist.* 0 to 1"),
    ([ARC], {"start": -1}, "no start state"),
    ([], {"num_states": 0, "finals": {}}, "no start state"),
    ([ARC], {"start": 3, "num_states": 2}, "start state is 3.* 0 to 1"),
    ([(0, 1, 3, 0, 0.0)], {"tokens": ["a", "<blk>"]}, "input label 3 reads column 2.* 2 columns"),
    ([(0, 1, 65536, 0, 0.0)], {}, "input label 65536 reads column 65535.* 65535 columns"),
    ([(0, 1, 3, 0, 0.0)], {"label_to_column": [0, 1, 2]}, "input label 3 is not in .* 3 entries"),
    ([(0, 1, 2, 0, 0.0)], {"label_to_column": [-1, 0, -1]}, "gives input label 2 column -1"),
    (
        [(0, 1, 2, 0, 0.0)],
        {"label_to_column": [-1, 0, 5], "num_columns": 5},
        "gives input label 2 column 5; expected 0 to 4",
    ),
    (
        [(0, 1, 2, 0, 0.0)],
        {"label_to_column": np.array([0, 0, 1 << 31], np.uint32)},
        "gives input label 2 column 2147483647; expected 0 to 65534",
    ),
    ([(0, 1, 1, 9, 0.0)], {"word_symbols": ["<eps>", "a"]}, "state 0, arc 0: writes word 9.* 2 words"),
    ([(0, 0, 0, 0, 1.0)], {"num_states": 2}, "cycle: 0 -> 0;"),
    (
        [(0, 4, 0, 0, 0.0), (4, 2, 0, 0, 0.0), (2, 1, 0, 0, 0.0), (1, 4, 0, 0, 0.0), (1, 3, 0, 0, 0.0)],
        {},
        "cycle: 1 -> 4 -> 2 -> 1;",
    ),
    ([(0, 4_000_000, 1, 0, 0.0)], {}, "state 4000000 is mentioned.*num_states"),
]


@pytest.mark.parametrize(("arcs", "options", "message"), BAD)
def test_bad_graphs(arcs, options, message):
    with pytest.raises(GraphError, match=message):
        Graph.from_arcs(arcs, **({"finals": {1: 0.0}} | options))


def test_long_cycles_are_named_in_part():
    arcs = [(state, (state + 1) % 30, 0, 0, 0.0) for state in range(30)]
    with pytest.raises(GraphError, match=r"cycle: 0 -> 1 -> .* -> 7 -> \.\.\. \(30 states\) -> 0;"):
        Graph.from_arcs(arcs, finals={0: 0.0})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"num_columns": 0}, ValueError, "num_columns: expected 1 to 65535 columns, got 0"),
        ({"num_columns": 70_000}, ValueError, "got 70000"),
        ({"tokens": [str(i) for i in range(65_536)]}, ValueError, "tokens: expected 1 to 65535 columns, got 65536"),
        ({"tokens": ["a", "<blk>"], "num_columns": 3}, ValueError, "tokens: expected 3 columns, got 2"),
        ({"blank": "<blk>"}, ValueError, "needs tokens"),
        ({"blank": 9, "num_columns": 4}, ValueError, "expected a column from 0 to 3, got 9"),
        ({"tokens": ["a", "<blk>", "b"], "blank": "x"}, ValueError, "'x' is not among the 3 tokens"),
        ({"join": "letters"}, ValueError, "got 'letters'"),
        ({"label_to_column": [0.5, 1.0]}, ValueError, "expected integers"),
        (
            {"label_to_column": {1: 0}},
            ValueError,
            r"in which entry l is the column of label l .*, got dict; .* \[-1, 0\]",
        ),
        ({"finals": "x"}, TypeError, r"finals: expected a mapping \{state: cost\}, or costs \[states\], got str"),
        ({"finals": None, "num_states": None}, TypeError, r"finals: expected .*, got NoneType"),
        ({"finals": ["a", "b"]}, TypeError, r"finals: expected .*, got list"),
        ({"num_columns": "3"}, TypeError, "num_columns: expected a whole number, or None, got str"),
        ({"num_columns": 3.0}, TypeError, "num_columns: expected a whole number, or None, got float"),
        ({"separator": 3}, TypeError, "separator: expected a str or None, got int"),
        ({"meta": 3}, TypeError, "meta: expected a mapping of str to facts, or None, got int"),
        ({"finals": [0.0]}, ValueError, r"expected a mapping or \[2\], got \[1\]"),
        ({"arcs": [(0, 1, 1, 0)]}, ValueError, "arc 0: expected"),
        ({"arcs": [(0, 1, 1, 0, "x")]}, ValueError, "arc 0: expected"),
        ({"arcs": [(0, 1, 0.5, 0, 0.0)]}, TypeError, "input labels: expected integers"),
        ({"arcs": [np.zeros(2, int)] * 4 + [np.zeros(3)]}, ValueError, "five arrays of one length"),
    ],
)
def test_bad_arguments(options, error, message):
    given_arcs = options.pop("arcs", [ARC])
    with pytest.raises(error, match=message):
        Graph.from_arcs(given_arcs, **({"finals": {1: 0.0}, "num_states": 2} | options))


def test_dead_ends_unreachable_states_and_no_final_state_are_legal():
    graph = Graph.from_arcs([(0, 1, 1, 0, 0.0), (3, 3, 1, 0, math.inf)], finals={}, num_states=5)
    assert graph.num_states == 5 and not np.isfinite(graph.finals).any()
    assert Graph.from_arcs([], finals={0: 0.0}).num_arcs == 0


def test_info():
    info = examples.example().info()
    assert (info.states, info.final_states, info.arcs) == (4, 2, 9)
    assert (info.epsilon_arcs, info.epsilon_arcs_with_word) == (3, 2)
    assert (info.emitting_arcs, info.emitting_arcs_with_word, info.self_loops) == (6, 2, 1)
    assert (info.epsilon_depth, info.columns, info.words, info.pronunciations) == (2, 4, 5, 4)
    assert (info.word_times, info.unspelled_words) == ("spellings", 1)
    assert (info.hot_bytes_per_arc, info.memory_bytes) == (10, 5 * 16 + 9 * 14 + 4 * 4)
    assert info.meta == {"topology": "compact", "lm_scale": 1.5, "order": 3}
    text = str(info)
    for line in ("epsilon depth +2", "blank +<blk> .column 3.", "topology +compact", "hot bytes an arc +10"):
        assert re.search(line, text), f"{line!r} is not in\n{text}"
