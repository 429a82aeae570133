"""The search kernel with a large language model gives the twin's bytes, whatever the schedule."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import CtcDecoder, Graph
from arcbeam.ctc.options import DecoderOptions
from arcbeam.ctc.rescoring import Rescoring
from arcbeam.gpu.tuned import search_plan
from tests.decode import graphs
from tests.decode.language_models import (
    WORDS,
    all_costs_equal,
    long_lists,
    longer_than_lanes,
    over,
    random_model,
    rough_models,
)
from tests.decode.search_host import FromHost, Room, Shape, as_launched
from tests.decode.search_layout import BAD_LOG_PROB, DECODED
from tests.decode.test_rescoring import language_models, with_words
from tests.hypothesis_examples import examples
from tests.rescore.demo import demo_speech
from tests.rescore.rescore_host import RescoreHost, check
from tests.simt.build import schedules

GENEROUS = Room(capacity=512, candidates=2048, table_size=1024, spill_capacity=512, log=4096, paths=4096)


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    graphs.graphs(blank=3),
    language_models(),
    st.lists(graphs.log_probs(), min_size=1, max_size=3),
    st.sampled_from([0.0, 0.5, 2.0, 17.0, float("inf")]),
    st.sampled_from([None, 1, 2, 3, 4]),
    st.sampled_from([None, None, 1, 4]),
    st.sampled_from([(1.0, 1.0), (0.5, 1.0), (1.0, 0.5), (0.0, 0.0)]),
    st.sampled_from([0, 1, 16]),
    st.sampled_from([Room(), GENEROUS]),
    st.integers(0, 2**32),
)
def test_random_graphs(graph, models, batch, beam, n, max_active, scales, cache, room, seed):
    graph = with_words(graph, models[1], lm_scale=scales[1])
    check(
        graph, models, batch, beam=beam, hypotheses_per_state=n, max_active=max_active,
        lm_scale=scales[0], cache=cache, room=room, shape=Shape(block=32), schedule={"seed": seed},
    )  # fmt: skip


@pytest.fixture(scope="module")
def models():
    return rough_models(4)


@pytest.fixture(scope="module")
def graph(models):
    return over(graphs.random_graph(4, states=120, columns=12), models[1])


@pytest.fixture(scope="module")
def batch():
    return [graphs.random_log_probs(seed, frames, 12) for seed, frames in enumerate((5, 0, 9, 1, 7))]


OPTIONS = {"beam": 6.0, "max_active": 40}


@pytest.mark.parametrize("n", [3, None])
def test_schedules(graph, models, batch, n):
    for schedule in schedules():
        check(graph, models, batch[:3], hypotheses_per_state=n, cache=16, room=GENEROUS, schedule=schedule, **OPTIONS)


def test_schedules_with_little_room(graph, models, batch):
    """Frames are given up, redone in other memory, and lanes stop and are taken up again."""
    for schedule in schedules():
        check(graph, models, batch[:1], hypotheses_per_state=2, cache=16, schedule=schedule, **OPTIONS)


@pytest.mark.parametrize("n", [2, None])
@pytest.mark.parametrize("seed", range(8))
def test_ties(seed, n):
    graph, models = all_costs_equal(seed, arcs=48, words=WORDS[:5])
    batch = [np.full((10, 3), -1.0, np.float32)]
    check(graph, models, batch, beam=2.0, hypotheses_per_state=n, room=GENEROUS, schedule={"seed": seed})


def test_histories_longer_than_lanes_that_share_a_look_up():
    graph, models = longer_than_lanes()
    for in_buckets in (0, 0.85):
        check(
            graph, models, [graphs.random_log_probs(0, 14, 3)], beam=8.0, hypotheses_per_state=4, room=GENEROUS,
            in_buckets=in_buckets,
        )  # fmt: skip


@pytest.mark.parametrize("cost", [None, lambda r: 0.5], ids=["costs", "ties"])
@pytest.mark.parametrize("n", [1, 3, 40])
def test_lists_that_are_longer_than_a_warp(n, cost):
    graph, models = long_lists(cost)
    room = Room(capacity=512, candidates=1536, table_size=1024, spill_capacity=512, log=8192, paths=4096)
    for some in (room, replace(room, capacity=64, candidates=128, table_size=128)):
        host = check(
            graph, models, [graphs.random_log_probs(3, 4, 2)], beam=30.0, max_active=60, hypotheses_per_state=n,
            room=some, shape=Shape(lanes=1),
        )  # fmt: skip
        assert host.counters[0] > 500


def test_lists_that_just_fit():
    """Eight states of five hypotheses: 48 entries in the ranking, and eight that say which lists are too long."""
    rng = np.random.default_rng(0)
    models = random_model(rng, WORDS[:5], 2, share=1.0), random_model(rng, WORDS[:5], 1)
    arcs = [(0, state, 1, word, 0.0) for state in range(1, 9) for word in range(1, 6)]
    arcs += [(state, 9, 2, 1 + state % 5, 0.0) for state in range(1, 9)]
    graph = over(Graph.from_arcs(arcs, num_states=10, num_columns=2, finals={9: 0.0}), models[1], WORDS[:5])
    for schedule in schedules(5):
        for capacity in (44, 48, 52, 56):  # between 48 and 56 the two would overlap
            check(
                graph, models, [graphs.random_log_probs(0, 2, 2)], beam=50.0, hypotheses_per_state=2, schedule=schedule,
                room=replace(GENEROUS, capacity=capacity, candidates=64, table_size=128), shape=Shape(lanes=1),
            )  # fmt: skip


def test_room_grows_and_nothing_is_lost(graph, models, batch):
    tight = check(graph, models, batch, **OPTIONS)
    assert tight.launches > 3
    roomy = check(graph, models, batch, room=GENEROUS, **OPTIONS)
    assert roomy.launches == 1
    assert tight.counters[0] == roomy.counters[0] > 50
    assert roomy.counters[1] < roomy.counters[0], "nothing was asked for once for several"


def test_the_cache_answers_and_changes_nothing(graph, models, batch):
    misses = [
        check(graph, models, batch, room=GENEROUS, cache=size, shape=Shape(lanes=1, block=32), **OPTIONS).counters[2]
        for size in (0, 1, 16, 4096)
    ]
    assert misses[0] >= misses[1] > misses[2] > misses[3] > 0


def test_the_log_is_collected_before_it_grows(graph, models):
    long = [graphs.random_log_probs(31, 100, 12, sharpness=6.0)]
    little = replace(GENEROUS, log=600)
    for schedule in schedules(5):
        host = check(
            graph, models, long, beam=4.0, max_active=40, hypotheses_per_state=3, room=little,
            shape=Shape(lanes=1, block=32), schedule=schedule,
        )  # fmt: skip
        assert host.launches == 1


def test_paths_are_followed_in_stretches(graph, models):
    batch = [graphs.random_log_probs(seed, frames, 12, sharpness=6.0) for seed, frames in enumerate((30, 32, 200))]
    for log in (40_000, 3000):
        room = replace(GENEROUS, log=log, paths=10_000)
        check(graph, models, batch, beam=4.0, max_active=40, hypotheses_per_state=2, room=room, shape=Shape(lanes=1))


@pytest.mark.parametrize("kernel", ["wide", "dense"])
@pytest.mark.parametrize(("lanes", "block"), [(1, 32), (1, 128), (3, 64), (5, 96), (7, 32)])
def test_neither_blocks_nor_their_size_change_the_bytes(graph, models, batch, kernel, lanes, block):
    shape = Shape(kernel, lanes, block)
    check(graph, models, batch, hypotheses_per_state=3, cache=16, shape=shape, schedule={"seed": lanes}, **OPTIONS)


@pytest.mark.parametrize("launch", ["WIDE", "DENSE", "RESCORING_CLUSTER"])
def test_launches_of_the_engine(graph, models, batch, launch):
    shape = as_launched(getattr(search_plan, launch), team_tokens=15)
    for schedule in schedules(2):
        check(
            graph, models, batch[:1], hypotheses_per_state=3, cache=16, room=GENEROUS, shape=shape, schedule=schedule,
            **OPTIONS,
        )  # fmt: skip


@pytest.mark.parametrize("team_tokens", [0, 15])
@pytest.mark.parametrize(("cluster", "lanes", "block"), [(1, 2, 64), (2, 2, 32), (3, 1, 64), (8, 1, 32)])
def test_clusters_give_the_same_bytes(graph, models, batch, cluster, lanes, block, team_tokens):
    shape = Shape("cluster", lanes, block, cluster, team_tokens)
    for room in (Room(), GENEROUS):
        check(
            graph, models, batch, hypotheses_per_state=2, cache=16, room=room, shape=shape,
            schedule={"seed": cluster}, **OPTIONS,
        )  # fmt: skip


def test_clusters_under_schedules(graph, models, batch):
    shape = Shape("cluster", lanes=2, block=32, cluster=2, team_tokens=20)
    for schedule in schedules():
        check(
            graph, models, batch[:3], hypotheses_per_state=2, room=GENEROUS, shape=shape, schedule=schedule, **OPTIONS
        )


def test_a_cluster_counts_nothing_of_a_bad_utterance(graph, models, batch):
    spoiled = [logp.copy() for logp in batch]
    spoiled[2][8, 3] = np.nan
    rescoring = Rescoring(graph, *models, DecoderOptions())
    counted = []
    for shape in (Shape(lanes=1, block=32), Shape("cluster", lanes=1, block=32, cluster=2)):
        host = RescoreHost(graph, rescoring, beam=5.0, room=GENEROUS)
        host.decode(spoiled, shape)
        counted.append(host.counters[0])
    assert counted[0] == counted[1] > 0


def test_hot_utterances_go_on_in_a_cluster(graph, models):
    batch = [graphs.random_log_probs(seed, frames, 12) for seed, frames in enumerate((20, 3, 30))]
    shape = Shape(lanes=3, block=32, hot_tokens=5, hot_lanes=2)
    hosts = [
        check(graph, models, batch, hypotheses_per_state=3, room=GENEROUS, shape=shape, schedule=schedule, **OPTIONS)
        for schedule in schedules(10)
    ]
    assert 2 in {host.launches for host in hosts}  # whether few are left at work in time is the schedule's doing


def test_float16(graph, models, batch):
    half = [logp.astype(np.float16) for logp in batch]
    check(graph, models, half, beam=4.0, acoustic_scale=0.5, blank_penalty=0.25, room=GENEROUS)


def test_log_probs_come_while_the_kernel_runs(graph, models, batch):
    for number, schedule in enumerate(schedules(20)):
        random = np.random.default_rng(number)
        steps = np.sort(random.integers(0, 20_000, 4)).tolist()
        coming = FromHost(batch, 1 + number % 4, random.random(3).tolist(), steps)
        shape = Shape(lanes=1 + number % 5, block=32)
        host = check(
            graph, models, batch, room=GENEROUS, shape=shape, schedule=schedule, from_host=coming,
            hypotheses_per_state=2, **OPTIONS,
        )  # fmt: skip
        assert host.launches == 1


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    graphs.graphs(blank=3),
    language_models(),
    st.lists(graphs.log_probs(), min_size=1, max_size=4),
    st.integers(1, 4),
    st.lists(st.floats(0, 1, exclude_max=True), max_size=4),
    st.sampled_from([0, 300, 5000]),
    st.integers(0, 2**32),
)
def test_lanes_stop_when_log_probs_are_late(graph, models, batch, piece_frames, parts, apart, seed):
    graph = with_words(graph, models[1])
    steps = [apart * i or 10**9 * i for i in range(len(parts) + 1)]
    coming = FromHost(batch, piece_frames, parts, steps, wait_cycles=200)
    check(
        graph, models, batch, beam=2.0, max_active=5, hypotheses_per_state=2, shape=Shape(block=32),
        schedule={"seed": seed}, from_host=coming,
    )  # fmt: skip


@pytest.mark.parametrize(("value", "frame", "column"), [(np.nan, 3, 5), (np.inf, 0, 11), (np.nan, 8, 0)])
def test_bad_log_probs_are_found(graph, models, batch, value, frame, column):
    spoiled = [logp.copy() for logp in batch]
    spoiled[2][frame, column:] = value
    found = RescoreHost(graph, Rescoring(graph, *models, DecoderOptions()), beam=5.0).decode(spoiled)
    assert [got.outcome for got in found] == [DECODED, DECODED, BAD_LOG_PROB, DECODED, DECODED]
    assert (found[2].bad_frame, found[2].bad_column) == (frame, column)


def test_a_search_dies_and_the_rest_is_checked(graph, models, batch):
    spoiled = [logp.copy() for logp in batch]
    spoiled[2][2] = -np.inf
    check(graph, models, spoiled, room=GENEROUS, **OPTIONS)
    spoiled[2][7, 4] = np.nan
    host = RescoreHost(graph, Rescoring(graph, *models, DecoderOptions()), beam=5.0)
    (bad,) = host.decode([spoiled[2]])
    assert (bad.outcome, bad.bad_frame, bad.bad_column) == (BAD_LOG_PROB, 7, 4)


def test_demo_speech(demo_data, tmp_path):
    """Real speech, graph and models: the small model is one of words, the large one a bigram."""
    graph, both, rows = demo_speech(demo_data, tmp_path)
    for schedule in schedules(5):
        check(
            graph, both, [rows[:60], rows[60:90]], beam=10.0, max_active=50, hypotheses_per_state=3, room=GENEROUS,
            schedule=schedule,
        )  # fmt: skip


def test_the_limit_matters(graph, models):
    """Or the tests above would prove little."""
    batch = [graphs.random_log_probs(seed, 12, 12, sharpness=2.0) for seed in range(5)]
    totals = set()
    for n in (1, None):
        decoder = CtcDecoder(
            graph, language_model=models[0], graph_language_model=models[1], beam=5.0, hypotheses_per_state=n,
            device="cpu",
        )  # fmt: skip
        totals.add(tuple(h.score for h in decoder.decode(batch)))
    assert len(totals) == 2
