"""The search with boosts on a GPU gives the CPU's bytes, whatever the schedule."""

import gc
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbeam import Boost, CapacityError, CtcDecoder, Graph, SymbolTable
from arcbeam.gpu.tuned import search_plan
from tests.decode import graphs
from tests.decode.both_engines import check
from tests.decode.emulated_gpu import TIGHT, Shape
from tests.decode.equality import same
from tests.decode.lattices import lattices, packed
from tests.decode.small_search import BATCH, ROOMY
from tests.decode.test_boost import DEPTH_SCALINGS, PHRASES, boost_of
from tests.decode.test_boost import worded as with_words
from tests.decode.test_lattice import BEAMS
from tests.hypothesis_examples import examples
from tests.simt.build import schedules

WORDS = [f"w{i}" for i in range(1, 50)]


@pytest.fixture
def gpu(emulated_gpu):
    emulated_gpu.begin_with(ROOMY)
    return emulated_gpu


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


@settings(max_examples=examples(60), deadline=None)
@given(
    graphs.graphs(blank=3),
    PHRASES,
    st.lists(graphs.log_probs(), min_size=1, max_size=4),
    st.sampled_from([0.5, 2.0, math.inf]),
    st.sampled_from([None, *BEAMS]),
    st.sampled_from([None, None, 1, 4]),
    DEPTH_SCALINGS,
    st.integers(0, 2**32),
)
def test_random_graphs(graph, phrases, batch, beam, lattice_beam, max_active, depth_scaling, seed):
    graph = with_words(graph)
    boost, _ = boost_of(graph, phrases, depth_scaling)
    check(
        graph, batch, boost=boost, beam=beam, max_active=max_active, acoustic_scale=0.5, lattice_beam=lattice_beam,
        shape=Shape(block=32), schedule={"seed": seed},
    )  # fmt: skip


def test_log_probs_that_come_in_parts():
    check(GRAPH, BATCH, boost=random_boosts(len(BATCH)), beam=6.0, lattice_beam=4.0, parts=(256, 1024, 512))


# What the engine keeps of lists


def decoders(**options):
    return (CtcDecoder(GRAPH, device=device, beam=6.0, **options) for device in ("cuda", "cpu"))


def equal(on_gpu, on_cpu, batch, boost):
    """Asserts equal paths and lattices; returns the hypotheses."""
    found = on_gpu.decode(batch, boost=boost)
    same(found, on_cpu.decode(batch, boost=boost))
    got, wanted = lattices(on_gpu, batch, boost=boost), lattices(on_cpu, batch, boost=boost)
    assert [packed(lattice) for lattice in got] == [packed(lattice) for lattice in wanted]
    return found


def test_some_utterances_and_batches_have_no_list(gpu):
    on_gpu, on_cpu = decoders()
    boosts = [Boost(dict.fromkeys(WORDS[::2], 6.0))] * (len(BATCH) - 1) + [None]
    found, plain = equal(on_gpu, on_cpu, BATCH, boosts), on_cpu.decode(BATCH)
    assert any(one.boosts for one in found)
    assert [one.text for one in found] != [one.text for one in plain]
    same(found[-1:], plain[-1:])
    same(on_gpu.decode(BATCH), plain)
    equal(on_gpu, on_cpu, BATCH, boosts[0])


def test_lists_are_sent_once_and_go_with_their_owner(gpu):
    on_gpu, on_cpu = decoders()
    before = on_gpu.memory()
    assert before.boosts == 0
    first, second = random_boosts(2)
    equal(on_gpu, on_cpu, BATCH, first)
    one = on_gpu.memory().boosts
    assert one > 0
    equal(on_gpu, on_cpu, BATCH, first)
    assert on_gpu.memory().boosts == one
    equal(on_gpu, on_cpu, BATCH, [second if i % 2 else None for i in range(len(BATCH))])
    assert on_gpu.memory().boosts > one
    del second
    gc.collect()
    assert on_gpu.memory().boosts == one
    equal(on_gpu, on_cpu, BATCH, [first if i % 2 else None for i in range(len(BATCH))])
    on_gpu.release()
    equal(on_gpu, on_cpu, BATCH, first)


def test_memory_that_lists_have_no_room_in(gpu):
    on_gpu, on_cpu = decoders()
    limit = on_gpu.memory().device_bytes + (4 << 20)
    on_gpu, _ = decoders(memory_limit=limit)
    large = Boost({f"{a} {b}": 1.0 for a in WORDS for b in WORDS for _ in [0]} | {
        f"{a} {b} {c}": 1.0 for a in WORDS for b in WORDS for c in WORDS[:40]
    })  # fmt: skip
    with pytest.raises(CapacityError, match="memory_limit"):
        on_gpu.decode(BATCH, boost=large)
    same(on_gpu.decode(BATCH), on_cpu.decode(BATCH))


def test_utterances_with_errors_or_without_frames(gpu):
    on_gpu, on_cpu = decoders()
    bad = BATCH[0].copy()
    bad[3, 1] = np.nan
    dead = BATCH[4].copy()
    dead[:] = -np.inf
    batch, boost = [bad, dead, BATCH[2][:0], BATCH[2]], random_boosts(1)[0]
    found, wanted = (one.decode(batch, boost=boost, errors="return") for one in (on_gpu, on_cpu))
    same(found[1:], wanted[1:])
    assert str(found[0].error) == str(wanted[0].error)
    assert [one.complete for one in found] == [False, False, True, True]


def test_a_boost_alone_takes_the_shared_memory_of_the_plain_search():
    for name in ("boosted", "boosted_lattice"):
        assert search_plan.shared_bytes(name, True) == search_plan.shared_bytes("search", False)
    assert search_plan.shared_bytes("boosted_rescore", True) == search_plan.RESCORING_SHARED_BYTES
