"""Lattices of the search with a large language model on a GPU are the CPU's bytes, whatever the schedule."""

import math
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.decode import graphs, kenlm_files
from tests.decode.emulated_gpu import Shape
from tests.decode.language_models import all_costs_equal, over, rough_models
from tests.decode.small_search import BATCH, ROOMY
from tests.decode.test_lattice import BEAMS
from tests.decode.test_rescoring import language_models, with_words
from tests.hypothesis_examples import examples
from tests.rescore.placed import check
from tests.rescore.test_requests_emulated import tied_by_words
from tests.simt.build import schedules

MODELS = rough_models(4)
GRAPH = over(graphs.random_graph(4, states=120, columns=12), MODELS[1])
PLACES = ("resident", "cached", "bucketed", "arcs asked")


@pytest.mark.parametrize(("n", "lattice_beam"), [(None, 0.0), (2, 4.0), (3, float("inf"))])
@pytest.mark.parametrize("place", PLACES)
def test_schedules(place, n, lattice_beam):
    for number, schedule in enumerate(schedules(10)):
        check(
            GRAPH, MODELS, BATCH[:3], beam=6.0, max_active=40, hypotheses_per_state=n, lattice_beam=lattice_beam,
            room=ROOMY, shape=Shape(lanes=1 + number % 2, block=(32, 64)[number % 2]), schedule=schedule,
            place=place,
        )  # fmt: skip


@pytest.mark.parametrize("n", [2, None])
@pytest.mark.parametrize("place", PLACES)
def test_schedules_with_little_room(place, n):
    """Frames are given up and redone, the log and the links are pruned in place and grow, and the pool is too small."""
    for schedule in schedules(10):
        seen, _ = check(
            GRAPH, MODELS, BATCH, beam=6.0, max_active=40, hypotheses_per_state=n, lattice_beam=4.0,
            schedule=schedule, place=place,
        )  # fmt: skip
        assert seen.launches > 5


@settings(max_examples=examples(40), deadline=None)
@given(
    graphs.graphs(blank=3),
    language_models(),
    st.lists(graphs.log_probs(), min_size=1, max_size=4),
    st.sampled_from([0.5, 2.0, math.inf]),
    st.sampled_from(BEAMS),
    st.sampled_from([None, 1, 2, 4]),
    st.sampled_from(PLACES),
    st.integers(0, 2**32),
)
def test_random_graphs(graph, models, batch, beam, lattice_beam, n, place, seed):
    check(
        with_words(graph, models[1]), models, batch, place=place, beam=beam, acoustic_scale=0.5, hypotheses_per_state=n,
        lattice_beam=lattice_beam, shape=Shape(block=32), schedule={"seed": seed}, requests=16,
    )  # fmt: skip


@pytest.mark.parametrize("n", [2, None])
@pytest.mark.parametrize("room", [ROOMY, replace(ROOMY, log_entries=512, links=512)])
@pytest.mark.parametrize("seed", range(8))
def test_ties(seed, room, n):
    """Of candidates of equal cost and arc, all but the winner's are links."""
    graph, models = all_costs_equal(seed, arcs=48)
    batch = [np.full((10, 3), -1.0, np.float32)]
    for schedule in schedules(5):
        check(graph, models, batch, beam=2.0, hypotheses_per_state=n, lattice_beam=2.0, room=room,
                       shape=Shape(lanes=1), schedule=schedule)  # fmt: skip


def test_ties_by_the_words_of_histories():
    kenlm_files.need_kenlm()
    with tempfile.TemporaryDirectory() as folder:
        graph, models = tied_by_words(Path(folder), 0)
        batch = [np.full((8, 3), np.log(1 / 3), np.float32)] * 2
        for schedule in schedules(10):
            check(
                graph, models, batch, beam=4.0, hypotheses_per_state=2, lattice_beam=4.0, room=ROOMY,
                shape=Shape(block=32), schedule=schedule, place="kenlm", histories=500, every=20, arc_cache=512,
            )  # fmt: skip
