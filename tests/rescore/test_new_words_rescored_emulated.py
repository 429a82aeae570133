"""Searches with new words and a large language model, in every place of it, give the CPU's bytes on a GPU; so do those
with boosts where lanes ask the host for the model."""

import numpy as np
import pytest

from arcbeam import Boost, Graph
from tests.decode import graphs, kenlm_files
from tests.decode.emulated_gpu import Shape
from tests.decode.language_models import WORDS, all_costs_equal, over, random_model
from tests.decode.small_search import BATCH, ROOMY
from tests.rescore import placed
from tests.rescore.test_boost_emulated import random_boosts as known_words
from tests.rescore.test_new_words_emulated import GRAPH, open_graph, random_boosts
from tests.rescore.test_requests_emulated import tied_by_words
from tests.simt.build import schedules

RNG = np.random.default_rng(4)
# Both know <unk>, as which new words count.
LARGE, SMALL = (
    random_model(RNG, [*WORDS, "<unk>"], order, share=share, cost=lambda r: float(r.gamma(4.0)))
    for order, share in ((3, 0.2), (2, 0.3))
)
OPEN, CLOSED = over(GRAPH, SMALL), over(graphs.random_graph(4, states=120, columns=12), SMALL)
OPTIONS = {"beam": 6.0, "max_active": 40, "bits": (12, 12)}
PLACES = ("resident", "bucketed", *placed.ASKED)
LITTLE = {"requests": 16, "histories": 20, "wait_cycles": 200}  # of answers
LATTICE_BEAMS = [None, 4.0]
pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


def check(place, boosts, batch, graph=OPEN, models=None, **options):
    if place == "kenlm":
        options = {"unknown_words": "unk"} | options
    models = models or (placed.kenlm() if place == "kenlm" else LARGE, SMALL)
    return placed.check(graph, models, batch, place=place, boost=boosts, **OPTIONS | options).seen


@pytest.mark.parametrize("lattice_beam", LATTICE_BEAMS)
@pytest.mark.parametrize("place", PLACES)
def test_schedules(place, lattice_beam):
    for number, schedule in enumerate(schedules(3)):
        check(
            place, random_boosts(GRAPH, 3), BATCH[:3], hypotheses_per_state=(None, 2)[number % 2],
            lattice_beam=lattice_beam, room=ROOMY, shape=Shape(lanes=1 + number % 2, block=(32, 64)[number % 2]),
            schedule=schedule, every=(50, 400)[number % 2],
        )  # fmt: skip


@pytest.mark.parametrize("lattice_beam", LATTICE_BEAMS)
@pytest.mark.parametrize("place", PLACES)
def test_schedules_with_little_room(place, lattice_beam):
    """Frames are given up and redone, and everything grows, in lanes of which one has no new words."""
    first, second, third, *_ = (WORDS[word - 1] for word in np.unique(GRAPH.words) if word)
    boosts = [*random_boosts(GRAPH, 3), Boost({first: 2.0, f"{second} {third}": 1.5}), Boost({})]
    for schedule in schedules(2):
        seen = check(
            place, boosts, BATCH, hypotheses_per_state=2, lattice_beam=lattice_beam, schedule=schedule,
            arc_cache=512, **LITTLE,
        )  # fmt: skip
        assert seen.launches > 3


@pytest.mark.parametrize("place", ["resident", "arcs asked"])
def test_no_epsilon_arc_of_the_graph_has_a_word(place):
    """But some of the request's have: a word that begins another one ends with one."""
    graph = over(open_graph(4, by_epsilons=False), SMALL)
    boosts = [Boost({"a": 6.0, "ab": 2.0, "b": 6.0, "bc": 2.0, "c": 6.0, "ca": 2.0}), *random_boosts(graph, 2)]
    check(place, boosts, BATCH[:3], graph, lattice_beam=4.0, room=ROOMY, arc_cache=512)


@pytest.mark.parametrize("place", placed.ASKED)
@pytest.mark.parametrize("bits", [(10, 10), (20, 12), (20, 20)])
def test_bits(place, bits):
    """States take any share of a history's bits, also where none has a new word."""
    for number, n in enumerate((None, 2)):
        check(place, known_words(3), BATCH[:3], CLOSED, bits=bits, hypotheses_per_state=n, room=ROOMY, arc_cache=512,
              lattice_beam=LATTICE_BEAMS[number])  # fmt: skip


@pytest.mark.parametrize("n", [2, None])
def test_ties(n):
    """Paths of equal cost and arc meet with different states: those of the models count before the boost's."""
    boosts = [Boost({"w1 w2 w3": 0.0, "w2 w4": 0.0, "w3 w1": 0.0, "w4 w5 w1": 0.0, "w5 w5": 0.0})]
    for seed in range(3):
        graph, models = all_costs_equal(seed, arcs=48)
        for lattice_beam in (None, 2.0):
            check(
                "arcs asked", boosts, [np.full((10, 3), -1.0, np.float32)], graph, models, beam=2.0,
                hypotheses_per_state=n, lattice_beam=lattice_beam, room=ROOMY, shape=Shape(lanes=1),
                schedule={"seed": seed}, every=20,
            )  # fmt: skip


@pytest.mark.parametrize("n", [2, None])
@pytest.mark.parametrize("seed", range(3))
def test_ties_by_words(tmp_path, seed, n):
    """Histories of KenLM compare by their words, wherever in a history's bits their numbers are."""
    kenlm_files.need_kenlm()
    graph, models = tied_by_words(tmp_path, seed)
    boosts = [Boost({"a b": 0.0, "b c": 0.0, "e d": 0.0, "d a c": 0.0})]
    for lattice_beam in (None, 2.0):
        check(
            "kenlm", boosts, [np.full((10, 3), -1.0, np.float32)], graph, models, beam=2.0, hypotheses_per_state=n,
            lattice_beam=lattice_beam, room=ROOMY, schedule={"seed": seed}, every=20, arc_cache=512,
        )  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_more_words_than_a_block_has_threads(place):
    """Some candidates share the answer of another one, and their histories after it with a boost of their own."""
    rng = np.random.default_rng(1)
    source, target, labels = rng.integers(0, 8, 200), rng.integers(0, 8, 200), rng.integers(1, 6, 200)
    weights = rng.gamma(1.0, size=200).astype(np.float32)
    plain = Graph.from_arcs(
        (source, target, labels, rng.integers(1, 5, 200), weights), num_states=8, num_columns=6,
        finals=dict.fromkeys(range(8), 0.0),
    )  # fmt: skip
    boosts = [Boost({" ".join(rng.choice(WORDS[:4], rng.integers(1, 6))): 1.0 + i / 16 for i in range(40)})]
    check(place, boosts, [graphs.random_log_probs(1, 6, 6)], over(plain, SMALL), room=ROOMY, arc_cache=512,
          shape=Shape(lanes=1, block=32), schedule={"seed": 1})  # fmt: skip


def test_log_probs_of_few_frames_with_little_room_for_answers():
    """A frame that waits for answers, or for room for questions, is given up and leaves no trace."""
    for place in placed.ASKED:
        assert check(place, random_boosts(GRAPH, 2), BATCH[2:4], every=0, schedule={"seed": 3}, **LITTLE).launches > 5
