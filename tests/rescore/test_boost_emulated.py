"""The search with boosts on a GPU gives the CPU's bytes, whatever the schedule."""

import numpy as np
import pytest

from arcbeam import Boost, Graph, SymbolTable
from tests.decode import graphs
from tests.decode.both_engines import check
from tests.decode.emulated_gpu import TIGHT, Shape
from tests.decode.small_search import BATCH, ROOMY
from tests.simt.build import schedules

WORDS = [f"w{i}" for i in range(1, 50)]


def worded(graph):
    return Graph(**graph.fields() | {"word_symbols": SymbolTable.from_list(["<eps>", *WORDS])})


GRAPH = worded(graphs.random_graph(4, states=120, columns=12))


def random_boosts(count, phrases=40):
    made = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        names = {" ".join(rng.choice(WORDS, rng.integers(1, 4))): float(rng.normal(1.0, 2.0)) for _ in range(phrases)}
        made.append(Boost(names))
    return made


pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


@pytest.mark.parametrize("lattice_beam", [None, 0.0, 4.0])
def test_schedules(lattice_beam):
    for number, schedule in enumerate(schedules(15)):
        check(
            GRAPH, BATCH[:3], boost=random_boosts(3), beam=6.0, max_active=40, lattice_beam=lattice_beam, room=ROOMY,
            shape=Shape(lanes=1 + number % 2, block=(32, 64)[number % 2]), schedule=schedule,
        )  # fmt: skip


@pytest.mark.parametrize("lattice_beam", [None, 4.0])
def test_schedules_with_little_room(lattice_beam):
    """Frames are given up and redone, and everything grows."""
    for schedule in schedules(10):
        seen = check(
            GRAPH, BATCH, boost=random_boosts(len(BATCH)), beam=6.0, max_active=40, lattice_beam=lattice_beam,
            schedule=schedule,
        )  # fmt: skip
        assert seen.launches > 3


@pytest.mark.parametrize("seed", range(6))
def test_ties(seed):
    """Paths of equal cost and arc meet with different boost states: the smaller state's wins."""
    rng = np.random.default_rng(seed)
    source, target, labels = rng.integers(0, 8, 60), rng.integers(0, 8, 60), rng.integers(1, 4, 60)
    plain = Graph.from_arcs(
        (source, target, labels, rng.integers(0, 6, 60), np.zeros(60, np.float32)), num_states=8, num_columns=3,
        finals=dict.fromkeys(range(8), 0.0),
    )  # fmt: skip
    boosts = [Boost({"w1 w2 w3": 0.0, "w2 w4": 0.0, "w3 w1": 0.0, "w4 w5 w1": 0.0, "w5 w5": 0.0})]
    batch = [np.full((10, 3), -1.0, np.float32)]
    for lattice_beam in (None, 2.0):
        for schedule in schedules(5):
            check(worded(plain), batch, boost=boosts, beam=2.0, lattice_beam=lattice_beam, room=ROOMY,
                  shape=Shape(lanes=1), schedule=schedule)  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_few_words_in_many_phrases(seed):
    """Phrases overlap, states are left by the same words, and a frame has more words than a block has threads."""
    rng = np.random.default_rng(seed)
    source, target, labels = rng.integers(0, 8, 200), rng.integers(0, 8, 200), rng.integers(1, 6, 200)
    weights = rng.gamma(1.0, size=200).astype(np.float32)
    graph = Graph.from_arcs(
        (source, target, labels, rng.integers(1, 5, 200), weights), num_states=8, num_columns=6,
        finals=dict.fromkeys(range(8), 0.0),
    )  # fmt: skip
    words = ["w1", "w2", "w3", "w4"]
    boosts = [Boost({" ".join(rng.choice(words, rng.integers(1, 6))): float(rng.normal(1.0, 2.0)) for _ in range(60)})]
    for lattice_beam in (None, 6.0):
        for schedule in schedules(2):
            check(worded(graph), [graphs.random_log_probs(seed, 8, 6)], boost=boosts, beam=6.0,
                  lattice_beam=lattice_beam, room=ROOMY, shape=Shape(lanes=1, block=32), schedule=schedule)  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_few_words_that_become_dear(seed):
    """The bound rises by the boost: what was beyond it before is not admitted. No state is final: refunds decide."""
    rng = np.random.default_rng(seed)
    source, target, labels = rng.integers(0, 6, 60), rng.integers(0, 6, 60), rng.integers(1, 9, 60)
    weights = rng.gamma(2.0, size=60).astype(np.float32)
    graph = Graph.from_arcs(
        (source, target, labels, rng.integers(1, 6, 60), weights), num_states=6, num_columns=9, finals={}
    )
    begun = {f"{a} {b} {c}": 2.0 for a in WORDS[:3] for b in WORDS[3:5] for c in WORDS[:2]}
    boosts = [Boost(dict.fromkeys(WORDS[:4], -4.0) | begun)]
    for schedule in schedules(4):
        check(
            worded(graph), [graphs.random_log_probs(seed, 6, 9)], boost=boosts, beam=2.0, room=ROOMY,
            shape=Shape(lanes=1, block=128), schedule=schedule,
        )  # fmt: skip


@pytest.mark.parametrize("lattice_beam", [None, 8.0])
def test_few_words_of_epsilon_arcs_become_dear(lattice_beam):
    """What the boost of an epsilon arc lifts beyond the bound is not admitted."""
    rng = np.random.default_rng(8)
    arcs = [(i, i, 1 + i % 4, 0, float(weight)) for i, weight in enumerate(rng.gamma(1.0, size=12))]
    arcs += [(i, (i + 1) % 12, 1 + (i + 1) % 4, 0, 0.5) for i in range(12)]
    arcs += [(i, i + step, 0, 1 + (i + step) % 6, 0.25) for i in range(9) for step in (1, 3)]
    graph = worded(Graph.from_arcs(arcs, start=0, finals={11: 0.0}, num_columns=4))
    boosts = [Boost(dict.fromkeys(WORDS[:4], -3.0) | {"w5 w6": 2.0, "w1 w2": 4.0})]
    for seed, schedule in enumerate(schedules(4)):
        check(graph, [graphs.random_log_probs(seed, 8, 4)], boost=boosts, beam=2.5, lattice_beam=lattice_beam,
              room=ROOMY, shape=Shape(lanes=1, block=64), schedule=schedule)  # fmt: skip


def test_a_long_list_has_no_filter():
    """Every word is looked for in the list itself."""
    rng = np.random.default_rng(5)
    phrases = {" ".join(rng.choice(WORDS[:40], 3)): float(rng.normal(1.0, 2.0)) for _ in range(9000)}
    boosts = [Boost(phrases), random_boosts(1)[0]]
    assert len(boosts[0].compiled(GRAPH).arcs) > 1 << 14
    for schedule in schedules(1):
        check(GRAPH, BATCH[:2][::-1], boost=boosts, beam=6.0, room=ROOMY, shape=Shape(lanes=1), schedule=schedule)


def test_more_rounds_than_are_listed():
    """The list of rounds ends where the list of phrases begins."""
    rng = np.random.default_rng(6)
    count = 500 * 32 * 8  # arcs of as many rounds and one
    source, target, labels = np.zeros(count, int), rng.integers(0, 2, count), rng.integers(1, 12, count)
    written = np.where(rng.random(count) < 0.5, 0, rng.integers(1, 50, count))
    graph = Graph.from_arcs(
        (source, target, labels, written, rng.gamma(2.0, size=count).astype(np.float32)), num_states=2, num_columns=12,
        finals={0: 0.0},
    )  # fmt: skip
    for schedule in schedules(1):
        check(worded(graph), [graphs.random_log_probs(7, 3, 12)], boost=random_boosts(1), beam=0.5, room=ROOMY,
              shape=Shape(lanes=1, block=128), schedule=schedule)  # fmt: skip


@pytest.mark.parametrize(("cluster", "lanes", "team_tokens"), [(2, 2, 0), (3, 1, 15)])
def test_clusters_give_the_same_bytes(cluster, lanes, team_tokens):
    """The blocks that help with a frame boost by the list of its utterance."""
    shape = Shape("cluster", lanes, 32, cluster, team_tokens)
    for room, schedule in zip((TIGHT, ROOMY), schedules(2), strict=False):
        check(
            GRAPH,
            BATCH,
            boost=random_boosts(len(BATCH)),
            beam=6.0,
            max_active=40,
            room=room,
            shape=shape,
            schedule=schedule,
        )


def test_hot_utterances_go_on_in_a_cluster():
    batch = [graphs.random_log_probs(seed, frames, 12) for seed, frames in enumerate((20, 3, 30))]
    shape = Shape(lanes=3, block=32, hot_tokens=5, hot_lanes=2)
    launches = {
        check(
            GRAPH, batch, boost=random_boosts(3), beam=6.0, max_active=40, room=ROOMY, shape=shape, schedule=schedule
        ).launches
        for schedule in schedules(4)
    }  # fmt: skip
    assert 2 in launches  # whether few are left at work in time is the schedule's doing
