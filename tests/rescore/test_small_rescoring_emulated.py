"""Frames that one warp decodes and rescores give the CPU's bytes, beside frames of the whole block."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import Graph
from tests.decode import graphs
from tests.decode.emulated_gpu import TIGHT, Shape
from tests.decode.language_models import all_costs_equal
from tests.decode.small_search import BATCH, LATTICE_BEAMS, ROOMY, check_chunks
from tests.decode.test_rescoring import language_models, with_words
from tests.hypothesis_examples import examples
from tests.rescore import placed
from tests.rescore.searches import CLOSED_OVER, LARGE, check
from tests.rescore.searches import SMALL as SMALL_MODEL
from tests.simt.build import schedules

SMALL = Shape(lanes=1, block=64, small_frame=32)
FLAT = [np.full((7, 3), -1.0, np.float32)]


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.data(),
    graphs.graphs(blank=3),
    language_models(),
    st.lists(graphs.log_probs(), max_size=4),
    st.sampled_from([0.0, 0.5, 2.0, 17.0, float("inf")]),
    st.sampled_from([None, 1, 2, 5]),
    st.builds(Shape, lanes=st.integers(1, 3), block=st.sampled_from([32, 64]), small_frame=st.sampled_from([1, 3, 32])),
    st.sampled_from([TIGHT, ROOMY]),
    st.integers(0, 2**32),
)
def test_random_graphs(data, graph, models, batch, beam, max_active, shape, room, seed):
    one_of = lambda *values: data.draw(st.sampled_from(values))  # noqa: E731
    lm_scale, of_graph = one_of((1.0, 1.0), (0.5, 1.0), (1.0, 0.5), (0.0, 0.0))
    placed.check(
        with_words(graph, models[1], lm_scale=of_graph), models, batch, lm_scale=lm_scale, beam=beam,
        max_active=max_active, hypotheses_per_state=one_of(None, 1, 2, 3), arc_cache=one_of(0, 16, 512),
        unknown_words="unk", room=room, shape=shape, lattice_beam=one_of(*LATTICE_BEAMS), schedule={"seed": seed},
    )  # fmt: skip


@pytest.mark.parametrize("block", [32, 96])
def test_schedules(block):
    for schedule in schedules():
        check(None, "resident", BATCH, room=ROOMY, shape=replace(SMALL, lanes=2, block=block), schedule=schedule)


@pytest.mark.parametrize(("kernel", "block"), [("wide", 512), ("dense", 256)])
def test_blocks_as_wide_as_on_a_gpu(kernel, block):
    for schedule in schedules(2):
        check(None, "resident", room=ROOMY, shape=replace(SMALL, kernel=kernel, block=block), schedule=schedule)


@pytest.mark.parametrize("n", [None, 1, 2])
@pytest.mark.parametrize("small_frame", [8, 32])
@pytest.mark.parametrize("room", [TIGHT, ROOMY])
def test_a_frame_between_a_warp_and_the_block(room, small_frame, n):
    """States with too many hypotheses are the block's, and what rooms lack grows."""
    batch = [graphs.random_log_probs(seed, 40, 12, sharpness=3.0) for seed in range(3)]
    for beam, cache, lattice_beam in ((1.0, 0, None), (3.0, 512, None), (3.0, 0, 1.0)):
        check(None, "resident", batch, beam=beam, hypotheses_per_state=n, arc_cache=cache, room=room,
              shape=replace(SMALL, lanes=2, small_frame=small_frame), lattice_beam=lattice_beam)  # fmt: skip


@pytest.mark.parametrize("arcs", [31, 32, 33, 500])
def test_arcs_and_words_around_what_a_warp_holds(arcs):
    """Each of up to 32 candidates has a word to look up."""
    out = [(0, 1 + i, 1 + i % 40, 1 + i % 49, 0.01 * (i % 7)) for i in range(arcs)]
    back = [(1 + i, 0, 1 + i % 40, 0, 0.0) for i in range(arcs)]
    graph = Graph.from_arcs([*out, *back], finals=np.zeros(1 + arcs, np.float32), num_columns=40)
    logp = np.log(np.random.default_rng(arcs).dirichlet(np.ones(40), 8)).astype(np.float32)
    for beam in (0.5, 2.0, 30.0):
        check(None, "resident", [logp, logp[:3]], graph=graph, beam=beam, max_active=None, room=ROOMY, shape=SMALL)


@pytest.mark.parametrize("n", [None, 2])
@pytest.mark.parametrize("arcs", [16, 32])
def test_ties(arcs, n):
    """Winners have equals that leave other histories, by arcs that read and by epsilon arcs."""
    for seed, schedule in enumerate(schedules(6)):
        graph, models = all_costs_equal(seed, arcs=arcs)
        placed.check(graph, models, FLAT, beam=2.0, max_active=30, hypotheses_per_state=n, room=ROOMY, shape=SMALL,
                     schedule=schedule, lattice_beam=LATTICE_BEAMS[seed % 4])  # fmt: skip


def test_milestones_and_collected_logs():
    batch = [graphs.random_log_probs(seed, frames, 12, sharpness=6.0) for seed, frames in enumerate((31, 33, 200))]
    for log in (40_000, 600):
        check(None, "resident", batch, beam=3.0, room=replace(ROOMY, log_entries=log), shape=SMALL)


def test_dead_frames():
    dead = BATCH[2].copy()
    dead[2] = -np.inf
    check(None, "resident", [dead, BATCH[4]], room=ROOMY, shape=SMALL)


def test_chunks_of_streams():
    models = {"language_model": LARGE, "graph_language_model": SMALL_MODEL}
    check_chunks(CLOSED_OVER, SMALL, beam=6.0, max_active=40, **models)


def test_hot_utterances_go_on_in_a_cluster():
    shape = replace(SMALL, lanes=3, block=32, hot_tokens=20, hot_lanes=2)
    for schedule in schedules(4):
        check(None, "resident", BATCH, room=ROOMY, shape=shape, schedule=schedule)
