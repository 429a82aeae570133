"""The search with boosts and a large language model on a GPU gives the CPU's bytes, whatever the schedule."""

import numpy as np
import pytest

from arcbeam import Boost, Graph
from tests.decode import graphs
from tests.decode.emulated_gpu import Shape
from tests.decode.language_models import WORDS, all_costs_equal, over, rough_models
from tests.decode.small_search import BATCH, ROOMY
from tests.rescore.placed import check
from tests.rescore.test_boost_emulated import random_boosts
from tests.simt.build import schedules

MODELS = rough_models(4)
GRAPH = over(graphs.random_graph(4, states=120, columns=12), MODELS[1])
PLACES = ("resident", "cached", "bucketed")
# For the states of the small model and of the boost; 64 - 24 are left for those of the large one.
BITS = (12, 12)

pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


@pytest.mark.parametrize(("n", "lattice_beam"), [(None, None), (2, None), (2, 4.0), (None, float("inf"))])
@pytest.mark.parametrize("place", PLACES)
def test_schedules(place, n, lattice_beam):
    for number, schedule in enumerate(schedules(10)):
        check(
            GRAPH, MODELS, BATCH[:3], boost=random_boosts(3), bits=BITS, beam=6.0, max_active=40,
            hypotheses_per_state=n,
            lattice_beam=lattice_beam, room=ROOMY, lm_scale=0.75, schedule=schedule,
            shape=Shape(lanes=1 + number % 2, block=(32, 64)[number % 2]), place=place,
        )  # fmt: skip


@pytest.mark.parametrize("lattice_beam", [None, 4.0])
@pytest.mark.parametrize("place", PLACES)
def test_schedules_with_little_room(place, lattice_beam):
    """Frames are given up and redone, and everything grows."""
    for schedule in schedules(10):
        seen, _ = check(
            GRAPH, MODELS, BATCH, boost=random_boosts(len(BATCH)), bits=BITS, beam=6.0, max_active=40,
            hypotheses_per_state=2,
            lattice_beam=lattice_beam, schedule=schedule, place=place,
        )  # fmt: skip
        assert seen.launches > 3


@pytest.mark.parametrize("bits", [(10, 10), (20, 12), (31, 1), (20, 31)])
def test_bits(bits):
    """States take any share of a history's bits, across the border of its two words, too."""
    boosts = random_boosts(3) if bits[1] > 1 else [Boost({"w1 w2": 1.5}), Boost({"w3": 2.0}), Boost({"w4 w1": -1.0})]
    for lattice_beam in (None, 4.0):
        for n in (None, 2):
            check(GRAPH, MODELS, BATCH[:3], boost=boosts, bits=bits, beam=6.0, max_active=40,
                           hypotheses_per_state=n, lattice_beam=lattice_beam, room=ROOMY)  # fmt: skip


@pytest.mark.parametrize("n", [2, None])
@pytest.mark.parametrize("seed", range(6))
def test_ties(seed, n):
    """Paths of equal cost and arc meet with different states: the models' states count before the boost's."""
    graph, models = all_costs_equal(seed, arcs=48)
    boosts = [Boost({"w1 w2 w3": 0.0, "w2 w4": 0.0, "w3 w1": 0.0, "w4 w5 w1": 0.0, "w5 w5": 0.0})]
    for lattice_beam in (None, 2.0):
        for schedule in schedules(5):
            check(
                graph, models, [np.full((10, 3), -1.0, np.float32)], boost=boosts, bits=BITS, beam=2.0,
                hypotheses_per_state=n, lattice_beam=lattice_beam, room=ROOMY, shape=Shape(lanes=1),
                schedule=schedule,
            )  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_few_words_in_many_phrases(seed):
    """Phrases overlap, and a frame has more words than a block has threads: some share answers."""
    rng = np.random.default_rng(seed)
    source, target, labels = rng.integers(0, 8, 200), rng.integers(0, 8, 200), rng.integers(1, 6, 200)
    weights = rng.gamma(1.0, size=200).astype(np.float32)
    plain = Graph.from_arcs(
        (source, target, labels, rng.integers(1, 5, 200), weights), num_states=8, num_columns=6,
        finals=dict.fromkeys(range(8), 0.0),
    )  # fmt: skip
    words = WORDS[:4]
    boosts = [Boost({" ".join(rng.choice(words, rng.integers(1, 6))): float(rng.normal(1.0, 2.0)) for _ in range(60)})]
    for lattice_beam in (None, 6.0):
        for schedule in schedules(2):
            check(
                over(plain, MODELS[1]), MODELS, [graphs.random_log_probs(seed, 8, 6)], boost=boosts, bits=BITS,
                beam=6.0,
                lattice_beam=lattice_beam, room=ROOMY, shape=Shape(lanes=1, block=32), schedule=schedule,
            )  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_few_words_that_become_dear(seed):
    """Each is looked up by itself, and the best is known after the boost only. No state is final, so refunds decide."""
    rng = np.random.default_rng(seed)
    source, target, labels = rng.integers(0, 6, 18), rng.integers(0, 6, 18), rng.integers(1, 4, 18)
    weights = rng.gamma(1.0, size=18).astype(np.float32)
    plain = Graph.from_arcs(
        (source, target, labels, rng.integers(1, 6, 18), weights), num_states=6, num_columns=3, finals={}
    )
    begun = {f"{a} {b} {c}": 2.0 for a in WORDS[:3] for b in WORDS[3:5] for c in WORDS[:2]}
    boosts = [Boost(dict.fromkeys(WORDS[:5], -4.0) | begun)]
    for lattice_beam in (None, 3.0):
        for schedule in schedules(2):
            check(
                over(plain, MODELS[1]), MODELS, [graphs.random_log_probs(seed, 6, 3)], boost=boosts, bits=BITS,
                beam=5.0,
                lattice_beam=lattice_beam, room=ROOMY, shape=Shape(lanes=1, block=128), schedule=schedule,
            )  # fmt: skip
