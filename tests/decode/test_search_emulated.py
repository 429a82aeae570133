"""The search kernel under the emulator's schedules gives the twin's bytes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbeam import CtcDecoder, Graph, TokenTable
from arcbeam.gpu.tuned import search_plan
from tests.decode import graphs
from tests.decode.search_host import FromHost, Room, SearchHost, Shape, as_launched
from tests.decode.search_layout import BAD_LOG_PROB, DECODED
from tests.hypothesis_examples import examples
from tests.simt.build import Copy, schedules


def check(graph, batch, *, room=None, shape=None, schedule=None, from_host=None, **options):
    decoder = CtcDecoder(graph, device="cpu", threads=1, **options)
    host = SearchHost(graph, room=room, **options)
    found = host.decode(batch, shape, from_host=from_host, **(schedule or {}))
    wanted = decoder.decode(batch)
    for got, want, logp in zip(found, wanted, batch, strict=True):
        assert got.outcome == DECODED
        assert got.arcs.tolist() == want.arcs.tolist()
        assert np.float64(got.total_cost).tobytes() == np.float64(0.0 - want.partial_score).tobytes()
        assert got.reached_final == want.reached_final
        assert (got.work[0] == len(logp)) == want.complete  # by which the host tells that a search has died
    stats = decoder.stats
    work = np.sum([got.work for got in found], axis=0).tolist() if found else [0] * 4
    assert work == [stats.frames, stats.tokens, stats.leaving_arcs, stats.admitted]
    return host


@settings(max_examples=examples(60))
@given(
    graphs.graphs(blank=3),
    st.lists(graphs.log_probs(), min_size=1, max_size=3),
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


@pytest.fixture(scope="module")
def graph():
    return graphs.random_graph(4, states=120, columns=12)


@pytest.fixture(scope="module")
def batch():
    return [graphs.random_log_probs(seed, frames, 12) for seed, frames in enumerate((5, 0, 9, 1, 7))]


def test_schedules(graph, batch):
    for schedule in schedules():
        check(graph, batch, beam=5.0, max_active=40, schedule=schedule)


# Shared room for 8 states and a spill of as many: every frame of note grows something and is redone.
GENEROUS = Room(capacity=256, candidates=512, table_size=512, spill_capacity=512, log=4096, paths=4096)


def test_room_grows_and_nothing_is_lost(graph, batch):
    tight = check(graph, batch, beam=5.0, max_active=40)
    assert tight.launches > 3
    roomy = check(graph, batch, beam=5.0, max_active=40, room=GENEROUS)
    assert roomy.launches == 1


def test_the_log_is_collected_before_it_grows(graph):
    """Long enough that what is alive is a small part of what was logged; every schedule keeps the same paths."""
    long = [graphs.random_log_probs(31, 120, 12, sharpness=6.0)]
    little = Room(capacity=256, candidates=512, table_size=512, spill_capacity=512, log=600, paths=4096)
    for schedule in schedules(10):
        shape = Shape(lanes=1, block=32)
        host = check(graph, long, beam=4.0, max_active=40, room=little, shape=shape, schedule=schedule)
    logged = CtcDecoder(graph, beam=4.0, max_active=40, device="cpu")
    logged.decode(long)
    assert logged.stats.tokens > 2 * 600
    assert host.launches == 1


LONG = Room(capacity=256, candidates=512, table_size=512, spill_capacity=512, log=40_000, paths=10_000)


@pytest.mark.parametrize("shape", [Shape(lanes=1, block=64), Shape("cluster", 1, 32, cluster=2, team_tokens=30)])
def test_paths_are_followed_in_stretches(graph, shape):
    """Frames around those that set milestones, milestones that some log has no room for, and a collected log."""
    batch = [graphs.random_log_probs(seed, frames, 12, sharpness=6.0) for seed, frames in enumerate((30, 31, 32, 200))]
    for log in (LONG.log, 3000):
        check(graph, batch, beam=4.0, max_active=40, room=replace(LONG, log=log), shape=shape)


def test_a_path_of_more_stretches_than_there_are_places(graph):
    very_long = [graphs.random_log_probs(7, 32 * 140, 12, sharpness=8.0)]
    shape = Shape(lanes=1, block=32)
    check(graph, very_long, beam=1.0, max_active=3, room=LONG, shape=shape, schedule={"detect_races": False})


@pytest.mark.parametrize("kernel", ["wide", "dense"])
@pytest.mark.parametrize(("lanes", "block"), [(1, 32), (1, 128), (3, 64), (5, 96), (7, 32)])
def test_neither_blocks_nor_their_size_change_the_bytes(graph, batch, kernel, lanes, block):
    shape = Shape(kernel, lanes, block)
    check(graph, batch, beam=5.0, max_active=40, shape=shape, schedule={"seed": lanes, "policy": "random"})


@pytest.mark.parametrize("launch", ["WIDE", "DENSE", "CROWDED", "CLUSTER"])
def test_launches_of_the_engine(graph, batch, launch):
    shape = as_launched(getattr(search_plan, launch), team_tokens=20)
    for schedule in schedules(1):
        check(graph, batch[:1], beam=5.0, max_active=40, room=GENEROUS, shape=shape, schedule=schedule)


@pytest.mark.parametrize("team_tokens", [0, 30])
@pytest.mark.parametrize(("cluster", "lanes", "block"), [(1, 2, 64), (2, 2, 32), (3, 1, 64), (8, 1, 32)])
def test_clusters_give_the_same_bytes(graph, batch, cluster, lanes, block, team_tokens):
    shape = Shape("cluster", lanes, block, cluster, team_tokens)
    for room in (None, GENEROUS):
        check(graph, batch, beam=5.0, max_active=40, room=room, shape=shape, schedule={"seed": cluster})


def test_clusters_under_schedules(graph, batch):
    shape = Shape("cluster", lanes=2, block=32, cluster=2, team_tokens=20)
    for schedule in schedules():
        check(graph, batch[:3], beam=5.0, max_active=40, room=GENEROUS, shape=shape, schedule=schedule)


def test_a_cluster_counts_nothing_of_a_bad_utterance(graph, batch):
    spoiled = [batch[0].copy(), batch[2]]
    spoiled[0][3] = np.nan
    shape = Shape("cluster", lanes=1, block=32, cluster=2)
    bad, good = SearchHost(graph, beam=5.0, room=GENEROUS).decode([spoiled[1], spoiled[0]][::-1], shape)
    (alone,) = SearchHost(graph, beam=5.0, room=GENEROUS).decode([batch[2]])
    assert (bad.outcome, bad.bad_frame) == (BAD_LOG_PROB, 3)
    assert good.work == alone.work


def test_hot_utterances_go_on_in_a_cluster(graph, batch):
    shape = Shape(lanes=3, block=32, hot_tokens=20, hot_lanes=2)
    hosts = [
        check(graph, batch, beam=5.0, max_active=40, room=GENEROUS, shape=shape, schedule=schedule)
        for schedule in schedules(20)
    ]
    assert {host.launches for host in hosts} == {1, 2}  # whether few are left at work in time is the schedule's doing


def test_float16(graph, batch):
    check(graph, [logp.astype(np.float16) for logp in batch], beam=4.0, acoustic_scale=0.5, blank_penalty=0.25)


def test_log_probs_come_while_the_kernel_runs(graph, batch):
    """At random points of a launch, some before a block asks for them and some after: no launch ends for them."""
    half = [logp.astype(np.float16) for logp in batch]
    for number, schedule in enumerate(schedules()):
        random = np.random.default_rng(number)
        steps = np.sort(random.integers(0, 20_000, 4)).tolist()
        values = half if number % 2 else batch
        coming = FromHost(values, 1 + number % 4, random.random(3).tolist(), steps)
        shape = Shape(lanes=1 + number % 5, block=32)
        host = check(
            graph, values, beam=5.0, max_active=40, room=GENEROUS, shape=shape, schedule=schedule, from_host=coming
        )
        assert host.launches == 1


@settings(max_examples=examples(40))
@given(
    graphs.graphs(blank=3),
    st.lists(graphs.log_probs(), min_size=1, max_size=4),
    st.integers(1, 4),
    st.lists(st.floats(0, 1, exclude_max=True), max_size=4),
    st.sampled_from([0, 300, 5000]),
    st.integers(0, 2**32),
)
def test_lanes_stop_when_log_probs_are_late(graph, batch, piece_frames, parts, apart, seed):
    """Room grows in the same run, searches die, and the host may send a part only after a launch has ended."""
    steps = [apart * i or 10**9 * i for i in range(len(parts) + 1)]
    coming = FromHost(batch, piece_frames, parts, steps, wait_cycles=200)
    check(graph, batch, beam=2.0, max_active=5, shape=Shape(block=32), schedule={"seed": seed}, from_host=coming)


def test_bad_log_probs_on_their_way(graph, batch):
    spoiled = [logp.copy() for logp in batch]
    spoiled[4][2] = -np.inf  # the search dies, and rows that come later are checked
    spoiled[4][6, 4] = np.nan
    spoiled[2][5, 3] = np.inf
    for wait_cycles in (100, 10**6):
        coming = FromHost(spoiled, 2, [0.3, 0.6], [0, 3000, 9000], wait_cycles)
        found = SearchHost(graph, beam=5.0).decode(spoiled, from_host=coming)
        assert [got.outcome for got in found] == [DECODED, DECODED, BAD_LOG_PROB, DECODED, BAD_LOG_PROB]
        assert [(found[i].bad_frame, found[i].bad_column) for i in (2, 4)] == [(5, 3), (6, 4)]


def test_a_launch_that_is_given_up_ends(graph, batch):
    """No more comes: every block that waits stops at once, and none decodes what is not there."""
    coming = FromHost(batch, 2, [0.3], [0, 10**12], wait_cycles=2**32 - 1)
    given_up = np.array([0xFFFFFFFF], np.uint32)
    copies = [*coming.copies()[:2], Copy(2000, coming.arrived, given_up, "released_word")]
    coming.copies = lambda: copies
    host = SearchHost(graph, room=GENEROUS, beam=5.0)
    coming.come_on = lambda: (_ for _ in ()).throw(InterruptedError)
    with pytest.raises(InterruptedError):
        host.decode(batch, Shape(lanes=3), from_host=coming)


def test_states_of_many_arcs(batch):
    hubs = graphs.random_graph(8, states=40, arcs_a_state=30, columns=12, epsilon_share=0.1)
    check(hubs, batch, beam=3.0, max_active=20, room=GENEROUS)


@pytest.mark.parametrize(("value", "frame", "column"), [(np.nan, 3, 5), (np.inf, 0, 11), (np.nan, 8, 0)])
def test_bad_log_probs_are_found(graph, batch, value, frame, column):
    spoiled = [logp.copy() for logp in batch]
    spoiled[2][frame, column:] = value
    found = SearchHost(graph, beam=5.0).decode(spoiled)
    assert [got.outcome for got in found] == [DECODED, DECODED, BAD_LOG_PROB, DECODED, DECODED]
    assert (found[2].bad_frame, found[2].bad_column) == (frame, column)


@pytest.mark.parametrize("shape", [Shape(), Shape("cluster", lanes=2, block=32, cluster=3)])
def test_rows_after_the_death_of_a_search_are_checked_too(graph, batch, shape):
    spoiled = [logp.copy() for logp in batch]
    spoiled[2][2] = -np.inf
    (dead,) = SearchHost(graph, beam=5.0).decode([spoiled[2]], shape)
    assert (dead.outcome, dead.reached_final) == (DECODED, False)
    spoiled[2][7, 4] = np.nan
    (bad,) = SearchHost(graph, beam=5.0).decode([spoiled[2]], shape)
    assert (bad.outcome, bad.bad_frame, bad.bad_column) == (BAD_LOG_PROB, 7, 4)


def test_demo_speech(demo_data, tmp_path):
    """A few frames of real speech through a graph of real words."""
    pytest.importorskip("kaldifst", reason="building the graph needs arcbeam[build]")
    from arcbeam.recipe.lexicon import Lexicon

    with np.load(demo_data / "log_probs.npz") as data:
        rows = data["log_probs"][: data["lengths"][0]]
    tokens = TokenTable.read(demo_data / "tokens.txt")
    words = ["and", "mister", "john", "dashwood", "had", "a", "an", "at", "the", "then", "leisure", "to"]
    arpa = tmp_path / "unigram.arpa"
    lines = ["\\data\\", f"ngram 1={len(words) + 2}", "", "\\1-grams:", "-1\t</s>", "-99\t<s>\t0"]
    arpa.write_text("\n".join([*lines, *(f"-1\t{word}" for word in words), "", "\\end\\", ""]))
    graph = Graph.build(tokens, Lexicon.spell(words, tokens), arpa)
    for schedule in schedules():
        check(graph, [rows[:60], rows[60:90]], beam=10.0, max_active=50, room=GENEROUS, schedule=schedule)
