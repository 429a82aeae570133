"""The search with boosts and a large language model on a GPU gives the CPU's bytes, whatever the schedule."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbeam import Boost, CtcDecoder, Graph, UnsupportedError
from arcbeam.ctc.gpu.models import _models
from arcbeam.gpu.tuned import search_plan
from tests.decode import graphs
from tests.decode.emulated_gpu import Shape
from tests.decode.equality import same
from tests.decode.language_models import WORDS, all_costs_equal, over, rough_models
from tests.decode.lattices import lattices, packed
from tests.decode.small_search import BATCH, ROOMY
from tests.decode.test_boost import DEPTH_SCALINGS, PHRASES, boost_of
from tests.decode.test_lattice import BEAMS
from tests.decode.test_rescoring import language_models, with_words
from tests.hypothesis_examples import examples
from tests.rescore.placed import PLACES, check, kenlm
from tests.rescore.test_boost_emulated import random_boosts
from tests.simt.build import schedules

MODELS = rough_models(4)
GRAPH = over(graphs.random_graph(4, states=120, columns=12), MODELS[1])
SCHEDULED = ("resident", "cached", "bucketed")
# For the states of the small model and of the boost; 64 - 24 are left for those of the large one.
BITS = (12, 12)

pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


@pytest.mark.parametrize(("n", "lattice_beam"), [(None, None), (2, None), (2, 4.0), (None, float("inf"))])
@pytest.mark.parametrize("place", SCHEDULED)
def test_schedules(place, n, lattice_beam):
    for number, schedule in enumerate(schedules(10)):
        check(
            GRAPH, MODELS, BATCH[:3], boost=random_boosts(3), bits=BITS, beam=6.0, max_active=40,
            hypotheses_per_state=n,
            lattice_beam=lattice_beam, room=ROOMY, lm_scale=0.75, schedule=schedule,
            shape=Shape(lanes=1 + number % 2, block=(32, 64)[number % 2]), place=place,
        )  # fmt: skip


@pytest.mark.parametrize("lattice_beam", [None, 4.0])
@pytest.mark.parametrize("place", SCHEDULED)
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


@settings(max_examples=examples(40), deadline=None)
@given(
    graphs.graphs(blank=3),
    language_models(),
    PHRASES,
    st.lists(graphs.log_probs(), min_size=1, max_size=4),
    st.sampled_from([0.5, 2.0, math.inf]),
    st.sampled_from([None, *BEAMS]),
    st.sampled_from([None, 1, 2, 4]),
    st.sampled_from(["resident", "bucketed", "arcs asked"]),
    DEPTH_SCALINGS,
    st.integers(0, 2**32),
)
def test_random_graphs(graph, models, phrases, batch, beam, lattice_beam, n, place, depth_scaling, seed):
    graph = with_words(graph, models[1])
    boost, _ = boost_of(graph, phrases, depth_scaling)
    check(
        graph, models, batch, place=place, boost=boost, beam=beam, acoustic_scale=0.5, hypotheses_per_state=n,
        lattice_beam=lattice_beam, shape=Shape(block=32), schedule={"seed": seed}, requests=16,
    )  # fmt: skip


def test_log_probs_that_come_in_parts():
    boosts = random_boosts(len(BATCH))
    check(GRAPH, MODELS, BATCH, boost=boosts, beam=6.0, lattice_beam=4.0, parts=(256, 1024, 512))


# What the engine keeps, and what it refuses


def decoders(where=PLACES["resident"], **options):
    given = {"language_model": MODELS[0], "graph_language_model": MODELS[1], "beam": 6.0, "max_active": 40} | options
    return CtcDecoder(GRAPH, device="cuda", **given | where), CtcDecoder(GRAPH, device="cpu", **given)


def equal(on_gpu, on_cpu, batch, boost):
    """Asserts equal paths and lattices, and what is derived of them; returns the hypotheses."""
    found, wanted = on_gpu.decode(batch, boost=boost), on_cpu.decode(batch, boost=boost)
    same(found, wanted)
    assert [(one.boosts, one.rescoring_score) for one in found] == [(one.boosts, one.rescoring_score) for one in wanted]
    got, wanted = lattices(on_gpu, batch, boost=boost), lattices(on_cpu, batch, boost=boost)
    assert [packed(lattice) for lattice in got] == [packed(lattice) for lattice in wanted]
    return found


@pytest.mark.parametrize("place", PLACES)
def test_some_utterances_and_batches_have_no_list(emulated_gpu, place):
    emulated_gpu.begin_with(ROOMY)
    emulated_gpu.plan(launch_shapes=lambda *_: (search_plan.DENSE, search_plan.WIDE))
    models = {"language_model": kenlm(), "unknown_words": "unk"} if place == "kenlm" else {}
    on_gpu, on_cpu = decoders(PLACES[place], hypotheses_per_state=2, **models)
    boosts = [Boost(dict.fromkeys(WORDS[::2], 6.0))] * (len(BATCH) - 1) + [None]
    found, plain = equal(on_gpu, on_cpu, BATCH, boosts), on_cpu.decode(BATCH)
    assert any(one.boosts for one in found)
    assert [one.text for one in found] != [one.text for one in plain]
    same(found[-1:], plain[-1:])
    same(on_gpu.decode(BATCH), plain)
    equal(on_gpu, on_cpu, BATCH, boosts[0])


def test_n_best_lists_have_boosts(emulated_gpu):
    emulated_gpu.begin_with(ROOMY)
    boosts = random_boosts(len(BATCH))
    got, wanted = ([one.nbest for one in decoder.decode(BATCH, boost=boosts, nbest=5)] for decoder in decoders())
    assert max(map(len, wanted)) > 2
    parts = lambda entries: [(one.text, one.score, one.rescoring_score, one.boosts) for one in entries]  # noqa: E731
    assert list(map(parts, got)) == list(map(parts, wanted))
    assert any(entry.boosts for entries in got for entry in entries)


def test_memory_counts_the_lists_and_is_given_back(emulated_gpu):
    emulated_gpu.begin_with(ROOMY)
    on_gpu, on_cpu = decoders()
    before, boost = on_gpu.memory(), random_boosts(1)[0]
    equal(on_gpu, on_cpu, BATCH, boost)
    assert on_gpu.memory().boosts > 0 and on_gpu.memory().language_models == before.language_models
    on_gpu.release()
    assert on_gpu.memory().lanes == 0
    equal(on_gpu, on_cpu, BATCH, boost)


def test_more_beginnings_than_a_history_has_room_for(emulated_gpu, monkeypatch):
    emulated_gpu.begin_with(ROOMY)
    on_gpu, on_cpu = decoders()
    assert _models.most_beginnings(1 << 31, 1 << 31) == 2
    assert _models.most_beginnings((1 << 25) + 1, 1 << 20) == 1 << 17
    assert _models.most_beginnings(1, 1) == 1 << 31
    assert _models.most_beginnings(1 << 28, 1 << 20) == 1 << 15  # of a KenLM
    boost = random_boosts(1)[0]
    beginnings = len(boost.compiled(GRAPH).states)
    monkeypatch.setattr(_models, "most_beginnings", lambda *states: beginnings)
    equal(on_gpu, on_cpu, BATCH, boost)
    monkeypatch.setattr(_models, "most_beginnings", lambda *states: beginnings - 1)
    told = f"at most {beginnings - 1} different beginnings.*got {beginnings} in the list of utterance 1;"
    with pytest.raises(UnsupportedError, match=told):
        on_gpu.decode(BATCH, boost=[None, *[boost] * (len(BATCH) - 1)])
