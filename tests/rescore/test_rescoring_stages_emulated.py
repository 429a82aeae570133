"""Every stage of the kernel that rescores beside the CPU twin's stage, frame by frame, under the emulator's schedules:
the same bytes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam.ctc.options import DecoderOptions
from arcbeam.ctc.rescoring import Rescoring
from benchmarks.engine.placements import BUCKETED
from tests.decode import graphs
from tests.decode.language_models import all_costs_equal, long_lists, over, rough_models
from tests.decode.test_rescoring import language_models, with_words
from tests.hypothesis_examples import examples
from tests.rescore.demo import demo_speech
from tests.simt.build import schedules
from tests.stages.emulated_machine import Emulated
from tests.stages.rescoring_stage_kernel import (
    KERNEL,
    SOURCE,
    Lookup,
    RescoringStageKernel,
    RescoringTwin,
    compare,
)
from tests.stages.stage_kernel import ROOMS, Layout, NoRoom

SMALL = Layout(shared=256, spilled=1024, threads=64)
ROOMY = Layout(shared=960, spilled=4096, threads=64)
OPTIONS = {"beam": 8.0, "max_active": 60}
# Where the model is, with a cache of 16 entries and without; and as a search goes through lookup and rescore.
LOOKUPS = [
    Lookup(), Lookup(cache=16), Lookup("host-direct", cache=16, cold=True), Lookup(BUCKETED),
    Lookup(BUCKETED, cache=16), Lookup(cache=16, apart=False),
]  # fmt: skip


def machine(source=SOURCE, kernel=KERNEL, **schedule):
    return Emulated(source, kernel, **schedule)


def check(graph, models, rows, layout=SMALL, lookup=LOOKUPS[1], schedule=None, frames=None, turns=1, **options):
    """Decodes the rows by the twin's stages; the kernel makes each of the frames besides."""
    twin = RescoringTwin(graph, Rescoring(graph, *models, DecoderOptions()), **options)
    made = None
    for number, row in enumerate(rows):
        frame = twin.frame(row)
        wanted = twin.make(frame)
        if frames is None or number in frames:
            kernel = RescoringStageKernel(machine(**lookup.compiled, **(schedule or {})), frame, layout, lookup)
            if wanted is None:
                with pytest.raises(NoRoom, match="died"):
                    kernel.run()
            else:
                made = kernel.run(turns)
                compare(frame, made, wanted)
        if wanted is None:
            break
    return made


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    graphs.graphs(blank=3),
    language_models(),
    graphs.log_probs(),
    st.sampled_from([0.0, 0.5, 2.0, 17.0, float("inf")]),
    st.sampled_from([0, 1, 2, 3]),
    st.sampled_from([0, 1, 4]),
    st.sampled_from(LOOKUPS),
    st.integers(0, 2**32),
)
def test_random_graphs(graph, models, rows, beam, n, max_active, lookup, seed):
    check(
        with_words(graph, models[1]), models, rows, Layout(shared=64, spilled=256, threads=32, room="spilled"), lookup,
        {"seed": seed}, beam=beam, hypotheses_per_state=n, max_active=max_active,
        acoustic_scale=0.5, blank=3, blank_penalty=0.25,
    )  # fmt: skip


@pytest.fixture(scope="module")
def models():
    return rough_models(4)


@pytest.fixture(scope="module")
def graph(models):
    return over(graphs.random_graph(4, states=120, columns=12), models[1])


@pytest.fixture(scope="module")
def rows():
    return graphs.random_log_probs(2, 6, 12)


@pytest.mark.parametrize(("room", "n"), list(zip(ROOMS, (3, 2, 0), strict=True)))
def test_schedules(graph, models, rows, room, n):
    for number, schedule in enumerate(schedules()):
        lookup = LOOKUPS[number % len(LOOKUPS)]
        made = check(
            graph, models, rows, replace(SMALL, room=room), lookup, schedule, frames={5}, hypotheses_per_state=n,
            turns=1 + number % 2, **OPTIONS,
        )  # fmt: skip
        assert made.words > 10
        assert (made.counts["stamps"] > 0) == (lookup.cache != 0)


def test_a_limit_cuts(graph, models, rows):
    """Or the tests above would prove little."""
    made = [check(graph, models, rows, hypotheses_per_state=n, frames={5}, **OPTIONS) for n in (1, 2, 0)]
    assert len(made[0].survivors) < len(made[1].survivors) < len(made[2].survivors) == len(made[2].frontier)


def test_what_the_cache_answers(graph, models, rows):
    """The first turn fills it; a cold one is filled each turn."""
    misses = {}
    for cold in (False, True):
        lookup = Lookup(cache=4096, cold=cold)
        counts = check(graph, models, rows, lookup=lookup, frames={5}, turns=3, **OPTIONS).counts
        misses[cold], distinct = counts["misses"], counts["distinct"]
    none = check(graph, models, rows, lookup=Lookup(), frames={5}, turns=3, **OPTIONS).counts
    assert none["misses"] == none["distinct"] == distinct
    assert 0 < misses[False] < misses[True] <= distinct


@pytest.mark.parametrize("n", [2, 0])
@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_ties(seed, n):
    graph, models = all_costs_equal(seed, arcs=96)
    rows = np.full((5, 3), -1.0, np.float32)
    for schedule in schedules(10):
        check(
            graph, models, rows, ROOMY, schedule=schedule, frames={3, 4},
            beam=2.0, max_active=0, hypotheses_per_state=n,
        )  # fmt: skip


@pytest.mark.parametrize("cost", [None, lambda r: 0.5], ids=["costs", "ties"])
@pytest.mark.parametrize("n", [3, 5, 40])
def test_lists_that_are_longer_than_a_warp(n, cost):
    graph, models = long_lists(cost)
    made = check(
        graph, models, graphs.random_log_probs(3, 3, 2), Layout(shared=64, spilled=8192, room="spilled"), beam=30.0,
        max_active=12, hypotheses_per_state=n, frames={2},
    )  # fmt: skip
    assert np.bincount(made.frontier["state"]).max() > 32
    assert len(made.survivors) <= 3 * n


def test_frames_that_do_not_fit(graph, models, rows):
    with pytest.raises(NoRoom, match="no room"):
        check(graph, models, rows, Layout(shared=64, spilled=64, threads=32), frames={5}, **OPTIONS)


def test_demo_speech(demo_data, tmp_path):
    graph, models, rows = demo_speech(demo_data, tmp_path)
    for number, schedule in enumerate(schedules()):
        lookup = LOOKUPS[number % len(LOOKUPS)]
        check(
            graph, models, rows[:60].astype(np.float32), lookup=lookup, schedule=schedule, frames={20, 40, 59},
            beam=10.0, max_active=50, hypotheses_per_state=3, blank=graph.blank,
        )  # fmt: skip
