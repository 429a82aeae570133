"""A stream gives the bytes of the whole, in any chunks and company, wherever it moves and whatever its outputs."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import Batcher, CtcDecoder, Endpoint, EndpointRule, Graph
from arcbeam.ctc import engines
from arcbeam.gpu.tuned import search_plan
from tests.decode import graphs, test_endpoints
from tests.decode.emulated_gpu import TIGHT
from tests.decode.moving import REQUESTED, agree
from tests.decode.small_search import ROOMY
from tests.decode.test_endpoints import RULES, SPEECH
from tests.decode.test_new_words import PHRASES, boost_of, open_graphs
from tests.decode.test_stream_states import KINDS, decoders
from tests.decode.test_streams import BATCH, GRAPH, OPTIONS, boost
from tests.decode.wholes import conform
from tests.hypothesis_examples import IS_INSTRUMENTED, examples

__all__ = ["decoders"]  # a fixture
slow = settings(
    deadline=None, max_examples=examples(150),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip
POSTERIORS = [{"posteriors": True}, {"posteriors": True, "lattice": True, "interim_answers": True}]
OUTPUTS = pytest.mark.parametrize(
    "requested", [[{}], REQUESTED, POSTERIORS], ids=["best paths", "lattices", "posteriors"]
)

pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


@OUTPUTS
@pytest.mark.parametrize("collect", [64, engines.COLLECT_ABOVE])
@pytest.mark.parametrize("boosted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_chunks_and_moves(monkeypatch, decoders, kind, boosted, collect, requested):
    monkeypatch.setattr(engines, "COLLECT_ABOVE", collect)
    places = [decoders(kind), decoders(kind, threads=1)]
    boosts = [boost(i) if i % 3 else None for i in range(len(BATCH))] if boosted else None
    for seed, share in ((0, 0.0), (1, 0.4)):
        conform(places, BATCH, np.random.default_rng(seed), boosts, requested=requested, share=share)


@OUTPUTS
@pytest.mark.parametrize("boosted", [False, True])
@pytest.mark.parametrize("kind", test_endpoints.DECODERS)
def test_sentences(kind, boosted, requested):
    """Endpoints and resets, frames that wait, time that goes on, and chunks that are refused."""
    places = [test_endpoints.DECODERS[kind]() for _ in range(2)]
    batch = [np.roll(SPEECH, 20 * i, axis=0)[: 140 - 30 * i] for i in range(3)]
    boosts, waited = [boost(i) if i != 1 else None for i in range(len(batch))] if boosted else None, 0
    for most in (12, 200) if IS_INSTRUMENTED else (3, 12, 200):
        rng = np.random.default_rng(most)
        pairs = conform(places, batch, rng, boosts, most, RULES, requested, share=0.6, refused=0.1)
        assert {final.endpoint for pair in pairs for final in pair.finals} >= {"pause", "end"}
        assert len(pairs[0].finals) > 4
        waited += sum(pair.waited for pair in pairs)
    assert waited > 3


def test_searches_that_have_died():
    silence = np.full((4, BATCH[5].shape[1]), -np.inf, np.float32)
    speech = np.concatenate([BATCH[5][:12], silence, BATCH[5][12:]])
    pairs = conform([CtcDecoder(GRAPH, **OPTIONS)], [speech] * 4, np.random.default_rng(1))
    assert sum(pair.died for pair in pairs) > 3


@pytest.fixture(params=["cpu", "cuda"])
def places(request):
    """Makes two decoders, of which the first may be one on an emulated GPU."""
    gpu = request.getfixturevalue("emulated_gpu") if request.param == "cuda" else None

    def make(data, graph, **options):
        if gpu is not None:
            gpu.begin_with(data.draw(st.sampled_from([TIGHT, ROOMY])))
            gpu.plan(STREAM_PRUNE_ABOVE=data.draw(st.sampled_from([0, 8, search_plan.STREAM_PRUNE_ABOVE])))
        return [CtcDecoder(graph, device=device, **options) for device in (request.param, "cpu")]

    return make


@slow
@given(
    st.data(),
    graphs.graphs(blank=3),
    st.lists(graphs.log_probs(max_frames=16), min_size=1, max_size=3),
    st.sampled_from([0.0, 0.5, 2.0, 30.0]),
    st.sampled_from([0.0, 2.0, 99.0, math.inf]),
    st.sampled_from([0.07, 0.1, 0.25]),
)
def test_any_graph(places, data, graph, batch, beam, lattice_beam, shift):
    """Graphs without ends, searches that die, ties of costs, and rules that hold at once."""
    options = {"beam": beam, "lattice_beam": lattice_beam, "max_active": data.draw(st.sampled_from([1, 3, None]))}
    rule = st.builds(
        EndpointRule,
        must_contain_nonsilence=st.booleans(),
        min_trailing_silence=st.sampled_from([0.0, shift, 2 * shift, 5 * shift]),
        min_utterance_length=st.sampled_from([0.0, 3 * shift]),
        max_relative_cost=st.sampled_from([0.0, 0.5, 1.0, math.inf]),
    )
    rules = data.draw(st.one_of(st.none(), st.dictionaries(st.sampled_from("abc"), rule, min_size=1).map(Endpoint)))
    requested = data.draw(st.sampled_from([[{}], REQUESTED, POSTERIORS]))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    conform(places(data, graph, frame_shift=shift, **options), batch, rng, None, 4, rules, requested, share=0.3)


@slow
@given(st.data(), open_graphs(), PHRASES, st.lists(graphs.log_probs(max_frames=8), min_size=1, max_size=3))
def test_new_words(data, graph, phrases, batch):
    """Words that only a stream's boost knows."""
    own, _, _ = boost_of(graph, phrases)
    one = CtcDecoder(graph, beam=data.draw(st.sampled_from([0.5, 17.0])), device="cpu", threads=1, frame_shift=0.25)
    boosts = [own if i % 2 == 0 else None for i in range(len(batch))]
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    conform([one], batch, rng, boosts, most=4, requested=data.draw(st.sampled_from([[{}], REQUESTED])))


def test_a_batcher_passes_all_of_it_on(device):
    """Results on the way and at the end, whatever the outputs; a chunk that is refused is its own alone."""
    decoder = CtcDecoder(Graph(**GRAPH.fields() | {"blank": 0}), **OPTIONS | {"device": device})
    methods = [{"frame_confidence": "entropy"}, {"frame_confidence": "max_prob"}]
    requested = [{}, *REQUESTED, {"posteriors": True}, *methods]
    streams, alone = ([decoder.stream(**outputs) for outputs in requested] for _ in range(2))
    with Batcher(decoder, max_wait_ms=1) as batcher:
        for at, chunk in enumerate(np.array_split(BATCH[5], 3)):
            bad = batcher.submit(decoder.stream(frame_confidence="entropy"), np.full_like(chunk, np.nan))
            futures = [batcher.submit(stream, chunk, last=at == 2) for stream in streams]
            for future, stream in zip(futures, alone, strict=True):
                agree(future.result(60), stream.decode_chunk(chunk, last=at == 2))
            with pytest.raises(ValueError, match="got nan"):
                bad.result(60)
