"""Lists of phrases that are hard for kernels give the CPU's bytes, with a large language model and without."""

import numpy as np
import pytest

from arcbeam import Boost, Graph
from tests.decode import graphs
from tests.decode.both_engines import check as check_plain
from tests.decode.emulated_gpu import Shape
from tests.decode.language_models import WORDS
from tests.decode.small_search import BATCH, ROOMY
from tests.rescore.placed import PLACES
from tests.rescore.searches import CLOSED, check, known_words, worded
from tests.simt.build import schedules

pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


@pytest.mark.parametrize("place", [None, *PLACES])
@pytest.mark.parametrize("seed", range(3))
def test_few_words_in_many_phrases(place, seed):
    """Phrases overlap, states are left by the same words, and a frame has more words than a block has threads.

    Some share the answer of another one, and their histories after it with a boost of their own.
    """
    rng = np.random.default_rng(seed)
    source, target, labels = rng.integers(0, 8, 200), rng.integers(0, 8, 200), rng.integers(1, 6, 200)
    weights = rng.gamma(1.0, size=200).astype(np.float32)
    graph = Graph.from_arcs(
        (source, target, labels, rng.integers(1, 5, 200), weights), num_states=8, num_columns=6,
        finals=dict.fromkeys(range(8), 0.0),
    )  # fmt: skip
    words = WORDS[:4]
    boosts = [Boost({" ".join(rng.choice(words, rng.integers(1, 6))): float(rng.normal(1.0, 2.0)) for _ in range(60)})]
    of_models = {"arc_cache": 512} if place else {}
    for lattice_beam in (None, 6.0):
        for schedule in schedules(2 if place in (None, "resident") else 1):
            check("known", place, [graphs.random_log_probs(seed, 8, 6)], graph=graph, boost=boosts, max_active=None,
                  lattice_beam=lattice_beam, room=ROOMY, shape=Shape(lanes=1, block=32), schedule=schedule,
                  **of_models)  # fmt: skip


DEAR = [(None, 60, 8, 9, 2.0, 4, 2.0, [None]), ("resident", 18, 3, 3, 1.0, 5, 5.0, [None, 3.0])]


@pytest.mark.parametrize(("place", "arcs", "labels", "columns", "spread", "dear", "beam", "lattice_beams"), DEAR)
@pytest.mark.parametrize("seed", range(3))
def test_few_words_that_become_dear(seed, place, arcs, labels, columns, spread, dear, beam, lattice_beams):
    """The bound rises by the boost: what was beyond it before is not admitted. With a model each word is looked up by
    itself, and the best is known after the boost only. No state is final: refunds decide."""
    rng = np.random.default_rng(seed)
    source, target, label = rng.integers(0, 6, arcs), rng.integers(0, 6, arcs), rng.integers(1, labels + 1, arcs)
    weights = rng.gamma(spread, size=arcs).astype(np.float32)
    graph = Graph.from_arcs(
        (source, target, label, rng.integers(1, 6, arcs), weights), num_states=6, num_columns=columns, finals={}
    )
    begun = {f"{a} {b} {c}": 2.0 for a in WORDS[:3] for b in WORDS[3:5] for c in WORDS[:2]}
    boosts = [Boost(dict.fromkeys(WORDS[:dear], -4.0) | begun)]
    for lattice_beam in lattice_beams:
        for schedule in schedules(4):
            check("known", place, [graphs.random_log_probs(seed, 6, columns)], graph=graph, boost=boosts, beam=beam,
                  max_active=None, lattice_beam=lattice_beam, room=ROOMY, shape=Shape(lanes=1, block=128),
                  schedule=schedule)  # fmt: skip


@pytest.mark.parametrize("lattice_beam", [None, 8.0])
def test_few_words_of_epsilon_arcs_become_dear(lattice_beam):
    """What the boost of an epsilon arc lifts beyond the bound is not admitted."""
    rng = np.random.default_rng(8)
    arcs = [(i, i, 1 + i % 4, 0, float(weight)) for i, weight in enumerate(rng.gamma(1.0, size=12))]
    arcs += [(i, (i + 1) % 12, 1 + (i + 1) % 4, 0, 0.5) for i in range(12)]
    arcs += [(i, i + step, 0, 1 + (i + step) % 6, 0.25) for i in range(9) for step in (1, 3)]
    graph = worded(Graph.from_arcs(arcs, start=0, finals={11: 0.0}, num_columns=4))
    boosts = [Boost(dict.fromkeys(WORDS[:4], -3.0) | {"w5 w6": 2.0, "w1 w2": 4.0})]
    for seed, schedule in enumerate(schedules(4)):
        check_plain(graph, [graphs.random_log_probs(seed, 8, 4)], boost=boosts, beam=2.5, lattice_beam=lattice_beam,
              room=ROOMY, shape=Shape(lanes=1, block=64), schedule=schedule)  # fmt: skip


def test_a_long_list_has_no_filter():
    """Every word is searched for in the list itself."""
    rng = np.random.default_rng(5)
    phrases = {" ".join(rng.choice(WORDS[:40], 3)): float(rng.normal(1.0, 2.0)) for _ in range(9000)}
    boosts = [Boost(phrases), known_words(1)[0]]
    assert len(boosts[0].compiled(CLOSED).arcs) > 1 << 14
    for schedule in schedules(1):
        check_plain(
            CLOSED, BATCH[:2][::-1], boost=boosts, beam=6.0, room=ROOMY, shape=Shape(lanes=1), schedule=schedule
        )


def test_more_rounds_than_are_listed():
    """The list of rounds ends where the list of phrases begins."""
    rng = np.random.default_rng(6)
    count = 500 * 32 * 8  # arcs of as many rounds and one
    source, target, labels = np.zeros(count, int), rng.integers(0, 2, count), rng.integers(1, 12, count)
    written = np.where(rng.random(count) < 0.5, 0, rng.integers(1, 50, count))
    graph = Graph.from_arcs(
        (source, target, labels, written, rng.gamma(2.0, size=count).astype(np.float32)), num_states=2, num_columns=12,
        finals={0: 0.0},
    )  # fmt: skip
    for schedule in schedules(1):
        check_plain(worded(graph), [graphs.random_log_probs(7, 3, 12)], boost=known_words(1), beam=0.5, room=ROOMY,
              shape=Shape(lanes=1, block=128), schedule=schedule)  # fmt: skip
