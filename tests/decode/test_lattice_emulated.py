"""Lattices of the GPU's engine are the CPU engine's bytes: the kernels under the emulator, and the host around them."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import CapacityError, CtcDecoder
from arcbeam.gpu.tuned import search_plan
from tests.decode import graphs
from tests.decode.both_engines import check
from tests.decode.early_reader import EarlyReader
from tests.decode.emulated_gpu import TIGHT, Shape
from tests.decode.equality import same
from tests.decode.language_models import all_costs_equal
from tests.decode.lattices import lattices, packed
from tests.decode.small_search import AS_SHIPPED, BATCH, GRAPH, OPTIONS, ROOMY
from tests.decode.test_lattice import BEAMS
from tests.hypothesis_examples import examples
from tests.simt.build import schedules

LONG = [*BATCH, graphs.random_log_probs(7, 30, 12)]


def on_both(batch, graph=GRAPH, memory_limit=None, **options):
    """The lattices of the GPU's engine, compared with the CPU's."""
    of_gpu = lattices(CtcDecoder(graph, device="cuda", memory_limit=memory_limit, **options), batch)
    of_cpu = lattices(CtcDecoder(graph, device="cpu", threads=1, **options), batch)
    assert [packed(lattice) for lattice in of_gpu] == [packed(lattice) for lattice in of_cpu]
    return of_gpu


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    graphs.graphs(blank=3),
    st.lists(graphs.log_probs(), min_size=1, max_size=4),
    st.sampled_from([0.0, 0.5, 2.0, math.inf]),
    st.sampled_from(BEAMS),
    st.sampled_from([None, 1, 2, 5]),
    st.sampled_from([TIGHT, ROOMY]),
)
def test_random_graphs(emulated_gpu, graph, batch, beam, lattice_beam, max_active, room):
    emulated_gpu.begin_with(room)
    on_both(batch, graph, beam=beam, max_active=max_active, acoustic_scale=0.5, lattice_beam=lattice_beam)


@pytest.mark.parametrize("room", [TIGHT, AS_SHIPPED, replace(ROOMY, links=8), replace(ROOMY, lattice_bytes=1)])
@pytest.mark.parametrize("shape", [search_plan.WIDE, search_plan.DENSE, search_plan.CLUSTER])
def test_rooms_and_shapes(gpu, room, shape):
    """Logs, links and the pool fill up at any time, and pruning in between changes nothing."""
    gpu.begin_with(room)
    gpu.launch_as(shape)
    found = on_both(LONG, **OPTIONS)
    assert sum(len(lattice["links"]) for lattice in found) > 100
    assert {name for name, _ in gpu.launched} <= {"wide", "dense", "cluster"}


def test_with_and_without_in_turns(gpu):
    gpu.begin_with(TIGHT)
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    cpu = CtcDecoder(GRAPH, device="cpu", threads=1, **OPTIONS)
    for _ in range(2):
        assert [h.score for h in decoder.decode(LONG)] == [h.score for h in cpu.decode(LONG)]
        wanted = [packed(lattice) for lattice in lattices(cpu, LONG)]
        assert [packed(lattice) for lattice in lattices(decoder, LONG)] == wanted
        pinned = decoder.memory().pinned
        decoder.release()
        assert decoder.memory().pinned < pinned


def test_windows_and_arrays_of_the_host(gpu):
    """Utterances that come in parts, in windows of one utterance each."""
    gpu.begin_with(replace(TIGHT, window_bytes=1))
    gpu.send_in_parts()
    on_both(LONG, **OPTIONS)


def test_an_utterance_that_died_and_one_that_is_refused(gpu):
    gpu.begin_with(ROOMY)
    dying = LONG[-1].copy()
    dying[11:] = -np.inf
    bad = LONG[-1].copy()
    bad[3, 2] = np.nan
    batch = [LONG[0], dying, bad, LONG[2]]
    of_gpu = lattices(CtcDecoder(GRAPH, device="cuda", **OPTIONS), batch, errors="return")
    of_cpu = lattices(CtcDecoder(GRAPH, device="cpu", **OPTIONS), batch, errors="return")
    assert [packed(lattice) for lattice in of_gpu] == [packed(lattice) for lattice in of_cpu]
    assert [lattice["complete"] for lattice in of_gpu] == [True, False, False, True]
    assert len(of_gpu[1]["links"]) == len(of_gpu[1]["best"]) > 10 and len(of_gpu[2]["states"]) == 0


def test_hot_utterances_go_on_in_clusters(gpu, monkeypatch):
    """Lanes that stop change places, and their links with them."""
    monkeypatch.setattr(search_plan, "HOT_TOKENS", 4)
    gpu.begin_with(ROOMY)
    gpu.launch_as(search_plan.WIDE)
    batch = [graphs.random_log_probs(seed, frames, 12) for seed, frames in enumerate((20, 3, 4, 5, 60, 2, 40))]
    on_both(batch, **OPTIONS)
    assert gpu.launched[0][0] == "wide" and gpu.launched[-1][0] == "cluster"


def test_a_memory_limit_costs_lanes_first(gpu):
    gpu.begin_with(TIGHT)
    options = OPTIONS | {"lattice_beam": math.inf}
    free = CtcDecoder(GRAPH, device="cuda", **options)
    lattices(free, LONG)
    needed = free.memory().device_bytes
    for limit in (needed, needed * 3 // 4, needed // 2):
        gpu.launches.clear()
        on_both(LONG, memory_limit=limit, **options)
    assert min(blocks for blocks, _, _ in gpu.shapes) < len(LONG)


def test_a_memory_limit_that_is_too_tight(gpu, monkeypatch):
    """Links that find no room are an error, and the decoder works on."""
    gpu.begin_with(TIGHT)
    monkeypatch.setattr(search_plan, "LEAN", TIGHT)
    long = [graphs.random_log_probs(7, 400, 12)]
    options = OPTIONS | {"lattice_beam": math.inf}
    free = CtcDecoder(GRAPH, device="cuda", **options)
    lattices(free, long)
    decoder = CtcDecoder(GRAPH, device="cuda", memory_limit=free.memory().device_bytes * 5 // 6, **options)
    wanted = [packed(one) for one in lattices(CtcDecoder(GRAPH, device="cpu", **options), BATCH)]
    telling = r"memory_limit: cannot allocate [\d,]+ bytes for the .*lattice.* on cuda:0, .* or lattice_beam"
    for _ in range(2):
        with pytest.raises(CapacityError, match=telling):
            decoder.decode(long, lattice=True)
        same(decoder.decode(long), CtcDecoder(GRAPH, device="cpu", **OPTIONS).decode(long))
        assert [packed(one) for one in lattices(decoder, BATCH)] == wanted


@pytest.mark.parametrize(
    ("shape", "lattice_beam"),
    [(Shape(), 0.0), (Shape(lanes=1, block=32), math.inf), (Shape("cluster", cluster=2), 2.0), (Shape("dense", 3), 2.0),
     (Shape("dense", 3), math.inf)],
)  # fmt: skip
def test_schedules(shape, lattice_beam):
    options = {"beam": 5.0, "lattice_beam": lattice_beam, "shape": shape}
    for schedule in schedules(10):
        seen = [check(GRAPH, LONG, room=room, schedule=schedule, **options) for room in (ROOMY, TIGHT)]
        assert seen[0].launches < seen[1].launches


def test_the_log_is_pruned_before_it_grows():
    """The best path is found by milestones; those of tokens in a log that was pruned are forgotten."""
    batch = [graphs.random_log_probs(31, 100, 12, sharpness=6.0)]
    for schedule in schedules(5):
        seen = check(
            GRAPH, batch, beam=5.0, lattice_beam=0.5, room=replace(ROOMY, log_entries=1200), shape=Shape(lanes=1),
            schedule=schedule,
        )  # fmt: skip
        assert seen.launches == 1 and seen.stats.tokens > 4000


def test_more_links_than_tokens():
    graph = all_costs_equal(0, arcs=48)[0]
    batch = [np.full((6, 3), -1.0, np.float32)]
    for lattice_beam, links in ((0.0, 1 << 12), (math.inf, 16)):
        for schedule in schedules(5):
            check(
                graph, batch, beam=5.0, lattice_beam=lattice_beam, room=replace(ROOMY, links=links), schedule=schedule
            )


def test_the_host_reads_what_has_been_written_while_others_decode():
    """Whenever it reads, a lattice is whole, as it is after the launch."""
    early = []
    for schedule in schedules(10):
        for block in (32, 128):
            check(
                GRAPH, LONG, beam=OPTIONS["beam"], lattice_beam=2.0, shape=Shape(lanes=2, block=block),
                room=replace(TIGHT, links=512, log_entries=4096, lattice_bytes=1 << 10), schedule=schedule,
                prepare=lambda gpu, decoder: early.append(EarlyReader(gpu, every=20)),
            )  # fmt: skip
    assert sum(one.read_early for one in early) > 5
