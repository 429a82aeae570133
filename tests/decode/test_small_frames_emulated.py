"""Frames that one warp decodes give the CPU's bytes, beside frames of the whole block and under every schedule."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbeam import CtcDecoder, Graph
from tests.decode import graphs
from tests.decode.both_engines import check
from tests.decode.emulated_gpu import TIGHT, Shape, scheduled
from tests.decode.equality import same
from tests.decode.small_search import BATCH, GRAPH, LATTICE_BEAMS, OPTIONS, ROOMY, check_chunks
from tests.hypothesis_examples import examples
from tests.simt.build import schedules

SMALL = Shape(lanes=1, block=64, small_frame=32)
FEW_LINKS = replace(ROOMY, links=8)


@settings(max_examples=examples(100))
@given(
    graphs.graphs(blank=3),
    st.lists(graphs.log_probs(), max_size=4),
    st.sampled_from([0.0, 0.5, 2.0, 17.0, float("inf")]),
    st.sampled_from([None, 1, 2, 5]),
    st.sampled_from([0.0, 0.25]),
    st.builds(Shape, lanes=st.integers(1, 3), block=st.sampled_from([32, 64]), small_frame=st.sampled_from([1, 3, 32])),
    st.sampled_from([TIGHT, ROOMY]),
    st.sampled_from(LATTICE_BEAMS),
    st.integers(0, 2**32),
)
def test_random_graphs(graph, batch, beam, max_active, penalty, shape, room, lattice_beam, seed):
    check(
        graph, batch, beam=beam, max_active=max_active, acoustic_scale=0.5, blank_penalty=penalty, room=room,
        shape=shape, lattice_beam=lattice_beam, schedule={"seed": seed},
    )  # fmt: skip


@pytest.mark.parametrize("lattice_beam", [None, 2.0])
@pytest.mark.parametrize("block", [32, 96])
def test_schedules(block, lattice_beam):
    options = OPTIONS | {"lattice_beam": lattice_beam}
    for schedule in schedules():
        check(GRAPH, BATCH, shape=replace(SMALL, lanes=2, block=block), schedule=schedule, **options)


@pytest.mark.parametrize("small_frame", [1, 8, 31, 32])
@pytest.mark.parametrize("room", [TIGHT, ROOMY, FEW_LINKS])
def test_a_frame_between_a_warp_and_the_block(small_frame, room):
    """Tokens come and go: both decode frames of each utterance, in rooms that grow and that do not."""
    batch = [graphs.random_log_probs(seed, 40, 12, sharpness=3.0) for seed in range(3)]
    for max_active, lattice_beam in ((None, 1.0), (5, None), (40, None), (40, math.inf)):
        shape = replace(SMALL, lanes=2, small_frame=small_frame)
        options = {"max_active": max_active, "lattice_beam": lattice_beam}
        check(GRAPH, batch, beam=3.0, room=room, shape=shape, **options)


def fan(arcs, columns=40):
    """A graph in which so many arcs leave one state, each for a state of its own, and come back."""
    out = [(0, 1 + i, 1 + i % columns, 1 + i, 0.01 * (i % 7)) for i in range(arcs)]
    back = [(1 + i, 0, 1 + i % columns, 0, 0.0) for i in range(arcs)]
    return Graph.from_arcs([*out, *back], finals=np.zeros(1 + arcs, np.float32), num_columns=columns)


@pytest.mark.parametrize("arcs", [31, 32, 33, 63, 65, 129, 500])
def test_arcs_and_states_around_what_a_warp_holds(arcs):
    """32 candidates have a thread each, 33 have not; states of 500 arcs, of which few are within the beam."""
    rng = np.random.default_rng(arcs)
    logp = np.log(rng.dirichlet(np.ones(40), 12)).astype(np.float32)
    for beam, lattice_beam in ((0.5, None), (2.0, None), (2.0, 1.0), (30.0, None)):
        options = {"beam": beam, "max_active": None, "lattice_beam": lattice_beam}
        check(fan(arcs), [logp, logp[:3]], room=ROOMY, shape=SMALL, **options)


def test_ties():
    """All costs are equal: what wins is the law's choice."""
    flat = np.full((9, 12), np.log(1 / 12), np.float32)
    check(GRAPH, [flat], beam=1.0, max_active=None, room=ROOMY, shape=SMALL)
    graph = graphs.random_graph(3, states=9, columns=12, epsilon_share=0.5)
    for lattice_beam in LATTICE_BEAMS:
        check(graph, [flat], beam=4.0, room=ROOMY, shape=SMALL, lattice_beam=lattice_beam)


def test_closures_that_fill_the_warp():
    for seed in range(6):
        graph = graphs.random_graph(seed, states=60, columns=12, epsilon_share=0.6)
        for lattice_beam in (None, math.inf):
            check(graph, BATCH, beam=4.0, max_active=None, room=ROOMY, shape=SMALL, lattice_beam=lattice_beam)


def hub(leaves, arcs, more):
    """From each of so many states the closure takes `arcs` epsilon arcs to the same states, from the first `more`."""
    middle = [(0, 1 + i, 1 + i, 1 + i, 0.01 * i) for i in range(leaves)]
    down = [
        (1 + i, 1 + leaves + k, 0, 0, 0.02 * (i * k % 5)) for i in range(leaves) for k in range(arcs + more * (i == 0))
    ]
    back = [(1 + leaves + k, 0, 1 + k % leaves, 0, 0.0) for k in range(arcs + more)]
    return Graph.from_arcs(
        [*middle, *down, *back], finals=np.zeros(1 + leaves + arcs + more, np.float32), num_columns=40
    )


@pytest.mark.parametrize("more", [0, 1, 2])
def test_candidates_of_epsilon_arcs_around_what_a_warp_keeps(more):
    """64 candidates of epsilon arcs wait for the end of their frame; one more, and the frame is the block's."""
    logp = np.log(np.random.default_rng(7).dirichlet(np.ones(40), 12)).astype(np.float32)
    seen = check(hub(8, 8, more), [logp], beam=30.0, room=ROOMY, shape=SMALL, lattice_beam=math.inf)
    assert seen.stats.admitted > 0


@pytest.mark.parametrize("columns", [31, 33, 128, 129])
def test_columns_of_a_row(columns):
    graph = graphs.random_graph(2, states=60, columns=columns)
    batch = [graphs.random_log_probs(seed, 8, columns) for seed in range(2)]
    check(graph, batch, beam=6.0, max_active=40, room=ROOMY, shape=SMALL)
    check(graph, [logp.astype(np.float16) for logp in batch], beam=6.0, blank_penalty=0.5, room=ROOMY, shape=SMALL)


def test_milestones_and_collected_logs():
    batch = [graphs.random_log_probs(seed, frames, 12, sharpness=6.0) for seed, frames in enumerate((31, 33, 200))]
    short, long = (replace(ROOMY, log_entries=entries) for entries in (600, 40_000))
    for room, lattice_beam in ((long, None), (long, 1.0), (short, None), (short, 1.0)):
        check(GRAPH, batch, beam=3.0, max_active=40, room=room, shape=SMALL, lattice_beam=lattice_beam)


def test_links_that_fill_their_room():
    """Most frames are small, and links of all of them stay: a frame whose links have no room is the block's."""
    for seed in range(3):
        long = graphs.random_log_probs(seed, 100, 12, sharpness=4.0)
        seen = check(
            GRAPH, [long], beam=2.0, max_active=30, room=FEW_LINKS, shape=SMALL, lattice_beam=math.inf
        )  # fmt: skip
        assert seen.launches > 1


def test_log_probs_come_while_the_kernel_runs():
    for number, schedule in enumerate(schedules(2)):
        check(
            GRAPH, BATCH, room=ROOMY, shape=SMALL, schedule=schedule, parts=(512, 2048, 64 << number % 4),
            arrivals=(0, 2000, 9000), figures={"WAIT_CYCLES": 10**6}, **OPTIONS,
        )  # fmt: skip


@pytest.mark.parametrize(("value", "frame", "column"), [(np.nan, 3, 5), (np.inf, 0, 11), (np.nan, 8, 0)])
def test_bad_log_probs_and_dead_frames(value, frame, column):
    spoiled, dead = BATCH[2].copy(), BATCH[2].copy()
    spoiled[frame, column:] = value
    dead[2] = -np.inf
    check(GRAPH, [dead], beam=5.0, shape=SMALL)
    with scheduled(room=ROOMY, shape=SMALL):
        bad, good = CtcDecoder(GRAPH, device="cuda", beam=5.0).decode([spoiled, BATCH[4]], errors="return")
        assert f"frame {frame}, column {column}" in str(bad.error)
        same([good], CtcDecoder(GRAPH, device="cpu", beam=5.0).decode([BATCH[4]]))


def test_chunks_of_streams():
    check_chunks(GRAPH, SMALL, **OPTIONS)


def test_hot_utterances_go_on_in_a_cluster():
    shape = replace(SMALL, lanes=3, block=32, hot_tokens=20, hot_lanes=2)
    for lattice_beam in (None, 1.0):
        options = OPTIONS | {"lattice_beam": lattice_beam}
        for schedule in schedules(4):
            check(GRAPH, BATCH, room=ROOMY, shape=shape, schedule=schedule, **options)
