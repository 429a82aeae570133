"""Boosts with a large language model: the GPU's engine gives the CPU's bytes, in every placement that takes them."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import Boost, CtcDecoder, UnsupportedError
from arcbeam.ctc.gpu.models import _models
from arcbeam.gpu.tuned import search_plan
from tests.decode import graphs
from tests.decode.emulated_gpu import TIGHT
from tests.decode.equality import same
from tests.decode.lattices import lattices, packed
from tests.decode.test_boost import DEPTH_SCALINGS, PHRASES, boost_of
from tests.decode.test_lattice import BEAMS
from tests.decode.test_rescoring import language_models, with_words
from tests.hypothesis_examples import examples
from tests.rescore.test_lattice_cuda_engine import PLACES
from tests.rescore.test_new_words_rescored_emulated import kenlm
from tests.rescore.test_rescore_cuda_engine import BATCH, GRAPH, MODELS, OPTIONS, ROOMY, WORDS

TAKEN = PLACES | {"index on the device": {"placement": "host-direct", "arc_cache": 512}}
pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


def random_boost(seed, count=40):
    rng = np.random.default_rng(seed)
    phrases = {" ".join(rng.choice(WORDS, rng.integers(1, 4))): float(rng.normal(2.0, 3.0)) for _ in range(count)}
    return Boost(phrases)


def decoders(graph=GRAPH, where=TAKEN["resident"], **options):
    given = MODELS | OPTIONS | options
    return CtcDecoder(graph, device="cuda", **(given | where)), CtcDecoder(graph, device="cpu", **given)


def equal(on_gpu, on_cpu, batch, boost):
    """Asserts equal paths and lattices, and what is derived of them; returns the hypotheses."""
    found, wanted = on_gpu.decode(batch, boost=boost), on_cpu.decode(batch, boost=boost)
    same(found, wanted)
    assert [(one.boosts, one.rescoring_score) for one in found] == [(one.boosts, one.rescoring_score) for one in wanted]
    assert on_gpu.stats.lookups == on_cpu.stats.lookups
    got, wanted = lattices(on_gpu, batch, boost=boost), lattices(on_cpu, batch, boost=boost)
    assert [packed(lattice) for lattice in got] == [packed(lattice) for lattice in wanted]
    return found


@pytest.mark.parametrize("n", [2, None])
@pytest.mark.parametrize("room", [TIGHT, ROOMY])
@pytest.mark.parametrize("place", TAKEN)
def test_equal_bytes(emulated_gpu, place, room, n, monkeypatch):
    emulated_gpu.begin_with(room)
    monkeypatch.setattr(search_plan, "launch_shapes", lambda *_: (search_plan.DENSE, search_plan.WIDE))
    models = {"language_model": kenlm(), "unknown_words": "unk"} if place == "kenlm" else {}
    on_gpu, on_cpu = decoders(where=TAKEN[place], hypotheses_per_state=n, **models)
    boosts = [random_boost(seed) for seed in range(len(BATCH))]
    boosts[2] = None
    found = equal(on_gpu, on_cpu, BATCH, boosts)
    assert sum(len(one.boosts) for one in found) > 1
    plain = on_cpu.decode(BATCH)
    assert [one.text for one in found] != [one.text for one in plain]
    same([found[2]], [plain[2]])
    same(on_gpu.decode(BATCH), plain)  # the next batch has none
    equal(on_gpu, on_cpu, BATCH, boosts[0])
    assert emulated_gpu.errors == []


def test_n_best_lists_have_boosts(emulated_gpu):
    emulated_gpu.begin_with(ROOMY)
    boosts = [random_boost(seed) for seed in range(len(BATCH))]
    got, wanted = ([one.nbest for one in decoder.decode(BATCH, boost=boosts, nbest=5)] for decoder in decoders())
    assert max(map(len, wanted)) > 2
    parts = lambda entries: [(one.text, one.score, one.rescoring_score, one.boosts) for one in entries]  # noqa: E731
    assert list(map(parts, got)) == list(map(parts, wanted))
    assert any(entry.boosts for entries in got for entry in entries)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    graphs.graphs(blank=3),
    language_models(),
    PHRASES,
    st.lists(graphs.log_probs(), min_size=1, max_size=4),
    st.sampled_from([0.5, 2.0, math.inf]),
    st.sampled_from(BEAMS),
    st.sampled_from([None, 1, 2, 4]),
    st.sampled_from(["resident", "bucketed", "arcs asked"]),
    DEPTH_SCALINGS,
)
def test_random_graphs(emulated_gpu, graph, models, phrases, batch, beam, lattice_beam, n, place, depth_scaling):
    emulated_gpu.begin_with(TIGHT)
    graph = with_words(graph, models[1])
    boost, _ = boost_of(graph, phrases, depth_scaling)
    options = {"language_model": models[0], "graph_language_model": models[1], "beam": beam, "acoustic_scale": 0.5}
    options |= {"hypotheses_per_state": n, "lattice_beam": lattice_beam, "max_active": None}
    equal(*decoders(graph, TAKEN[place], **options), batch, boost)


def test_log_probs_that_come_in_parts(emulated_gpu):
    emulated_gpu.begin_with(TIGHT)
    emulated_gpu.send_in_parts()
    equal(*decoders(), BATCH, [random_boost(seed) for seed in range(len(BATCH))])


def test_memory_counts_the_lists_and_is_given_back(emulated_gpu):
    emulated_gpu.begin_with(ROOMY)
    on_gpu, on_cpu = decoders()
    before, boost = on_gpu.memory(), random_boost(1)
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
    boost = random_boost(1)
    beginnings = len(boost.compiled(GRAPH).states)
    monkeypatch.setattr(_models, "most_beginnings", lambda *states: beginnings)
    equal(on_gpu, on_cpu, BATCH, boost)
    monkeypatch.setattr(_models, "most_beginnings", lambda *states: beginnings - 1)
    told = f"at most {beginnings - 1} different beginnings.*got {beginnings} in the list of utterance 1;"
    with pytest.raises(UnsupportedError, match=told):
        on_gpu.decode(BATCH, boost=[None, *[boost] * (len(BATCH) - 1)])
