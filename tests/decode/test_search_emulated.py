"""The search on a GPU gives the CPU's bytes, under the emulator's schedules, however it is launched."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbeam import CtcDecoder
from arcbeam.gpu.tuned import search_plan
from tests.decode import graphs
from tests.decode.both_engines import check
from tests.decode.emulated_gpu import TIGHT, Shape, scheduled
from tests.decode.equality import same
from tests.decode.small_search import BATCH, GRAPH, OPTIONS, ROOMY, on_cpu
from tests.hypothesis_examples import examples
from tests.rescore.demo import demo_speech
from tests.simt.build import schedules

ONE = Shape(lanes=1, block=32)


@settings(max_examples=examples(60))
@given(
    graphs.graphs(blank=3),
    st.lists(graphs.log_probs(), max_size=4),
    st.sampled_from([0.0, 0.5, 2.0, 17.0, float("inf")]),
    st.sampled_from([None, 1, 2, 5]),
    st.sampled_from([0.0, 0.25]),
    st.integers(0, 2**32),
)
def test_random_graphs(graph, batch, beam, max_active, penalty, seed):
    check(
        graph, batch, beam=beam, max_active=max_active, acoustic_scale=0.5, blank_penalty=penalty,
        shape=Shape(block=32), schedule={"seed": seed},
    )  # fmt: skip


def test_schedules():
    for schedule in schedules():
        check(GRAPH, BATCH, schedule=schedule, **OPTIONS)


def test_room_grows_and_nothing_is_lost():
    """Shared room for 8 states and a spill of as many: every frame of note grows something and is redone."""
    assert check(GRAPH, BATCH, **OPTIONS).launches > 3
    assert check(GRAPH, BATCH, room=ROOMY, **OPTIONS).launches == 1


def test_the_log_is_collected_before_it_grows():
    """Long enough that what is alive is a small part of what was logged; every schedule keeps the same paths."""
    long = [graphs.random_log_probs(31, 120, 12, sharpness=6.0)]
    for schedule in schedules(10):
        seen = check(
            GRAPH, long, beam=4.0, max_active=40, room=replace(ROOMY, log_entries=600), shape=ONE, schedule=schedule
        )
    assert seen.launches == 1
    assert seen.stats.tokens > 2 * 600


@pytest.mark.parametrize("shape", [Shape(lanes=1, block=64), Shape("cluster", 1, 32, cluster=2, team_tokens=30)])
def test_paths_are_followed_in_stretches(shape):
    """Frames around those that set milestones, milestones that some log has no room for, and a collected log."""
    batch = [graphs.random_log_probs(seed, frames, 12, sharpness=6.0) for seed, frames in enumerate((30, 31, 32, 200))]
    for log in (40_000, 3000):
        check(GRAPH, batch, beam=4.0, max_active=40, room=replace(ROOMY, log_entries=log), shape=shape)


def test_a_path_of_more_stretches_than_there_are_places():
    very_long = [graphs.random_log_probs(7, 32 * 140, 12, sharpness=8.0)]
    room = replace(ROOMY, log_entries=40_000)
    check(GRAPH, very_long, beam=1.0, max_active=3, room=room, shape=ONE, schedule={"detect_races": False})


@pytest.mark.parametrize("kernel", ["wide", "dense"])
@pytest.mark.parametrize(("lanes", "block"), [(1, 32), (1, 128), (3, 64), (5, 96), (7, 32)])
def test_neither_blocks_nor_their_size_change_the_bytes(kernel, lanes, block):
    check(GRAPH, BATCH, shape=Shape(kernel, lanes, block), schedule={"seed": lanes, "policy": "random"}, **OPTIONS)


@pytest.mark.parametrize("launch", [search_plan.WIDE, search_plan.DENSE, search_plan.CROWDED, search_plan.CLUSTER])
def test_blocks_of_as_many_threads_as_are_launched(launch):
    shape = Shape(launch.kernel, 1, launch.threads, launch.cluster, team_tokens=20)
    for schedule in schedules(1):
        check(GRAPH, BATCH[:1], room=ROOMY, shape=shape, schedule=schedule, **OPTIONS)


@pytest.mark.parametrize("team_tokens", [0, 30])
@pytest.mark.parametrize(("cluster", "lanes", "block"), [(1, 2, 64), (2, 2, 32), (3, 1, 64), (8, 1, 32)])
def test_clusters_give_the_same_bytes(cluster, lanes, block, team_tokens):
    shape = Shape("cluster", lanes, block, cluster, team_tokens)
    for room in (TIGHT, ROOMY):
        check(GRAPH, BATCH, room=room, shape=shape, schedule={"seed": cluster}, **OPTIONS)


def test_clusters_under_schedules():
    shape = Shape("cluster", lanes=2, block=32, cluster=2, team_tokens=20)
    for schedule in schedules():
        check(GRAPH, BATCH[:3], room=ROOMY, shape=shape, schedule=schedule, **OPTIONS)


@scheduled(room=ROOMY, shape=Shape("cluster", lanes=1, block=32, cluster=2))
def test_a_cluster_counts_nothing_of_a_bad_utterance():
    decoder, spoiled = CtcDecoder(GRAPH, device="cuda", **OPTIONS), BATCH[0].copy()
    spoiled[3] = np.nan
    bad, good = decoder.decode([spoiled, BATCH[2]], errors="return")
    assert "frame 3" in str(bad.error)
    same([good], on_cpu(BATCH[2:3]))
    both = decoder.stats.tokens
    decoder.decode([BATCH[2]])
    assert both == decoder.stats.tokens


def test_hot_utterances_go_on_in_a_cluster():
    shape = Shape(lanes=3, block=32, hot_tokens=20, hot_lanes=2)
    launches = {check(GRAPH, BATCH, room=ROOMY, shape=shape, schedule=one, **OPTIONS).launches for one in schedules(20)}
    assert launches == {1, 2}  # whether few are left at work in time is the schedule's doing


@pytest.mark.parametrize(("hot_frames", "launches"), [(30, 2), (60, 1)])
def test_an_utterance_with_few_frames_left_is_not_hot(hot_frames, launches):
    """Lanes are looked at after frames 7, 15 and so on: one of 60 has less than 60 left then."""
    shape = Shape(lanes=2, block=32, hot_tokens=1, hot_lanes=2)
    batch = [graphs.random_log_probs(seed, 60, 12, sharpness=4.0) for seed in range(2)]
    seen = [
        check(GRAPH, batch, beam=2.0, max_active=20, room=ROOMY, shape=shape, schedule=one,
              figures={"HOT_FRAMES": hot_frames}).launches
        for one in schedules(4)
    ]  # fmt: skip
    assert set(seen) == {launches}


def test_float16():
    check(GRAPH, [logp.astype(np.float16) for logp in BATCH], beam=4.0, acoustic_scale=0.5, blank_penalty=0.25)


def test_log_probs_come_while_the_kernel_runs():
    """At random points of a launch, some before a block reads them and some after: no launch ends for them."""
    half = [logp.astype(np.float16) for logp in BATCH]
    for number, schedule in enumerate(schedules()):
        rng = np.random.default_rng(number)
        seen = check(
            GRAPH, half if number % 2 else BATCH, room=ROOMY, shape=Shape(lanes=1 + number % 5, block=32),
            schedule=schedule, parts=(512, 2048, 64 << number % 4),
            arrivals=np.sort(rng.integers(0, 20_000, 4)).tolist(), figures={"WAIT_CYCLES": 10**6}, **OPTIONS,
        )  # fmt: skip
        assert seen.launches == 1


@settings(max_examples=examples(40))
@given(
    graphs.graphs(blank=3),
    st.lists(graphs.log_probs(max_frames=20), min_size=1, max_size=4),
    st.tuples(*(st.sampled_from([16, 64, 256, 1024]) for _ in "123")),
    st.lists(st.sampled_from([0, 300, 5000, 10**9]), min_size=1, max_size=4).map(sorted),
    st.sampled_from([TIGHT, ROOMY]),
    st.integers(0, 2**32),
)
def test_lanes_stop_when_log_probs_are_late(graph, batch, parts, arrivals, room, seed):
    """Room grows in the same run, searches die, and a part may come only after a launch has ended."""
    check(
        graph, batch, beam=2.0, max_active=5, room=room, shape=Shape(block=32), schedule={"seed": seed}, parts=parts,
        arrivals=arrivals, figures={"WAIT_CYCLES": 200},
    )  # fmt: skip


def decode_bad(batch, shape=None, arrivals=(), **figures):
    """The errors of the utterances of a batch."""
    with scheduled(shape=shape, **figures) as gpu:
        if arrivals:
            gpu.send_in_parts()
            gpu.send_while_kernels_run(list(arrivals))
        found = CtcDecoder(GRAPH, device="cuda", beam=5.0).decode(batch, errors="return")
        return [None if one.error is None else str(one.error) for one in found]


def test_bad_log_probs_on_their_way():
    spoiled = [logp.copy() for logp in BATCH]
    spoiled[4][2] = -np.inf  # the search dies, and rows that come later are checked
    spoiled[4][6, 4] = np.nan
    spoiled[2][5, 3] = np.inf
    for wait_cycles in (100, 10**6):
        found = decode_bad(spoiled, arrivals=(0, 3000, 9000), WAIT_CYCLES=wait_cycles)
        assert [error is None for error in found] == [True, True, False, True, False]
        assert "frame 5, column 3" in found[2] and "frame 6, column 4" in found[4]


def test_a_launch_that_is_given_up_ends():
    """No more comes: every block that waits stops at once, and none decodes what is not there."""

    def decode_after_an_interrupt(gpu):
        gpu.send_in_parts(512, 2048)
        gpu.send_while_kernels_run([2000])
        decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
        with gpu.interrupted(), pytest.raises(KeyboardInterrupt):
            decoder.decode(BATCH)
        assert len(gpu.launches) == 1
        same(decoder.decode(BATCH), on_cpu())

    # Unordered with the kernel, a copy tells blocks to take no more utterances.
    with scheduled({"detect_races": False}, room=ROOMY, shape=Shape(lanes=3), WAIT_CYCLES=2**32 - 1) as gpu:
        decode_after_an_interrupt(gpu)


def test_states_of_many_arcs():
    hubs = graphs.random_graph(8, states=40, arcs_a_state=30, columns=12, epsilon_share=0.1)
    check(hubs, BATCH, beam=3.0, max_active=20, room=ROOMY)


@pytest.mark.parametrize(("value", "frame", "column"), [(np.nan, 3, 5), (np.inf, 0, 11), (np.nan, 8, 0)])
def test_bad_log_probs_are_found(value, frame, column):
    spoiled = [logp.copy() for logp in BATCH]
    spoiled[2][frame, column:] = value
    found = decode_bad(spoiled)
    assert [error is None for error in found] == [True, True, False, True, True]
    assert f"frame {frame}, column {column}" in found[2]


@pytest.mark.parametrize("shape", [Shape(), Shape("cluster", lanes=2, block=32, cluster=3)])
def test_rows_after_the_death_of_a_search_are_checked_too(shape):
    spoiled = BATCH[2].copy()
    spoiled[2] = -np.inf
    check(GRAPH, [spoiled], shape=shape, **OPTIONS)
    spoiled[7, 4] = np.nan
    [error] = decode_bad([spoiled], shape)
    assert "frame 7, column 4" in error


def test_demo_speech(demo_data, tmp_path):
    """A few frames of real speech through a graph of real words."""
    graph, _, rows = demo_speech(demo_data, tmp_path)
    for schedule in schedules():
        check(graph, [rows[:60], rows[60:90]], beam=10.0, max_active=50, room=ROOMY, schedule=schedule)
