"""The search kernel under the emulator's schedules gives the twin's bytes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbeam import CtcDecoder
from tests.decode import graphs
from tests.decode.search_host import BAD_LOG_PROB, DECODED, Room, SearchHost
from tests.simt.build import schedules


def check(graph, batch, *, room=None, grid=2, block=64, schedule=None, **options):
    decoder = CtcDecoder(graph, threads=1, **options)
    host = SearchHost(graph, room=room, **options)
    found = host.decode(batch, grid=grid, block=block, **(schedule or {}))
    wanted = decoder.decode(batch)
    for got, want in zip(found, wanted, strict=True):
        assert got.outcome == DECODED
        assert got.arcs.tolist() == want.arcs.tolist()
        assert np.float64(got.total_cost).tobytes() == np.float64(-want.score).tobytes()
        assert got.reached_final == want.reached_final
    stats = decoder.stats
    work = np.sum([got.work for got in found], axis=0).tolist() if found else [0] * 4
    assert work == [stats.frames, stats.tokens, stats.leaving_arcs, stats.admitted]
    return host


@settings(max_examples=60)
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
        graph, batch, beam=beam, max_active=max_active, acoustic_scale=0.5, blank_penalty=penalty, block=32,
        schedule={"seed": seed},
    )  # fmt: skip


@pytest.fixture(scope="module")
def graph():
    return graphs.random_graph(4, states=120, columns=12)


@pytest.fixture(scope="module")
def batch():
    return [graphs.random_log_probs(seed, frames, 12) for seed, frames in enumerate((5, 0, 9, 1, 7))]


def test_fifty_schedules(graph, batch):
    for schedule in schedules(50):
        check(graph, batch, beam=5.0, max_active=40, schedule=schedule)
