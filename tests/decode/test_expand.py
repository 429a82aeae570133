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


def wide_graph(rng, columns, pairs=0.2, weights=None):
    """State 0 has an arc or two for most columns, state 1 for few, state 2 three of one column."""
    label = np.sort(rng.choice(np.arange(1, columns + 1), columns * 3 // 4, replace=False))
    label = np.concatenate([label, rng.choice(label, int(pairs * len(label)), replace=False)])
    weight = rng.gamma(4.0, 1.5, len(label)) if weights is None else weights(len(label))
    arcs = [(0, int(rng.integers(0, 4)), int(at), 0, float(w)) for at, w in zip(label, weight, strict=True)]
    arcs += [(1, 0, int(at), 0, float(at % 3)) for at in rng.choice(np.arange(1, columns + 1), 20, replace=False)]
    arcs += [(2, 0, int(at), 0, 1.0) for at in range(1, columns + 1)] + [(2, 1, 5, 0, 0.5), (2, 2, 5, 0, 0.25)]
    return Graph.from_arcs(arcs, start=0, finals={0: 0.0}, num_states=4, num_columns=columns)


WEIGHTS = {
    "usual": None,
    "equal": lambda n: np.full(n, 2.0),
    "far apart": lambda n: np.geomspace(1e-3, 1e30, n),
    "negative": lambda n: np.linspace(-40.0, 40.0, n),
    "some infinite": lambda n: np.where(np.arange(n) % 3 == 0, np.inf, 1.0),
}


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("columns", [65, 128, 513, 1500])
@pytest.mark.parametrize("beam", [0.0, 4.0, 17.0, 1e30, math.inf])
def test_wide_states(weights, columns, beam):
    """Found by their rows or read one by one, the arcs are the same; the second frame's columns are mostly cheap."""
    rng = np.random.default_rng(columns)
    graph = wide_graph(rng, columns, weights=WEIGHTS[weights])
    assert _stages.WideStates(graph).bytes > 0
    rows = [graphs.random_log_probs(columns, 1, columns)[0], rng.uniform(-3.0, 0.0, columns).astype(f32)]
    rows[0][::7] = -np.inf
    some = tokens([(0, 1.25), (1, 0.0), (2, 0.5), (0, 7.0), (3, 0.25), (0, 300.0), (2, 9.0)])
    for row in rows:
        check(graph, some, math.inf, row, beam, blank_penalty=-0.5, blank=3)


def test_a_frame_of_more_columns_than_the_graph_reads():
    rng = np.random.default_rng(7)
    graph = wide_graph(rng, 130)
    row = np.full(1000, -0.01, f32)
    check(graph, tokens([(0, 0.0), (2, 1.0)]), 17.0, row, 8.0)


def test_few_arcs_of_wide_states_are_read():
    """Weights within a state differ, so that most arcs of a cheap column are too dear: their targets are not read."""
    rng = np.random.default_rng(9)
    graph = wide_graph(rng, 513)
    row = np.full(513, -30.0, f32)
    row[rng.choice(513, 60, replace=False)] = -rng.uniform(0.0, 12.0, 60).astype(f32)
    got, work = check(graph, tokens([(1, 0.0), (0, 0.0), (0, 3.0), (0, 6.0)]), 17.0, row, 10.0)
    assert work["leaving_arcs"] > 1000
    assert work["read_arcs"] < 1.1 * len(got) + 16


def test_rows_are_made_of_wide_states_alone():
    def rows_of(num_arcs, columns):
        arcs = [(0, 1, at % columns + 1, 0, 1.0) for at in range(num_arcs - 1)] + [(0, 1, columns, 0, 1.0)]
        graph = Graph.from_arcs(arcs, start=0, finals={1: 0.0}, num_states=2, num_columns=columns)
        return _stages.WideStates(graph).bytes > 0

    assert [rows_of(n, 100) for n in (32, 33, 200, 202)] == [False, True, True, False]
    assert rows_of(80, 80)
    assert not rows_of(64, 64)
    assert not rows_of(300, 6000)
    assert rows_of(400, 400)


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
