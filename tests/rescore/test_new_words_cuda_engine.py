"""New words: the GPU's engine gives the CPU's bytes."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import Boost, CtcDecoder, Endpoint, EndpointRule, Graph
from tests.decode import graphs, small_search
from tests.decode.emulated_gpu import TIGHT
from tests.decode.equality import same
from tests.decode.lattices import lattices, packed
from tests.decode.moving import beside
from tests.decode.random_graphs import random_log_probs
from tests.decode.small_search import ROOMY
from tests.decode.test_lattice import BEAMS
from tests.decode.test_new_words import NEW, PHRASES, boost_of, open_graphs, said, small_graph
from tests.decode.test_rescoring import language_models
from tests.decode.test_stream_states import with_moves
from tests.decode.test_streams_emulated import on_both, seen
from tests.hypothesis_examples import examples
from tests.rescore import searches
from tests.rescore.placed import PLACES, kenlm

BATCH = [graphs.random_log_probs(seed, frames, columns=4, sharpness=2.0) for seed, frames in enumerate((8, 0, 13, 5))]


def both(graph, **options):
    return (CtcDecoder(graph, device=device, **options) for device in ("cuda", "cpu"))


def equal(on_gpu, on_cpu, batch, boost):
    """Asserts equal paths, words and lattices; returns the hypotheses."""
    found, wanted = (one.decode(batch, boost=boost) for one in (on_gpu, on_cpu))
    same(found, wanted)
    assert [one.words for one in found] == [one.words for one in wanted]
    got, of_cpu = (lattices(one, batch, boost=boost) for one in (on_gpu, on_cpu))
    assert [packed(lattice) for lattice in got] == [packed(lattice) for lattice in of_cpu]
    return found


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    open_graphs(),
    st.lists(PHRASES, min_size=1, max_size=3),
    st.lists(graphs.log_probs(), min_size=1, max_size=4),
    st.sampled_from([0.5, 2.0, 17.0, math.inf]),
    st.sampled_from(BEAMS),
    st.sampled_from([None, None, 1, 4]),
)
def test_random_graphs(emulated_gpu, graph, phrases, batch, beam, lattice_beam, max_active):
    """Utterances of one batch have lists of their own, with new words or without, or none."""
    emulated_gpu.begin_with(TIGHT)
    lists = [boost_of(graph, one)[0] for one in phrases] + [None]
    boosts = [lists[at % len(lists)] for at in range(len(batch))]
    equal(*both(graph, beam=beam, max_active=max_active, lattice_beam=lattice_beam), batch, boosts)


@pytest.mark.parametrize("room", [TIGHT, ROOMY])
def test_words_are_found(emulated_gpu, room):
    """Some hypotheses have new words, with times, confidences and alternatives; some lists have none."""
    emulated_gpu.begin_with(room)
    found = 0
    for seed in range(8):
        graph = small_graph(seed, **({"topology": "normal"} if seed % 2 else {}))
        on_gpu, on_cpu = both(graph, beam=20.0, frame_shift=0.04)
        boosts = [Boost({NEW[seed % 6]: 6.0, NEW[(seed + 1) % 6]: 6.0}), Boost(["zz"]), Boost({"xx": 5.0}), None]
        got = equal(on_gpu, on_cpu, BATCH, boosts)
        found += sum(word.word in NEW for one in got for word in one.words)
        requested = {"nbest": 3, "confidence": True, "boost": boosts}
        for one, other in zip(on_gpu.decode(BATCH, **requested), on_cpu.decode(BATCH, **requested), strict=True):
            assert one.words == other.words
            assert [entry.text for entry in one.nbest] == [entry.text for entry in other.nbest]
        same(on_gpu.decode(BATCH), on_cpu.decode(BATCH))  # the next batch has none
        equal(on_gpu, on_cpu, BATCH, Boost({"a": 1.0}))
    assert found > 20


def test_log_probs_that_come_in_parts(emulated_gpu):
    emulated_gpu.begin_with(TIGHT)
    emulated_gpu.send_in_parts()
    on_gpu, on_cpu = both(small_graph(3), beam=20.0)
    equal(on_gpu, on_cpu, BATCH, [Boost({word: 5.0}) for word in NEW[: len(BATCH)]])


def test_graphs_of_any_number_of_arcs(emulated_gpu):
    """A request's labels begin in the middle of a chunk, or at its begin."""
    emulated_gpu.begin_with(ROOMY)
    for more in range(9):
        graph = small_graph(2, more=more)
        equal(*both(graph, beam=20.0), BATCH, [Boost({"zz": 6.0}), None, Boost({"xy": 6.0, "y": 3.0}), Boost(["c"])])


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    open_graphs(),
    st.lists(PHRASES, min_size=1, max_size=2),
    st.lists(graphs.log_probs(max_frames=8), min_size=1, max_size=3),
    st.sampled_from([0.5, 2.0, 17.0]),
    st.sampled_from([TIGHT, ROOMY]),
    st.integers(0, 1000),
)
def test_streams_of_random_graphs(emulated_gpu, graph, phrases, batch, beam, room, seed):
    """In chunks of any length, in company with new words, with a list without, and without a list."""
    emulated_gpu.begin_with(room)
    lists = [*(boost_of(graph, one)[0] for one in phrases), None]
    boosts, rng = [lists[at % len(lists)] for at in range(len(batch))], np.random.default_rng(seed)
    on_both(batch, rng, boosts, graph, 4, beam=beam)
    decoders = list(both(graph, beam=beam))
    same(with_moves(decoders, batch, rng, boosts, most=4), decoders[1].decode(batch, boost=boosts))
    beside(decoders, batch, rng, boosts, most=4)


PAUSE = Endpoint({
    "pause": EndpointRule(min_trailing_silence=0.3),
    "long": EndpointRule(min_trailing_silence=0.0, min_utterance_length=1.2),
})  # fmt: skip


def sentences(seed, **options):
    """Streams that end at pauses and move between a GPU and a CPU; some have new words. Returns how many were found."""
    graph = small_graph(seed)
    decoders = list(both(graph, beam=20.0, frame_shift=0.1, **options))
    rng, pause = np.random.default_rng(seed), said("------")
    boosts = [Boost({"zz": 6.0, "xy": 6.0}), Boost({"x": 5.0}), None, Boost(["a"])]
    speech = [np.concatenate([random_log_probs(9 * seed + i, 9, 4, sharpness=2.0), pause] * 2) for i in range(4)]
    streams = [
        [decoder.stream(boost=one, endpoint=PAUSE if i != 1 else None) for i, one in enumerate(boosts)]
        for decoder in decoders
    ]
    found, fired = 0, set()
    for at in range(0, 30, 6):
        parts = [one[at : at + 6] for one in speech]
        got, wanted = (
            decoder.decode_chunks(own, parts, last=at == 24) for decoder, own in zip(decoders, streams, strict=True)
        )
        assert list(map(seen, got)) == list(map(seen, wanted))
        found += sum(word.word in NEW for one in got for word in one.words)
        for i, (mine, other) in enumerate(zip(*streams, strict=True)):
            fired.add(mine.partial.endpoint)
            if mine.partial.endpoint and not mine.is_finished:
                assert seen(mine.reset()) == seen(other.reset())
            data = mine.save()
            assert data == other.save()
            if rng.random() < 0.5:
                streams[0][i], streams[1][i] = (decoder.restore(data, boost=boosts[i]) for decoder in decoders)
                assert streams[0][i].save() == data
    assert fired >= {None, "pause"}
    return found


@pytest.mark.parametrize("room", [TIGHT, ROOMY])
def test_sentences(emulated_gpu, room):
    emulated_gpu.begin_with(room)
    assert sum(sentences(seed) for seed in range(3)) > 10


@pytest.mark.parametrize("room", [TIGHT, ROOMY])
@pytest.mark.parametrize("place", PLACES)
def test_with_a_language_model(emulated_gpu, place, room):
    """Paths, lattices, n-best lists and streams, wherever the model is."""
    emulated_gpu.begin_with(room)
    with_a_language_model(place)


def with_a_language_model(place):
    models = {"language_model": kenlm() if place == "kenlm" else searches.LARGE, "unknown_words": "unk"}
    given = models | {"graph_language_model": searches.SMALL, "beam": 6.0, "max_active": 40, "hypotheses_per_state": 3}
    on_gpu = CtcDecoder(searches.OPEN_OVER, device="cuda", **given | PLACES[place])
    on_cpu = CtcDecoder(searches.OPEN_OVER, device="cpu", **given)
    boosts = [one if at != 2 else None for at, one in enumerate(searches.new_words(searches.OPEN, 5))]
    found = equal(on_gpu, on_cpu, small_search.BATCH, boosts)
    assert on_gpu.stats.lookups == on_cpu.stats.lookups
    assert [one.rescoring_score for one in found] == [
        one.rescoring_score for one in on_cpu.decode(small_search.BATCH, boost=boosts)
    ]
    assert any((one.arcs >= searches.OPEN_OVER.num_arcs).any() for one in found)
    rng = np.random.default_rng(1)
    on_both(small_search.BATCH, rng, boosts, searches.OPEN_OVER, where=PLACES[place], **given)
    same(with_moves([on_gpu, on_cpu], small_search.BATCH, rng, boosts), on_cpu.decode(small_search.BATCH, boost=boosts))
    same(on_gpu.decode(small_search.BATCH), on_cpu.decode(small_search.BATCH))  # the next batch has none


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    open_graphs(),
    language_models(),
    PHRASES,
    st.lists(graphs.log_probs(), min_size=1, max_size=3),
    st.sampled_from([0.5, 2.0, 17.0]),
    st.sampled_from(BEAMS),
    st.sampled_from([None, 1, 3]),
    st.sampled_from([name for name in PLACES if name != "kenlm"]),
)
def test_random_graphs_with_a_language_model(emulated_gpu, graph, models, phrases, batch, beam, lattice_beam, n, place):
    emulated_gpu.begin_with(TIGHT)
    large, small = models
    graph = Graph(**graph.fields() | {"meta": graph.meta | {"lm_digest": small.digest}})
    boost, _, _ = boost_of(graph, phrases)
    given = {"language_model": large, "graph_language_model": small, "beam": beam, "lattice_beam": lattice_beam}
    given |= {"hypotheses_per_state": n}
    on_gpu = CtcDecoder(graph, device="cuda", **given | PLACES[place])
    equal(on_gpu, CtcDecoder(graph, device="cpu", **given), batch, [boost, None, boost][: len(batch)])


def test_lists_without_new_words_take_the_kernels_of_other_graphs(emulated_gpu):
    emulated_gpu.begin_with(ROOMY)
    on_gpu = CtcDecoder(small_graph(1), device="cuda")
    for boost in (None, Boost(["a"]), Boost(["zz"]), Boost(["a"])):
        on_gpu.decode(BATCH, boost=boost)
    assert list(dict.fromkeys(emulated_gpu.searches)) == ["search", "boosted", "new_words"]
    assert emulated_gpu.searches[-1] == "boosted"
