"""The graph as a device holds it: what a search may conclude from a label, and the rows of states."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcbeam import Graph
from arcbeam.ctc.gpu.searches import graph_layout
from tests.decode import graphs

f32 = np.float32


def least_weights(label, smallest, bits):
    """As the kernel has it: device_graph.cuh's sums, in float32."""
    unit = f32(2.0 ** (12 + bits))
    above = (unit.view(np.uint32) | (label >> bits).astype(np.uint32)).view(f32)
    return f32(smallest + f32(above - unit))


def check(graph, num_columns):
    labels = graph_layout.labels(graph.states, graph.targets, graph.columns, num_columns)
    bits = graph_layout.column_bits(num_columns)
    assert len(labels) % graph_layout.CHUNK == 0
    assert not labels[graph.num_arcs :].any()
    states = graph.states
    for state in range(graph.num_states):
        assert not labels[states["first_arc"][state] : states["first_emitting"][state]].any()
        arcs = slice(states["first_emitting"][state], states["first_arc"][state + 1])
        assert (labels[arcs] & ((1 << bits) - 1) == graph.columns[arcs]).all()
        least = least_weights(labels[arcs], states["smallest_weight"][state], bits)
        weight = graph.targets["weight"][arcs]
        assert (least <= weight).all()
        step = graph_layout.RANGE / (1 << graph_layout.LABEL_BITS - bits)
        near = weight < states["smallest_weight"][state] + f32(graph_layout.RANGE - step)
        assert (weight[near] - least[near] <= 1.001 * step).all(), "and tells most of the weight"


@given(graphs.graphs(), st.sampled_from([4, 29, 513, 5000, 65535]))
def test_random_graphs(graph, num_columns):
    check(graph, max(num_columns, graph.num_columns))


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 40.0, 1e30])
def test_weights_of_any_size(scale):
    weights = np.random.default_rng(1).normal(scale=scale, size=2000).astype(f32)
    arcs = [(0, 0, 1 + i % 29, 0, float(weight)) for i, weight in enumerate(weights)]
    check(Graph.from_arcs(arcs, start=0, finals={0: 0.0}), 29)


@given(graphs.graphs())
def test_rows_of_states(graph):
    rows = graph_layout.state_rows(graph.states, graph.targets, graph.words)
    assert len(rows) == graph.num_states
    assert rows.itemsize == 32
    for state, row in enumerate(rows):
        record, end = graph.states[state], graph.states["first_arc"][state + 1]
        assert (row["first_arc"], row["first_emitting"], row["arcs_end"]) == (
            record["first_arc"],
            record["first_emitting"],
            end,
        )
        assert row["smallest_weight"] == record["smallest_weight"]
        if row["first_arc"] == row["first_emitting"]:
            assert row["depth"] == graph_layout.NO_EPSILON
        else:
            target = graph.targets[row["first_arc"]]
            assert (row["epsilon_next_state"], row["epsilon_weight"]) == (target["next_state"], target["weight"])
            assert row["depth"] == record["depth"]
        written = graph.words[record["first_arc"] : record["first_emitting"]]
        assert row["entrance"] == (graph_layout.WRITES_WORDS if written.any() else 0)
