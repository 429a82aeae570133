"""Lattices of the CPU engine: against the oracle of law 8, against all paths of small graphs, and the invariances."""

import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import CtcDecoder, Graph
from tests.decode import graphs, lattice_oracle
from tests.decode.language_models import over, rough_models
from tests.decode.lattices import lattices, packed
from tests.decode.oracle import EPSILON, _arcs
from tests.decode.small_search import BATCH, GRAPH
from tests.decode.test_engine import as_bytes
from tests.hypothesis_examples import examples

BEAMS = [0.0, 0.5, 2.0, 8.0, math.inf]
COLLECT = [0, 1, 7, 60, 1 << 22]  # entries and links that may gather before the first pruning
slow = settings(deadline=None, max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow])


def decoder(graph, *, collect_above=1 << 22, **options):
    with mock.patch("arcbeam.ctc.engines.COLLECT_ABOVE", collect_above):
        return CtcDecoder(graph, **{"device": "cpu", "threads": 1} | options)


def as_the_oracle(found, wanted):
    assert [tuple(link) for link in found["links"].tolist()] == wanted["links"]
    for name in ("first_token", "states", "costs", "first_link", "end_extras", "best"):
        assert found[name].tolist() == wanted[name], name
    for name in ("total_cost", "reached_final", "complete"):
        assert found[name] == wanted[name], name


def test_agrees_with_the_oracle_on_real_weights():
    graph = graphs.random_graph(3, states=300)
    batch = [graphs.random_log_probs(seed, 25) for seed in range(3)]
    for lattice_beam in (2.0, 4.0):
        options = {"beam": 6.0, "max_active": 60, "acoustic_scale": 0.7, "lattice_beam": lattice_beam}
        for logp, found in zip(batch, lattices(decoder(graph, **options), batch), strict=True):
            as_the_oracle(found, lattice_oracle.decode(graph, logp, **options))
            assert len(found["links"]) >= len(found["states"]) > len(found["best"]) > 25


def follows_the_graph(found, graph, logp, acoustic_scale):
    """Asserts that links are arcs with their costs, and that the best path is one without slack. Sums are exact."""
    steps = np.searchsorted(found["first_token"], np.arange(len(found["states"])), side="right") - 1
    for source, target, arc, slack in found["links"].tolist():
        assert arc in _arcs(graph, found["states"][source])
        assert graph.targets["next_state"][arc] == found["states"][target]
        column = int(graph.columns[arc])
        read = column != EPSILON
        assert steps[target] == steps[source] + read
        acoustic = -(acoustic_scale * float(logp[steps[source], column])) if read else 0.0
        cost = found["costs"][target] + slack - found["costs"][source]
        assert cost == acoustic + float(graph.targets["weight"][arc])
    best = found["links"][found["best"]]
    assert best["slack"].tolist() == [0.0] * len(best)
    assert best["source"].tolist() == [0, *best["target"][:-1]][: len(best)]
    assert set(range(1, len(found["states"]))) == set(found["links"]["target"].tolist())  # none is without a link
    end = int(best["target"][-1]) if len(best) else 0
    assert found["end_extras"][end - found["first_token"][-2]] == 0.0


@st.composite
def few_paths(draw):
    graph = draw(graphs.graphs(max_states=5, max_arcs=9, columns=2))
    return graph, draw(graphs.log_probs(max_frames=4, columns=2))


def all_paths(graph, logp):
    """{arcs: cost} of every path that reads all frames and ends in a final state; any state where there is none."""
    found, waiting = {}, [((), graph.start, 0, 0.0)]
    for arcs, state, frame, cost in waiting:
        if frame == len(logp):
            found[arcs] = state, cost
        for arc in _arcs(graph, state):
            column, weight = int(graph.columns[arc]), float(graph.targets["weight"][arc])
            reads = column != EPSILON
            if not (reads and frame == len(logp)) and math.isfinite(weight):
                read = float(logp[frame, column]) if reads else 0.0
                if math.isfinite(read):
                    waiting.append(
                        ((*arcs, arc), int(graph.targets["next_state"][arc]), frame + reads, cost + weight - read)
                    )
    ended = {arcs: cost + float(graph.finals[state]) for arcs, (state, cost) in found.items()}
    return {arcs: cost for arcs, cost in ended.items() if math.isfinite(cost)} or {a: c for a, (_, c) in found.items()}


def paths_of(lattice):
    """{arcs: cost} of every path of a lattice, with its end."""
    links, first_link, first_end = lattice["links"], lattice["first_link"], int(lattice["first_token"][-2])
    found, waiting = {}, [((), 0, lattice["total_cost"])]
    for arcs, token, cost in waiting:
        if token >= first_end and math.isfinite(lattice["end_extras"][token - first_end]):
            found[arcs] = cost + float(lattice["end_extras"][token - first_end])
        for _, target, arc, slack in links[first_link[token] : first_link[token + 1]].tolist():
            waiting.append(((*arcs, arc), target, cost + slack))
    return found


@slow
@given(few_paths(), st.sampled_from(BEAMS))
def test_has_every_path_within_the_beam(graph_and_logp, lattice_beam):
    """Nothing is cut by the search, so every path is known; each link of the lattice is on a path within the beam."""
    graph, logp = graph_and_logp
    wanted = all_paths(graph, logp)
    one = decoder(graph, beam=math.inf, max_active=None, lattice_beam=lattice_beam)
    found = lattices(one, [logp])[0]
    if not wanted:
        assert not found["complete"]
        return
    best = min(wanted.values())
    paths = paths_of(found)
    within = {arcs: cost for arcs, cost in wanted.items() if cost - best <= lattice_beam}
    assert found["total_cost"] == best
    assert {arcs: paths.get(arcs) for arcs in within} == within
    assert paths.items() <= wanted.items()
    starts = {}  # the arcs of a path from the start name its tokens
    for arcs in within:
        for i in range(len(arcs)):
            starts.setdefault(arcs[: i + 1], arcs)
    links, token = set(), {(): 0}
    for start in sorted(starts, key=len):
        source, arc = token[start[:-1]], start[-1]
        here = found["links"][found["first_link"][source] : found["first_link"][source + 1]]
        (link,) = here[here["arc"] == arc]
        token[start] = int(link["target"])
        links.add((source, arc))
    assert links == {(int(link["source"]), int(link["arc"])) for link in found["links"]}


@pytest.fixture(scope="module")
def graph():
    return graphs.random_graph(1)


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(2)
    return [graphs.random_log_probs(seed, int(rng.integers(0, 60))) for seed in range(16)]


PLAIN = {"beam": 10.0, "max_active": 1000, "lattice_beam": 8.0}
RESCORED = {"beam": 18.0, "max_active": 2000, "lattice_beam": 16.0, "lm_scale": 0.3}


@pytest.fixture(scope="module", params=["plain", "rescored", "two hypotheses a state"])
def search(request, graph):
    """A graph and options, the language models among them."""
    if request.param == "plain":
        return graph, PLAIN
    large, small = rough_models(7)
    n = 2 if request.param.startswith("two") else None
    models = {"language_model": large, "graph_language_model": small, "hypotheses_per_state": n}
    return over(graph, small), RESCORED | models


@pytest.fixture(scope="module")
def answers(search, batch):
    graph, options = search
    found = lattices(decoder(graph, **options), batch)
    tokens = sum(len(one["states"]) for one in found)
    assert sum(len(one["links"]) for one in found) > 1.05 * tokens > 5 * sum(len(one["best"]) for one in found)
    assert sum(np.isfinite(one["end_extras"]).sum() for one in found) > 10 * len(batch)
    return [packed(one) for one in found]


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_order_split_and_rerun(search, batch, answers, threads):
    graph, options = search
    one = decoder(graph, **options, threads=threads)
    order = np.random.default_rng(0).permutation(len(batch))
    shuffled = [packed(found) for found in lattices(one, [batch[i] for i in order])]
    assert [shuffled[int(np.flatnonzero(order == i)[0])] for i in range(len(batch))] == answers
    assert [packed(lattices(one, [logp])[0]) for logp in batch] == answers
    assert [packed(found) for found in lattices(one, batch)] == answers


@pytest.mark.parametrize("collect_above", [0, 100, 3000, 20_000])
def test_it_does_not_matter_when_links_are_pruned(search, batch, answers, collect_above):
    graph, options = search
    one = decoder(graph, collect_above=collect_above, **options)
    assert [packed(found) for found in lattices(one, batch)] == answers


def test_the_best_path_does_not_depend_on_the_lattice(search, batch, answers):
    graph, options = search
    one = decoder(graph, **options)
    with_lattices = one.decode(batch, lattice=True)
    assert as_bytes(with_lattices) == as_bytes(one.decode(batch)) == as_bytes(one.decode(batch, lattice=False))
    for h in with_lattices:
        found = h._results.lattices.lattices.arrays(h._index)
        assert found["links"][found["best"]]["arc"].tolist() == h.arcs.tolist()
        assert -found["total_cost"] == h.partial_score
        assert (found["reached_final"], found["complete"]) == (h.reached_final, h.complete)
    assert one.decode(batch[:1])[0]._results.lattices is None


def test_a_smaller_beam_keeps_a_part(search, batch):
    graph, options = search
    last = None
    for beam in (math.inf, 8.0, 2.0, 0.0):
        found = [
            {(int(link["arc"]), float(one["costs"][link["target"]])) for link in one["links"]}
            for one in lattices(decoder(graph, **options | {"lattice_beam": beam}), batch)
        ]
        assert last is None or all(part <= whole for part, whole in zip(found, last, strict=True))
        assert last is None or sum(map(len, found)) < sum(map(len, last))
        last = found


def test_long_audio_is_pruned_as_it_goes(graph):
    long = [graphs.random_log_probs(3, 1500)]
    one = decoder(graph, **PLAIN)
    whole = packed(lattices(one, long)[0])
    assert [packed(found) for found in lattices(decoder(graph, collect_above=2000, **PLAIN), long)] == [whole]


LINE = Graph.from_arcs([(0, 1, 1, 1, 0.5), (0, 1, 1, 2, 0.75), (1, 2, 0, 0, 0.0)], finals={1: 1.0, 2: 0.25},
                       num_columns=2)  # fmt: skip


NO_FRAMES = np.zeros((0, 1), np.float32)


def row(*values):
    return np.array([values], np.float32)


def test_by_hand():
    """Two arcs with a word lead to state 1, from which an epsilon arc leads to a better end."""
    found = lattices(decoder(LINE), [row(-1.0, -9.0)])[0]
    assert found["first_token"].tolist() == [0, 1, 3]
    assert found["states"].tolist() == [0, 1, 2]
    assert found["costs"].tolist() == [0.0, 1.5, 1.5]
    assert found["links"].tolist() == [(0, 1, 0, 0.0), (0, 1, 1, 0.25), (1, 2, 2, 0.0)]
    assert found["first_link"].tolist() == [0, 2, 3, 3]
    assert found["end_extras"].tolist() == [0.75, 0.0]
    assert found["best"].tolist() == [0, 2]
    assert (found["total_cost"], found["reached_final"], found["complete"]) == (1.75, True, True)


@pytest.mark.parametrize(("lattice_beam", "extra"), [(0.0, math.inf), (0.74, math.inf), (0.75, 0.75)])
def test_a_token_that_leads_to_a_better_end_stays_but_is_an_end_only_within_the_beam(lattice_beam, extra):
    found = lattices(decoder(LINE, lattice_beam=lattice_beam), [row(-1.0, -9.0)])[0]
    assert [tuple(link) for link in found["links"].tolist() if link[2] != 1] == [(0, 1, 0, 0.0), (1, 2, 2, 0.0)]
    assert found["end_extras"].tolist() == [extra, 0.0]


def test_no_final_state_makes_every_token_an_end():
    graph = Graph.from_arcs([(0, 1, 1, 0, 0.5), (0, 2, 1, 0, 2.0), (1, 3, 0, 0, 0.25)], num_columns=1, finals={})
    found = lattices(decoder(graph), [row(0.0)])[0]
    assert not found["reached_final"]
    assert found["states"].tolist() == [0, 1, 2, 3]
    assert found["end_extras"].tolist() == [0.0, 1.5, 0.25]
    assert found["total_cost"] == 0.5


def test_no_frames_and_no_words():
    graph = Graph.from_arcs([(0, 1, 0, 0, 0.5), (0, 0, 1, 0, 0.0)], num_columns=1, finals={1: 0.0})
    empty, silent = lattices(decoder(graph), [NO_FRAMES, np.zeros((2, 1), np.float32)])
    assert empty["first_token"].tolist() == [0, 2]
    assert empty["links"].tolist() == [(0, 1, 0, 0.0)]
    assert silent["first_token"].tolist() == [0, 1, 2, 4]
    assert silent["links"]["arc"].tolist() == [1, 1, 0]
    alone = lattices(decoder(Graph.from_arcs([], num_states=1, num_columns=1, finals={0: 2.0})), [NO_FRAMES])[0]
    assert (alone["first_token"].tolist(), alone["end_extras"].tolist(), alone["total_cost"]) == ([0, 1], [0.0], 2.0)


def test_a_dead_search_has_its_best_path_alone():
    graph = Graph.from_arcs(
        [(0, 1, 1, 1, 0.5), (0, 1, 1, 2, 0.75), (0, 2, 1, 0, 0.625), (1, 3, 0, 0, -0.25), (3, 3, 1, 0, 0.0)],
        num_columns=2, finals={3: 0.0},
    )  # fmt: skip
    logp = np.array([[0.0, -math.inf], [-math.inf, 0.0]], np.float32)
    for collect_above in COLLECT:
        found = lattices(decoder(graph, collect_above=collect_above), [logp])[0]
        assert not found["complete"]
        assert found["links"].tolist() == [(0, 1, 0, 0.0), (1, 2, 3, 0.0)]
        assert found["first_token"].tolist() == [0, 1, 3]
        assert found["end_extras"].tolist() == [math.inf, 0.0]
        assert found["best"].tolist() == [0, 1]


def test_an_utterance_with_an_error_has_no_lattice():
    bad = row(math.nan, 0.0)
    found = lattices(decoder(LINE), [row(-1.0, -9.0), bad, row(-1.0, -9.0)], errors="return")
    assert packed(found[0]) == packed(found[2])
    assert len(found[1]["states"]) == len(found[1]["links"]) == len(found[1]["first_token"]) == 0


@pytest.mark.parametrize("value", [-1.0, math.nan])
def test_a_bad_beam_is_an_error(value):
    with pytest.raises(ValueError, match=r"lattice_beam: expected a number of at least 0, got (-1.0|nan)"):
        CtcDecoder(LINE, device="cpu", lattice_beam=value)


@pytest.mark.parametrize("lattice_beam", [0.0, 3.0, math.inf])
@pytest.mark.parametrize("n", [0, 2, None])  # 0: without language models
def test_a_gpu_gives_the_same_bytes(gpu, n, lattice_beam):
    graph, options = GRAPH, {"beam": 5.0, "max_active": 40, "lattice_beam": lattice_beam}
    if n != 0:
        large, small = rough_models(7)
        graph = over(graph, small)
        options |= {"language_model": large, "graph_language_model": small, "hypotheses_per_state": n, "lm_scale": 0.3}
    wanted = [packed(found) for found in lattices(decoder(graph, **options), BATCH)]
    assert [packed(found) for found in lattices(decoder(graph, **options | {"device": "cuda"}), BATCH)] == wanted
