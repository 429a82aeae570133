"""Posteriors of the words of partial results: against all live paths of the oracles, and the invariances."""

import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import Boost, CtcDecoder, Graph, SymbolTable
from arcbeam.ctc import engines
from arcbeam.ctc.cpu._decode import CpuStream
from tests.decode import graphs, oracle, rescoring_oracle, test_boost, test_endpoints, test_new_words
from tests.decode.boost_oracle import Boosts
from tests.decode.test_new_words import open_graphs
from tests.decode.test_rescoring import WORDS, language_models, with_words
from tests.decode.test_stream_lattices import ASKED
from tests.decode.test_stream_states import decoders  # noqa: F401 - a fixture
from tests.decode.test_streams import BATCH, DECODERS, GRAPH, OPTIONS, boost, in_chunks
from tests.hypothesis_examples import examples

slow = settings(deadline=None, max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
NEVER_MORE = [0.5, 2.0, 17.0, math.inf]
SCALES = [0.0, 0.3, 1.0]  # with 0 all paths weigh the same, so that sums are exact
PIECES = ["<eps>", "\u2581a", "b", "\u2581"]

pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


def by_hand(words, paths, scale):
    """The posterior of each of the words by (cost, words) of all paths."""
    best = min(cost for cost, _ in paths)
    weights = [(math.exp(-scale * (float(cost) - float(best))), said) for cost, said in paths]
    total = math.fsum(weight for weight, _ in weights)
    begun = [words[: count + 1] for count in range(len(words))]
    return [math.fsum(one for one, said in weights if said[: len(all_)] == all_) / total for all_ in begun]


def check(partial, words, paths, scale):
    """That a result has the posteriors of its words by all paths."""
    found, wanted = partial.posteriors, by_hand(words, paths, scale)
    assert found.dtype == np.float64 and len(found) == len(partial.words) == len(words)
    if partial.is_final:
        assert found.tolist() == [1.0] * len(words)
        return
    if scale == 0.0:
        assert found.tolist() == wanted
    assert found.tolist() == pytest.approx(wanted, rel=1e-12, abs=1e-300)
    assert np.all(found[: partial.num_stable] == 1.0)
    assert np.all(found <= 1.0) and np.all(found >= 0.0) and np.all(np.diff(found) <= 0.0)


def ids_along(graph, arcs):
    return [int(graph.words[arc]) for arc in arcs if graph.words[arc]]


def pieces_along(graph, arcs):
    return "".join(PIECES[label] for label in ids_along(graph, arcs)).replace("\u2581", " ").split()


def followed(stream, log_probs, data):
    """The result after each of some chunks, and the frames up to it; the last one is final."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(log_probs)), max_size=4)))
    for begin, end in itertools.pairwise([0, *cuts, len(log_probs)]):
        yield stream.decode_chunk(log_probs[begin:end]), log_probs[:end]
    yield stream.finish(), log_probs


@slow
@given(
    st.data(),
    graphs.graphs(blank=3),
    graphs.log_probs(max_frames=8),
    st.sampled_from([0.0, *NEVER_MORE]),
    st.sampled_from([None, 1, 3]),
    st.sampled_from(SCALES),
    st.sampled_from([{}, {"lattice": True}]),
)
def test_all_live_paths(data, graph, log_probs, beam, max_active, scale, asked):
    """Dead ends and ties, searches that die, and streams that keep lattices, too."""
    options = {"beam": beam, "max_active": max_active}
    one = CtcDecoder(graph, posterior_scale=scale, device="cpu", threads=1, **options)
    for partial, heard in followed(one.stream(posteriors=True, **asked), log_probs, data):
        tokens, *_ = oracle.search(graph, heard, **options)
        paths = [(token.cost, ids_along(graph, token.path)) for token in tokens.values()]
        check(partial, ids_along(graph, partial.arcs), paths, scale)


@slow
@given(st.data(), graphs.graphs(), graphs.log_probs(max_frames=8), st.sampled_from(SCALES))
def test_words_made_of_pieces(data, graph, log_probs, scale):
    """Several sequences of pieces may make the same words, and a word may go on."""
    fields = {"join": "pieces", "separator": "\u2581", "word_symbols": SymbolTable.from_list(PIECES)}
    graph = Graph(**graph.fields() | fields)
    one = CtcDecoder(graph, beam=17.0, posterior_scale=scale, device="cpu", threads=1)
    for partial, heard in followed(one.stream(posteriors=True), log_probs, data):
        tokens, *_ = oracle.search(graph, heard, beam=17.0)
        paths = [(token.cost, pieces_along(graph, token.path)) for token in tokens.values()]
        check(partial, [word.word for word in partial.words], paths, scale)


@slow
@given(
    st.data(),
    graphs.graphs(blank=3),
    test_boost.PHRASES,
    language_models(),
    graphs.log_probs(max_frames=8),
    st.sampled_from(NEVER_MORE),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([(False, True), (True, False), (True, True)]),
    st.sampled_from(SCALES),
)
def test_boosted_and_rescored(data, graph, phrases, models, log_probs, beam, n, kind, scale):
    """What a boost has given for an unfinished phrase is taken off; tokens of one state differ by their histories."""
    large, small = models
    graph = with_words(graph, small)
    list_, known = test_boost.boost_of(graph, phrases)
    is_rescored, is_boosted = kind
    deviations, options, given_ = None, {"beam": beam}, {}
    if is_rescored:
        deviations = rescoring_oracle.Deviations(graph, large, small)
        given_ = {"language_model": large, "graph_language_model": small}
        options["hypotheses_per_state"] = n
    added = Boosts(known, deviations) if is_boosted else deviations
    one = CtcDecoder(graph, posterior_scale=scale, device="cpu", threads=1, **given_, **options)
    stream = one.stream(posteriors=True, boost=list_ if is_boosted else None)
    for partial, heard in followed(stream, log_probs, data):
        tokens, *_ = rescoring_oracle.search(graph, added, heard, **options)
        ends = rescoring_oracle.unfinished(added, tokens).values()
        paths = [(token.cost, ids_along(graph, token.path)) for token in ends]
        check(partial, ids_along(graph, partial.arcs), paths, scale)


@slow
@given(st.data(), open_graphs(), test_new_words.PHRASES, graphs.log_probs(max_frames=8), st.sampled_from(SCALES))
def test_new_words_of_a_request(data, graph, phrases, log_probs, scale):
    list_, known, whole = test_new_words.boost_of(graph, phrases)
    added = Boosts(known)
    one = CtcDecoder(graph, beam=17.0, posterior_scale=scale, device="cpu", threads=1)
    for partial, heard in followed(one.stream(posteriors=True, boost=list_), log_probs, data):
        tokens, *_ = rescoring_oracle.search(whole, added, heard, beam=17.0)
        ends = rescoring_oracle.unfinished(added, tokens).values()
        paths = [(token.cost, ids_along(whole, token.path)) for token in ends]
        check(partial, ids_along(whole, partial.arcs), paths, scale)


def line(words):
    """A graph that writes each of the words on the first frame, from label 1 on, and stays there."""
    arcs = [(0, at, at, at, 0.0) for at in range(1, len(words) + 1)]
    arcs += [(at, at, len(words) + 1, 0, 0.0) for at in range(1, len(words) + 1)]
    return Graph.from_arcs(
        arcs, start=0, finals={1: 0.0}, num_columns=len(words) + 1,
        word_symbols=SymbolTable.from_list(["<eps>", *words]),
    )  # fmt: skip


def test_by_hand():
    """Two paths of the probabilities 3/4 and 1/4; a phrase that is begun counts for nothing."""
    one = CtcDecoder(line(WORDS), device="cpu", posterior_scale=1.0)
    rows = np.log(np.array([[0.75, 0.25, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]], np.float32) + np.float32(1e-30))
    for phrases in {}, {"b c": 2.0}:
        stream = one.stream(posteriors=True, boost=Boost(phrases) if phrases else None)
        partial = stream.decode_chunk(rows)
        assert partial.text == "a" and partial.num_stable == 0
        assert partial.posteriors.tolist() == pytest.approx([0.75], rel=1e-6)
    assert stream.finish().posteriors.tolist() == [1.0]


def by_place(partials):
    """The posteriors after each number of frames, as bytes, of results that are not final."""
    return [{one.num_frames: one.posteriors.tobytes() for one in of if not one.is_final} for of in partials]


@pytest.mark.parametrize("boosted", [False, True])
@pytest.mark.parametrize("kind", DECODERS)
def test_chunks_company_threads_and_collections_change_nothing(monkeypatch, kind, boosted):
    """Nor whether streams keep lattices."""
    boosts = [boost(i) if i % 3 else None for i in range(len(BATCH))] if boosted else None
    found, seen = [{} for _ in BATCH], 0
    for seed, (collect, asked) in enumerate([(32, {}), (32, ASKED), (1 << 20, {}), (1 << 20, {"lattice": True})] * 2):
        monkeypatch.setattr(engines, "COLLECT_ABOVE", collect)
        _, partials = in_chunks(DECODERS[kind](), BATCH, np.random.default_rng(seed), boosts, posteriors=True, **asked)
        for known, others in zip(found, by_place(partials), strict=True):
            for frames, posteriors in others.items():
                seen += known.setdefault(frames, posteriors) is not posteriors and len(posteriors) > 0
                assert known[frames] == posteriors
    assert seen > 40
    shares = np.concatenate([np.frombuffer(one) for known in found for one in known.values()])
    assert np.any((shares > 0.0) & (shares < 1.0)) and np.all((shares >= 0.0) & (shares <= 1.0))


def test_results_keep_theirs():
    """However late they are looked at, whatever came after, and pickled."""
    one = CtcDecoder(GRAPH, **OPTIONS)
    stream, at_once = one.stream(posteriors=True), one.stream(posteriors=True)
    chunks = np.array_split(BATCH[5], 8)
    wanted = [at_once.decode_chunk(chunk).posteriors.tobytes() for chunk in chunks]
    partials = [stream.decode_chunk(chunk) for chunk in chunks]
    stream.finish()
    assert [pickle.loads(pickle.dumps(partial)).posteriors.tobytes() for partial in partials] == wanted
    assert [partial.posteriors.tobytes() for partial in partials] == wanted
    assert partials[3].to_dict()["posteriors"] == partials[3].posteriors.tolist() != []


def test_sentences():
    """Each has its own; at an endpoint all words are settled."""
    one = CtcDecoder(test_endpoints.SILENCE, **test_endpoints.OPTIONS)
    stream, ended, open_ = one.stream(endpoint=test_endpoints.RULES, posteriors=True), 0, 0
    for chunk in np.array_split(test_endpoints.SPEECH, 20):
        partial = stream.decode_chunk(chunk)
        while partial.endpoint:
            assert partial.posteriors.tolist() == [1.0] * len(partial.words)
            ended += 1
            partial = stream.reset()
        assert len(partial.posteriors) == len(partial.words)
        open_ += np.any(partial.posteriors < 1.0)
    assert ended > 3 and open_ > 3


def test_who_does_not_ask_pays_nothing():
    one = CtcDecoder(GRAPH, **OPTIONS)
    streams = [one.stream(), one.stream(posteriors=True), one.stream(lattice=True)]
    partials = one.decode_chunks(streams, [BATCH[5][:20]] * 3)
    assert partials[0].posteriors is partials[2].posteriors is None
    assert len(partials[1].posteriors) == len(partials[1].words) > 0
    assert list(partials[0]._results.live) == [1]
    assert "posteriors" not in partials[0].to_dict()


def test_refused_chunks():
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    stream = decoder.stream(posteriors=True)
    before = stream.decode_chunk(BATCH[5][:20])
    wrong = np.full_like(BATCH[5][:5], np.nan)
    [refused] = decoder.decode_chunks([stream], [wrong], errors="return")
    assert refused.error is not None and refused.posteriors.tolist() == []
    assert stream.partial is before and len(before.posteriors) > 0


class Short(CpuStream):
    """A sentence for whose copy there is no memory."""

    def search(self):
        raise MemoryError("no room for what is alive")


def test_too_little_memory_for_a_copy(monkeypatch):
    """The stream goes on; the results of such rounds say so when they are asked."""
    one = CtcDecoder(GRAPH, **OPTIONS)
    wanted = one.stream(posteriors=True).decode_chunk(BATCH[5][:30])
    monkeypatch.setattr(one._chunks, "new_sentence", lambda *_: Short(None))
    stream = one.stream(posteriors=True)
    partial = stream.decode_chunk(BATCH[5][:30])
    assert (partial.text, partial.num_stable) == (wanted.text, wanted.num_stable)
    for _ in range(2):
        with pytest.raises(MemoryError, match="no room for what is alive"):
            _ = partial.posteriors
    final = stream.decode_chunk(BATCH[5][30:], last=True)
    assert final.words == one.decode([BATCH[5]])[0].words and np.all(final.posteriors == 1.0)


@pytest.mark.parametrize("wrong", [1, None, "yes"])
def test_wrong_types(wrong):
    one = CtcDecoder(GRAPH, **OPTIONS)
    for call in one.stream, lambda **options: one.restore(b"", **options):
        with pytest.raises(TypeError, match=rf"posteriors: expected a bool, got {type(wrong).__name__}"):
            call(posteriors=wrong)
