"""The search with a large language model on a GPU gives the CPU's bytes, whatever the schedule."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import CtcDecoder, Graph
from tests.decode import graphs
from tests.decode.emulated_gpu import TIGHT, Shape, scheduled
from tests.decode.language_models import (
    WORDS,
    long_lists,
    longer_than_lanes,
    over,
    random_model,
    rough_models,
)
from tests.decode.small_search import BATCH, ROOMY
from tests.decode.test_rescoring import language_models, with_words
from tests.hypothesis_examples import examples
from tests.rescore.demo import demo_speech
from tests.rescore.placed import check
from tests.simt.build import schedules

MODELS = rough_models(4)
GRAPH = over(graphs.random_graph(4, states=120, columns=12), MODELS[1])
OPTIONS = {"beam": 6.0, "max_active": 40}
ONE = Shape(lanes=1, block=32)


def test_histories_longer_than_lanes_that_share_a_look_up():
    graph, models = longer_than_lanes()
    for place in ("resident", "bucketed", "arcs requested"):
        check(
            graph, models, [graphs.random_log_probs(0, 14, 3)], place=place, beam=8.0, hypotheses_per_state=4,
            room=ROOMY,
        )  # fmt: skip


@pytest.mark.parametrize("cost", [None, lambda r: 0.5], ids=["costs", "ties"])
@pytest.mark.parametrize("n", [1, 3, 40])
def test_lists_that_are_longer_than_a_warp(n, cost):
    graph, models = long_lists(cost)
    for room in (replace(ROOMY, shared_states=512, log_entries=8192), replace(ROOMY, shared_states=64)):
        seen, _ = check(
            graph, models, [graphs.random_log_probs(3, 4, 2)], beam=30.0, max_active=60, hypotheses_per_state=n,
            room=room, shape=Shape(lanes=1),
        )  # fmt: skip
        assert seen.stats.lookups > 500


def test_lists_that_just_fit():
    """Eight states of five hypotheses: 48 entries in the ranking, and eight that say which lists are too long."""
    rng = np.random.default_rng(0)
    models = random_model(rng, WORDS[:5], 2, share=1.0), random_model(rng, WORDS[:5], 1)
    arcs = [(0, state, 1, word, 0.0) for state in range(1, 9) for word in range(1, 6)]
    arcs += [(state, 9, 2, 1 + state % 5, 0.0) for state in range(1, 9)]
    graph = over(Graph.from_arcs(arcs, num_states=10, num_columns=2, finals={9: 0.0}), models[1], WORDS[:5])
    for schedule in schedules(5):
        for states in (44, 48, 52, 56):  # between 48 and 56 the two would overlap
            check(
                graph, models, [graphs.random_log_probs(0, 2, 2)], beam=50.0, hypotheses_per_state=2, schedule=schedule,
                room=replace(ROOMY, shared_states=states), shape=Shape(lanes=1),
            )  # fmt: skip


def test_room_grows_and_nothing_is_lost():
    tight, roomy = (check(GRAPH, MODELS, BATCH, room=room, **OPTIONS).seen for room in (TIGHT, ROOMY))
    assert tight.launches > 3 and roomy.launches == 1
    assert tight.stats.lookups == roomy.stats.lookups > 50
    assert roomy.stats.distinct_lookups < roomy.stats.lookups, "no request was for several"


def test_the_cache_answers_and_changes_nothing():
    misses = [
        check(GRAPH, MODELS, BATCH, room=ROOMY, arc_cache=size, shape=ONE, **OPTIONS).seen.stats.lookup_misses
        for size in (0, 32, 512, 1 << 17)
    ]
    assert misses[0] >= misses[1] > misses[2] > misses[3] > 0


@pytest.mark.parametrize("place", ["resident", "arcs requested"])
def test_the_log_is_collected_before_it_grows(place):
    long = [graphs.random_log_probs(31, 100, 12, sharpness=6.0)]
    for schedule in schedules(5):
        seen, _ = check(
            GRAPH, MODELS, long, place=place, beam=4.0, max_active=40, hypotheses_per_state=3,
            room=replace(ROOMY, log_entries=600), shape=ONE, schedule=schedule,
        )  # fmt: skip
        assert seen.launches == 1 or place != "resident"


def test_paths_are_followed_in_stretches():
    batch = [graphs.random_log_probs(seed, frames, 12, sharpness=6.0) for seed, frames in enumerate((30, 32, 200))]
    for log in (40_000, 3000):
        room = replace(ROOMY, log_entries=log)
        check(GRAPH, MODELS, batch, beam=4.0, max_active=40, hypotheses_per_state=2, room=room, shape=Shape(lanes=1))


@pytest.mark.parametrize("kernel", ["wide", "dense"])
@pytest.mark.parametrize(("lanes", "block"), [(1, 32), (1, 128), (3, 64), (5, 96), (7, 32)])
def test_neither_blocks_nor_their_size_change_the_bytes(kernel, lanes, block):
    for place in ("cached", "bucketed"):
        check(
            GRAPH, MODELS, BATCH, place=place, hypotheses_per_state=3, shape=Shape(kernel, lanes, block),
            schedule={"seed": lanes}, **OPTIONS,
        )  # fmt: skip


def on_gpu(**options):
    models = {"language_model": MODELS[0], "graph_language_model": MODELS[1]}
    return CtcDecoder(GRAPH, device="cuda", **models, **options)


def test_a_cluster_counts_nothing_of_a_bad_utterance():
    spoiled, counted = [logp.copy() for logp in BATCH], []
    spoiled[2][8, 3] = np.nan

    def lookups():
        decoder = on_gpu(beam=5.0)
        decoder.decode(spoiled, errors="return")
        return decoder.stats.lookups

    for shape in (ONE, Shape("cluster", lanes=1, block=32, cluster=2)):
        with scheduled(room=ROOMY, shape=shape):
            counted.append(lookups())
    assert counted[0] == counted[1] > 0


def test_float16():
    half = [logp.astype(np.float16) for logp in BATCH]
    check(GRAPH, MODELS, half, beam=4.0, acoustic_scale=0.5, blank_penalty=0.25, room=ROOMY)


def test_log_probs_come_while_the_kernel_runs():
    for number, schedule in enumerate(schedules(20)):
        arrivals = np.sort(np.random.default_rng(number).integers(0, 20_000, 4)).tolist()
        seen, _ = check(
            GRAPH, MODELS, BATCH, room=ROOMY, shape=Shape(lanes=1 + number % 5, block=32), schedule=schedule,
            parts=(512, 2048, 64 << number % 4), arrivals=arrivals, wait_cycles=10**6, hypotheses_per_state=2,
            **OPTIONS,
        )  # fmt: skip
        assert seen.launches == 1


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    graphs.graphs(blank=3),
    language_models(),
    st.lists(graphs.log_probs(max_frames=20), min_size=1, max_size=4),
    st.tuples(*(st.sampled_from([16, 64, 256, 1024]) for _ in "123")),
    st.lists(st.sampled_from([0, 300, 5000, 10**9]), min_size=1, max_size=4).map(sorted),
    st.integers(0, 2**32),
)
def test_lanes_stop_when_log_probs_are_late(graph, models, batch, parts, arrivals, seed):
    check(
        with_words(graph, models[1]), models, batch, beam=2.0, max_active=5, hypotheses_per_state=2,
        shape=Shape(block=32), schedule={"seed": seed}, parts=parts, arrivals=arrivals, wait_cycles=200,
    )  # fmt: skip


@scheduled()
def errors_of(batch):
    found = on_gpu(beam=5.0).decode(batch, errors="return")
    return [None if one.error is None else str(one.error) for one in found]


@pytest.mark.parametrize(("value", "frame", "column"), [(np.nan, 3, 5), (np.inf, 0, 11), (np.nan, 8, 0)])
def test_bad_log_probs_are_found(value, frame, column):
    spoiled = [logp.copy() for logp in BATCH]
    spoiled[2][frame, column:] = value
    found = errors_of(spoiled)
    assert [error is None for error in found] == [True, True, False, True, True]
    assert f"frame {frame}, column {column}" in found[2]


def test_a_search_dies_and_the_rest_is_checked():
    spoiled = [logp.copy() for logp in BATCH]
    spoiled[2][2] = -np.inf
    for place in ("resident", "arcs requested"):
        check(GRAPH, MODELS, spoiled, place=place, room=ROOMY, **OPTIONS)
    spoiled[2][7, 4] = np.nan
    assert "frame 7, column 4" in errors_of([spoiled[2]])[0]


@pytest.mark.parametrize("unknown_words", ["unk", "small"])
def test_unknown_words(unknown_words):
    rng = np.random.default_rng(7)
    models = random_model(rng, WORDS[:30], 3, share=0.2), random_model(rng, WORDS, 2, share=0.3)
    graph = over(graphs.random_graph(4, states=120, columns=12), models[1])
    for arc_cache in (0, 512):
        check(
            graph, models, BATCH, place="bucketed", hypotheses_per_state=3, arc_cache=arc_cache,
            room=replace(ROOMY, log_entries=8192), unknown_words=unknown_words, **OPTIONS,
        )  # fmt: skip


@pytest.mark.parametrize("order", [1, 2, 4, 5, 6, 9, 11, 14, 16])
def test_orders_in_buckets(order):
    """Histories of any length; those of 14-grams and longer take more waits."""
    rng = np.random.default_rng(order)
    large = random_model(rng, WORDS[:2], order, share=0.9 if order > 4 else 0.6)
    small = random_model(rng, WORDS[:2], 2)
    source, target, labels = rng.integers(0, 6, 30), rng.integers(0, 6, 30), rng.integers(1, 4, 30)
    plain = Graph.from_arcs(
        (source, target, labels, rng.integers(1, 3, 30), rng.random(30).astype(np.float32)), num_states=6,
        num_columns=3, finals={0: 0.0, 3: 0.5},
    )  # fmt: skip
    check(
        over(plain, small, WORDS[:2]), (large, small), [graphs.random_log_probs(0, 18, 3)], place="bucketed", beam=8.0,
        hypotheses_per_state=4, room=ROOMY,
    )  # fmt: skip


def test_demo_speech(demo_data, tmp_path):
    """Real speech, graph and models: the small model is one of words, the large one a bigram."""
    graph, both, rows = demo_speech(demo_data, tmp_path)
    for schedule in schedules(5):
        check(
            graph, both, [rows[:60], rows[60:90]], beam=10.0, max_active=50, hypotheses_per_state=3, room=ROOMY,
            schedule=schedule,
        )  # fmt: skip
