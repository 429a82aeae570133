"""Boosted frames that one warp decodes give the CPU's bytes: tokens differ in their phrases, and words change costs."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import Boost, Graph
from tests.decode import graphs
from tests.decode.both_engines import check
from tests.decode.emulated_gpu import TIGHT, Shape
from tests.decode.language_models import WORDS, all_costs_equal
from tests.decode.small_search import BATCH, LATTICE_BEAMS, ROOMY, check_chunks
from tests.decode.test_boost import DEPTH_SCALINGS, PHRASES, boost_of
from tests.decode.test_boost import worded as with_few_words
from tests.hypothesis_examples import examples
from tests.rescore.searches import CLOSED, known_words, worded
from tests.simt.build import schedules

SMALL = Shape(lanes=1, block=64, small_frame=32)
OPTIONS = {"beam": 6.0, "max_active": 40}
pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow])
@given(
    st.data(),
    graphs.graphs(blank=3),
    st.lists(graphs.log_probs(), max_size=4),
    st.sampled_from([0.0, 0.5, 2.0, 17.0, float("inf")]),
    st.sampled_from([None, 1, 2, 5]),
    st.builds(Shape, lanes=st.integers(1, 3), block=st.sampled_from([32, 64]), small_frame=st.sampled_from([1, 3, 32])),
    st.sampled_from([TIGHT, ROOMY]),
    st.sampled_from(LATTICE_BEAMS),
    st.integers(0, 2**32),
)
def test_random_graphs(data, graph, batch, beam, max_active, shape, room, lattice_beam, seed):
    graph = with_few_words(graph)
    boost = boost_of(graph, data.draw(PHRASES), data.draw(DEPTH_SCALINGS))[0]
    check(
        graph, batch, boost=boost, beam=beam, max_active=max_active, acoustic_scale=0.5, room=room, shape=shape,
        lattice_beam=lattice_beam, schedule={"seed": seed},
    )  # fmt: skip


@pytest.mark.parametrize("block", [32, 96])
def test_schedules(block):
    for schedule in schedules():
        check(CLOSED, BATCH, boost=known_words(len(BATCH)), room=ROOMY, shape=replace(SMALL, lanes=2, block=block),
              schedule=schedule, **OPTIONS)  # fmt: skip


@pytest.mark.parametrize(("kernel", "block"), [("wide", 512), ("dense", 256)])
def test_blocks_as_wide_as_on_a_gpu(kernel, block):
    for schedule in schedules(2):
        check(CLOSED, BATCH[:3], boost=known_words(3), room=ROOMY, shape=replace(SMALL, kernel=kernel, block=block),
              schedule=schedule, **OPTIONS)  # fmt: skip


@pytest.mark.parametrize("small_frame", [1, 8, 31, 32])
@pytest.mark.parametrize("room", [TIGHT, ROOMY])
def test_a_frame_between_a_warp_and_the_block(small_frame, room):
    """Phrases go on where the one leaves a frame to the other, in rooms that grow and that do not."""
    batch = [graphs.random_log_probs(seed, 40, 12, sharpness=3.0) for seed in range(3)]
    for max_active in (None, 5, 40):
        check(CLOSED, batch, boost=known_words(3), beam=3.0, max_active=max_active, room=room,
              shape=replace(SMALL, lanes=2, small_frame=small_frame))  # fmt: skip


def fan(arcs, columns=40):
    """A graph in which so many arcs with words leave one state, each for a state of its own, and come back."""
    out = [(0, 1 + i, 1 + i % columns, 1 + i % 49, 0.01 * (i % 7)) for i in range(arcs)]
    back = [(1 + i, 0, 1 + i % columns, 0, 0.0) for i in range(arcs)]
    graph = Graph.from_arcs([*out, *back], finals=np.zeros(1 + arcs, np.float32), num_columns=columns)
    return worded(graph)


@pytest.mark.parametrize("arcs", [31, 32, 33, 65, 500])
def test_arcs_and_states_around_what_a_warp_holds(arcs):
    """32 candidates have a thread each, 33 have not; a list makes some of them dearer and others cheaper."""
    rng = np.random.default_rng(arcs)
    logp = np.log(rng.dirichlet(np.ones(40), 12)).astype(np.float32)
    phrases = {word: float(score) for word, score in zip(WORDS, rng.normal(0.0, 1.5, len(WORDS)), strict=True)}
    boosts = [Boost(phrases | {"w1 w2": 2.0, "w3 w3 w3": 3.0}), Boost({"w40": -4.0})]
    for beam in (0.5, 2.0, 30.0):
        check(fan(arcs), [logp, logp[:3]], boost=boosts, beam=beam, max_active=None, room=ROOMY, shape=SMALL)


def parting(words, epsilon):
    """Words part the paths of one state, which meet again by one arc, that may read nothing."""
    arcs = [(0, 1, 1, word, 0.0) for word in words]
    arcs += [(1, 2, 0 if epsilon else 1, 40, 0.0), (2, 0, 1, 45, 0.0), (2, 2, 1, 0, 0.0)]
    return worded(Graph.from_arcs(arcs, finals={0: 0.0, 2: 0.0}, num_states=3, num_columns=2))


@pytest.mark.parametrize("epsilon", [False, True])
@pytest.mark.parametrize("tied", [2, 5, 31])
def test_ties_of_phrases(tied, epsilon):
    """Costs and arcs are equal, and the source whose phrase comes first is the law's choice, whichever thread has it. A
    phrase with a negative score costs nothing before its last word."""
    flat = np.full((9, 2), np.log(0.5), np.float32)
    words = range(1, 1 + tied)
    boost = Boost({f"w{word} w45": -1.0 for word in words})
    for order in (words, words[::-1]):
        for lattice_beam, schedule in zip((None, 1.0), schedules(2), strict=True):
            check(parting(order, epsilon), [flat], boost=boost, beam=4.0, room=ROOMY, shape=SMALL, schedule=schedule,
                  lattice_beam=lattice_beam)  # fmt: skip


@pytest.mark.parametrize("arcs", [16, 32])
def test_ties_of_costs(arcs):
    """Winners have equals that leave other phrases, by arcs that read and by epsilon arcs."""
    boost = Boost({"w1 w2 w3": 0.0, "w2 w4": 0.0, "w3 w1": 0.0, "w4 w5 w1": 0.0, "w5 w5": 0.0})
    for seed, schedule in enumerate(schedules(6)):
        graph = all_costs_equal(seed, arcs=arcs)[0]
        check(graph, [np.full((7, 3), -1.0, np.float32)], boost=boost, beam=2.0, max_active=30, room=ROOMY,
              shape=SMALL, schedule=schedule, lattice_beam=LATTICE_BEAMS[seed % 4])  # fmt: skip


def test_closures_with_words():
    """Epsilon arcs write words, which may lift a path beyond the bound, and states fill the warp and more."""
    for seed in range(6):
        graph = worded(graphs.random_graph(seed, states=60, columns=12, epsilon_share=0.6))
        for boost in (known_words(1)[0], Boost(dict.fromkeys(WORDS[:25], -1.5) | {"w1 w30": 2.0})):
            check(graph, BATCH[:3], boost=boost, beam=4.0, max_active=None, room=ROOMY, shape=SMALL,
                  lattice_beam=LATTICE_BEAMS[seed % 4])  # fmt: skip


def test_phrases_that_begin_and_end_with_one_word():
    """A word alone, repeated, and inside of longer phrases that begin with it."""
    boost = Boost({"w1": 1.0, "w1 w1": 2.0, "w1 w1 w1": 0.5, "w2": -2.0, "w2 w1": 3.0, "w3 w2 w1 w2": 4.0})
    rng = np.random.default_rng(1)
    source, target, labels = rng.integers(0, 5, 40), rng.integers(0, 5, 40), rng.integers(1, 6, 40)
    weights = rng.gamma(1.0, size=40).astype(np.float32)
    graph = Graph.from_arcs(
        (source, target, labels, rng.integers(0, 4, 40), weights), num_states=5, num_columns=6, finals={0: 0.0}
    )
    for seed, schedule in enumerate(schedules(3)):
        check(worded(graph), [graphs.random_log_probs(seed, 20, 6)], boost=boost, beam=3.0, room=ROOMY, shape=SMALL,
              schedule=schedule)  # fmt: skip


def test_few_words_that_become_dear():
    """The bound rises by the boost: what was beyond it before is not admitted, what was within it may be."""
    rng = np.random.default_rng(0)
    source, target, label = rng.integers(0, 6, 30), rng.integers(0, 6, 30), rng.integers(1, 9, 30)
    weights = rng.gamma(2.0, size=30).astype(np.float32)
    graph = worded(
        Graph.from_arcs(
            (source, target, label, rng.integers(1, 6, 30), weights), num_states=6, num_columns=9, finals={}
        )
    )
    boost = Boost(dict.fromkeys(WORDS[:4], -4.0) | {"w1 w2 w5": 2.0})
    for seed, schedule in enumerate(schedules(4)):
        check(graph, [graphs.random_log_probs(seed, 8, 9)], boost=boost, beam=2.0, max_active=None, room=ROOMY,
              shape=SMALL, schedule=schedule)  # fmt: skip


def test_milestones_and_collected_logs():
    batch = [graphs.random_log_probs(seed, frames, 12, sharpness=6.0) for seed, frames in enumerate((31, 33, 200))]
    for log in (40_000, 600):
        check(CLOSED, batch, boost=known_words(3), beam=3.0, max_active=40, room=replace(ROOMY, log_entries=log),
              shape=SMALL)  # fmt: skip


def test_dead_frames():
    dead = BATCH[2].copy()
    dead[2] = -np.inf
    check(CLOSED, [dead, BATCH[4]], boost=known_words(2), beam=5.0, room=ROOMY, shape=SMALL)


def test_chunks_of_streams():
    check_chunks(CLOSED, SMALL, known_words(3), **OPTIONS)


def test_hot_utterances_go_on_in_a_cluster():
    shape = replace(SMALL, lanes=3, block=32, hot_tokens=20, hot_lanes=2)
    for schedule in schedules(4):
        check(CLOSED, BATCH, boost=known_words(len(BATCH)), room=ROOMY, shape=shape, schedule=schedule, **OPTIONS)
