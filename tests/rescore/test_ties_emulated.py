"""Ties under the emulator's schedules, for every search: the same tokens leave, and the same paths win, on both
engines."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from arcbeam import Boost, Graph
from tests.decode import both_engines, kenlm_files
from tests.decode.emulated_gpu import TIGHT, Shape
from tests.decode.language_models import WORDS, all_costs_equal, over
from tests.decode.small_search import ROOMY
from tests.decode.test_ties import tied_graph, tied_rows
from tests.rescore.placed import check
from tests.rescore.searches import open_graph
from tests.rescore.test_requests_emulated import tied_by_words
from tests.simt.build import schedules

BATCH = [np.full((8, 3), -1.0, np.float32), np.full((3, 3), -1e9, np.float32), tied_rows(3, 6, 3)]
BOOSTS = [Boost({"w1 w2 w3": 0.0, "w2 w4": 0.0, "w3 w1": 0.0, "w4 w5 w1": 0.0, "w5 w5": 0.0})] * len(BATCH)
WORDED = [Boost({"a b": 0.0, "b c": 0.0, "e d": 0.0, "d a c": 0.0})] * len(BATCH)
SHAPES = [Shape(lanes=1, block=32), Shape(lanes=2, block=96), Shape("cluster", 1, 32, cluster=2, team_tokens=3)]
pytestmark = [
    pytest.mark.filterwarnings("ignore:boost. :UserWarning"),
    pytest.mark.filterwarnings("ignore:log_probs. expected the best column:UserWarning"),
]


def crowded(small, words):
    """A graph of two states, whose tokens differ by their histories alone."""
    arcs = [(s, t, label, word, 0.0) for s in (0, 1) for t in (0, 1) for label in (1, 2, 3) for word in range(1, 6)]
    return over(Graph.from_arcs(arcs, num_states=2, num_columns=3, finals={1: 0.0}), small, words)


def searches(folder, seed):
    """What compares each search with the twin."""
    graph, models = all_costs_equal(seed, arcs=96)
    worded, numbered = tied_by_words(folder, seed)
    if seed % 2:
        graph, worded = crowded(models[1], WORDS), crowded(numbered[1], [*"edabc"])
    opened = [Boost({"x": 6.0, "xy": 6.0}), Boost(["a"]), Boost({"zz": 6.0, "a xx": 4.0})]
    of_twelve = [np.full((6, 12), low, np.float32) for low in (-2.0, -1e9, -3.0)]
    rescored = partial(check, graph, models, BATCH)
    of_kenlm = partial(check, worded, numbered, BATCH, place="kenlm", arc_cache=512)
    return {
        "plain": partial(both_engines.check, tied_graph(seed, columns=3), BATCH),
        "resident": rescored,
        "requesting arcs": partial(rescored, place="arcs requested", arc_cache=256),
        "kenlm": of_kenlm,
        "boosted": partial(both_engines.check, graph, BATCH, boost=BOOSTS),
        "boosted, resident": partial(rescored, boost=BOOSTS),
        "boosted, kenlm": partial(of_kenlm, boost=WORDED),
        "new words": partial(both_engines.check, open_graph(4), of_twelve, boost=opened),
    }


WITHOUT_CLUSTERS = {"requesting arcs", "kenlm", "boosted, resident", "boosted, kenlm"}


ALL = ["plain", "resident", "requesting arcs", "kenlm", "boosted", "boosted, resident", "boosted, kenlm", "new words"]


@pytest.mark.parametrize("max_active", [1, 4, 9])
@pytest.mark.parametrize("search", ALL)
def test_schedules(tmp_path: Path, search, max_active):
    kenlm_files.need_kenlm()
    shapes = SHAPES[:2] if search in WITHOUT_CLUSTERS else SHAPES
    for number, schedule in enumerate(schedules(3 * len(shapes))):
        searches(tmp_path, number % 2)[search](
            beam=2.0, max_active=max_active, room=ROOMY if number % 4 else TIGHT, schedule=schedule,
            shape=shapes[number % len(shapes)],
        )  # fmt: skip


@pytest.mark.parametrize(("n", "lattice_beam"), [(2, None), (None, 2.0)])
@pytest.mark.parametrize("search", ALL)
def test_paths_that_tie(tmp_path: Path, search, n, lattice_beam):
    """Paths of equal cost and arc meet with different states: those of the models, or the words of a history, count
    before the boost's. Of candidates all but the winner are links."""
    kenlm_files.need_kenlm()
    of_models = {} if search in ("plain", "boosted", "new words") else {"hypotheses_per_state": n}
    for number, schedule in enumerate(schedules(6)):
        room = (ROOMY, replace(ROOMY, log_entries=512, links=512))[number % 2]
        searches(tmp_path, number)[search](
            beam=2.0, lattice_beam=lattice_beam, room=room, schedule=schedule, shape=SHAPES[number % 2], **of_models
        )
