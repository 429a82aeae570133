import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcbeam import Graph, _stages
from tests.decode import graphs

f32 = np.float32


def tokens(pairs):
    return np.array(pairs, dtype=_stages.TOKEN)


def every_candidate(graph, some_tokens, first_log, cut, costs):
    """(cost, arc, destination, source) of all emitting arcs of the tokens within the cut-off."""
    for i, (state, cost) in enumerate(some_tokens.tolist()):
        if cost <= cut:
            for arc in range(graph.states["first_emitting"][state], graph.states["first_arc"][state + 1]):
                step = f32(f32(f32(cost) + costs[graph.columns[arc]]) + graph.targets["weight"][arc])
                yield float(step), arc, int(graph.targets["next_state"][arc]), first_log + i


def check(graph, some_tokens, cut, row, beam, first_log=7, **acoustic):
    frame = _stages.AcousticCosts(row, **acoustic)
    got, bound, work = _stages.expand(graph, some_tokens, first_log, some_tokens["cost"] <= f32(cut), frame, beam)
    wanted = list(every_candidate(graph, some_tokens, first_log, cut, frame.costs()))
    finite = [c[0] for c in wanted if math.isfinite(c[0])]
    exact = f32(f32(min(finite)) + f32(beam)) if finite else math.inf
    assert bound == exact
    within = sorted(c for c in wanted if math.isfinite(c[0]) and c[0] <= exact)
    assert sorted(c for c in got.tolist() if c[0] <= bound) == within
    assert set(got.tolist()) <= set(wanted)
    assert work["leaving_arcs"] == len(wanted)
    assert work["read_arcs"] <= len(wanted)
    return got, work


def test_by_hand():
    graph = Graph.from_arcs(
        [(0, 1, 1, 5, 0.5), (0, 0, 2, 0, 0.25), (1, 0, 0, 0, 0.0), (1, 1, 1, 0, 1.0)], start=0, finals={1: 0.0}
    )
    row = np.array([-1.0, -2.0], dtype=f32)
    got, bound, _ = _stages.expand(
        graph, tokens([(0, 0.0), (1, 3.0)]), 10, [True, True], _stages.AcousticCosts(row, acoustic_scale=2.0), 4.0
    )
    assert bound == 6.5
    assert sorted(got.tolist()) == [(2.5, 0, 1, 10), (4.25, 1, 0, 10), (6.0, 3, 1, 11)]


def test_tokens_beyond_the_cutoff_stay():
    graph = Graph.from_arcs([(0, 1, 1, 0, 0.0), (1, 0, 1, 0, 0.0)], start=0, finals={1: 0.0})
    got, _, work = _stages.expand(
        graph, tokens([(0, 0.0), (1, 2.0)]), 0, [True, False], _stages.AcousticCosts(np.zeros(1, f32)), 9.0
    )
    assert got["arc"].tolist() == [0]
    assert work["expanded_tokens"] == 1


def test_nothing_finite():
    graph = Graph.from_arcs([(0, 1, 1, 0, 0.0)], start=0, finals={1: 0.0})
    got, bound, _ = _stages.expand(
        graph, tokens([(0, 0.0)]), 0, [True], _stages.AcousticCosts(np.array([-np.inf], f32)), 9.0
    )
    assert len(got) == 0
    assert bound == math.inf


@given(
    graphs.graphs(),
    st.lists(st.integers(0, 640).map(lambda n: n / 64), min_size=9, max_size=9),
    graphs.log_probs(max_frames=1).filter(len),
    st.sampled_from([0.0, 0.5, 3.0, math.inf]),
    st.sampled_from([0.0, 0.5, 5.0, math.inf]),
)
def test_all_that_the_exact_bound_admits(graph, costs, rows, beam, cutoff_above_best):
    some = tokens(list(enumerate(costs[: graph.num_states])))
    check(graph, some, some["cost"].min() + cutoff_above_best, rows[0], beam)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("columns", [3, 33, 700])
def test_states_of_high_degree(dtype, columns):
    """The search by column reads fewer arcs and finds the same candidates, several arcs of one column included."""
    rng = np.random.default_rng(columns)
    arcs = [
        (0, int(rng.integers(0, 5)), int(label), 0, float(rng.gamma(1.0)))
        for label in rng.integers(1, columns + 1, 2000)
    ]
    arcs += [(1, 0, 1, 0, 0.0)]
    graph = Graph.from_arcs(arcs, start=0, finals={0: 0.0}, num_states=5, num_columns=columns)
    row = graphs.random_log_probs(columns, 1, columns)[0].astype(dtype)
    _, work = check(graph, tokens([(1, 0.0), (0, 2.0)]), 17.0, row, 3.0, blank_penalty=1.5, blank=columns - 1)
    if columns == 700:
        assert work["read_arcs"] < 0.5 * work["leaving_arcs"]


@given(graphs.log_probs(max_frames=1).filter(len), st.sampled_from([0.5, 1.0, 1.7]), st.sampled_from([0.0, -0.5, 2.0]))
def test_acoustic_costs(rows, scale, penalty):
    row = rows[0]
    expected = -(f32(scale) * row)
    expected[2] += f32(penalty)
    got = _stages.AcousticCosts(row, acoustic_scale=scale, blank_penalty=penalty, blank=2).costs()
    assert got.tobytes() == expected.astype(f32).tobytes()


def test_every_float16_is_read_exactly():
    bits = np.arange(2**16, dtype=np.uint16)
    halves = bits.view(np.float16)
    numbers = halves[~np.isnan(halves)]
    got = _stages.AcousticCosts(numbers).costs()
    assert got.tobytes() == (-numbers.astype(f32)).tobytes()
