"""What streams give at the end of a sentence besides its best path: the bytes that decoding it as a whole gives."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import Boost, CtcDecoder, Graph, KenLM
from arcbeam.ctc import engines
from tests.decode import graphs, kenlm_files, lattice_oracle, rescoring_oracle, test_endpoints
from tests.decode.equality import as_the_oracle as path_as_the_oracle
from tests.decode.equality import same
from tests.decode.language_models import random_model
from tests.decode.lattices import packed
from tests.decode.test_endpoints import RULES, SPEECH, Following, FollowingKenLm, added
from tests.decode.test_lattice import as_the_oracle
from tests.decode.test_rescoring import WORDS, with_words
from tests.decode.test_rescoring import language_models as models_of_three_words
from tests.decode.test_rescoring_sentences import demo  # noqa: F401
from tests.decode.test_streams import BATCH, DECODERS, GRAPH, OPTIONS, boost, in_chunks, unending
from tests.decode.wholes import check
from tests.hypothesis_examples import examples

slow = settings(deadline=None, max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
REQUESTED = {"nbest": 4, "confidence": True, "lattice": True, "mbr": True}
pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


@pytest.mark.parametrize("kind", DECODERS)
@pytest.mark.parametrize("collect", [64, engines.COLLECT_ABOVE])
def test_on_the_way_nothing_differs(monkeypatch, kind, collect):
    """Partial results, stable words and what is settled are those of a stream without outputs."""
    monkeypatch.setattr(engines, "COLLECT_ABOVE", collect)
    decoder, rng = DECODERS[kind](), np.random.default_rng(1)
    for log_probs in BATCH:
        plain, richer = decoder.stream(boost=boost(2)), decoder.stream(boost=boost(2), lattice=True, nbest=3)
        for chunk in np.array_split(log_probs, rng.integers(1, 12)):
            one, other = plain.decode_chunk(chunk), richer.decode_chunk(chunk)
            assert (one.nbest, one.confidence, one.lattice, one.mbr) == (None,) * 4
            assert one.to_dict() == other.to_dict()
            assert plain.num_settled == richer.num_settled
            assert (one.stable_text, one.text) == (other.stable_text, other.text)
        same([richer.finish()], [plain.finish()])


@pytest.mark.parametrize("collect", [64, engines.COLLECT_ABOVE])
@pytest.mark.parametrize("boosted", [False, True])
@pytest.mark.parametrize("kind", DECODERS)
def test_interim_answers(monkeypatch, kind, boosted, collect):
    """They are those of the frames so far where no state is final; the end, and what is stable, stay as they are."""
    unfinished, wholes = DECODERS[kind](unending), DECODERS[kind]()
    boosts = [boost(i) if boosted and i % 3 else None for i in range(len(BATCH))]
    monkeypatch.setattr(engines, "COLLECT_ABOVE", collect)
    decoder = DECODERS[kind]()
    finals, partials = in_chunks(decoder, BATCH, np.random.default_rng(2), boosts, interim_answers=True, **REQUESTED)
    check(finals, wholes.decode(BATCH, boost=boosts, **REQUESTED))
    _, plain = in_chunks(decoder, BATCH, np.random.default_rng(2), boosts)
    several = 0
    for log_probs, one, found, others in zip(BATCH, boosts, partials, plain, strict=True):
        on_the_way = found[:-1]
        so_far = unfinished.decode([log_probs[: partial.num_frames] for partial in on_the_way], boost=one, **REQUESTED)
        check(on_the_way, so_far)
        several += sum(len(partial.nbest) > 1 for partial in on_the_way)
        for partial, other in zip(found, others, strict=True):
            assert (partial.text, partial.num_stable) == (other.text, other.num_stable)
            assert other.nbest is None
    assert several > 10


@slow
@given(st.data(), graphs.graphs(), st.lists(graphs.log_probs(max_frames=8), min_size=1, max_size=3))
def test_interim_answers_of_any_graph(data, graph, batch):
    beam, lattice_beam = data.draw(st.sampled_from([0.0, 0.5, 2.0, 30.0])), data.draw(st.sampled_from([0.0, 2.0, 99.0]))
    options = {"beam": beam, "lattice_beam": lattice_beam, "device": "cpu", "threads": 1, "frame_shift": 0.25}
    decoder, unfinished = CtcDecoder(graph, **options), CtcDecoder(unending(graph), **options)
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    finals, partials = in_chunks(decoder, batch, rng, most=4, interim_answers=True, **REQUESTED)
    check(finals, decoder.decode(batch, **REQUESTED))
    for log_probs, found in zip(batch, partials, strict=True):
        check(found[:-1], unfinished.decode([log_probs[: one.num_frames] for one in found[:-1]], **REQUESTED))


def test_interim_answers_now_and_then():
    """They come for the chunks for which they are wanted, also without frames; a word keeps its confidence there."""
    decoder, log_probs = CtcDecoder(GRAPH, **OPTIONS), BATCH[5]
    stream, richer = decoder.stream(**REQUESTED), decoder.stream(**REQUESTED, interim_answers=True)
    assert not stream.interim_answers and richer.interim_answers
    for at in range(0, 60, 20):
        chunk = log_probs[at : at + 20]
        assert stream.decode_chunk(chunk).nbest is None
        wanted = richer.decode_chunk(chunk)
        stream.interim_answers = True
        found = stream.decode_chunk(chunk[:0])
        stream.interim_answers = False
        assert stream.decode_chunk(chunk[:0]).nbest is None
        assert found.to_dict() == wanted.to_dict() and found.words[0].confidence is not None
        assert not found.is_final and found.confidence is not None and len(found.nbest) > 1
    check([stream.decode_chunk(log_probs[60:], last=True)], decoder.decode([log_probs], **REQUESTED))


def test_interim_answers_after_an_endpoint():
    """The next sentence's, with the times of the stream; where a sentence has ended, its answers stay."""
    decoder = test_endpoints.DECODERS["plain"]()
    unfinished = CtcDecoder(unending(decoder.graph), **vars(decoder.options))
    stream, checked = decoder.stream(endpoint=RULES, interim_answers=True, **REQUESTED), 0
    for at in range(0, 90, 6):
        partial = stream.decode_chunk(SPEECH[at : at + 6])
        while partial.endpoint:
            assert stream.decode_chunk(SPEECH[:0]).nbest is partial.nbest
            partial = stream.reset()
        if partial.num_frames > partial.first_frame > 0:
            of_sentence = SPEECH[partial.first_frame : partial.num_frames]
            check([partial], unfinished.decode([of_sentence], **REQUESTED), [partial.first_frame])
            checked += 1
    assert checked > 3


def test_interim_answers_need_a_question():
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    with pytest.raises(ValueError, match="interim_answers: expected a stream with nbest, confidence"):
        decoder.stream(interim_answers=True, posteriors=True)
    with pytest.raises(TypeError, match="interim_answers: expected a bool, got int"):
        decoder.stream(nbest=2, interim_answers=1)
    plain = decoder.stream()
    with pytest.raises(ValueError, match=r"begin it as decoder\.stream"):
        plain.interim_answers = True
    plain.interim_answers = False
    assert plain.decode_chunk(BATCH[0]).nbest is None


def test_of_real_speech(demo, demo_data):  # noqa: F811
    pytest.importorskip("kaldifst", reason="kaldifst is not installed: .[build]")
    from arcbeam import TokenTable
    from arcbeam.recipe.lexicon import Lexicon

    arpa, small, large, words, short = demo
    tokens = TokenTable.read(demo_data / "tokens.txt")
    graph = Graph.build(tokens, Lexicon.spell(words, tokens), arpa, progress=False)
    archive = np.load(demo_data / "log_probs.npz")
    utterances = np.split(archive["log_probs"], np.cumsum(archive["lengths"])[:-1])
    batch = [utterances[i].astype(np.float32) for i in short]
    models = {"language_model": large, "graph_language_model": small, "hypotheses_per_state": 3}
    list_of = Boost(words[::7])
    for options, one in itertools.product(({}, models), (None, list_of)):
        decoder = CtcDecoder(graph, device="cpu", beam=17.0, lattice_beam=15.0, frame_shift=0.02, **options)
        wholes = decoder.decode(batch, boost=one, **REQUESTED)
        assert sum(whole.lattice.num_links for whole in wholes) > 3 * sum(len(whole.arcs) for whole in wholes)
        found, _ = in_chunks(decoder, batch, np.random.default_rng(0), [one] * len(batch), most=60, **REQUESTED)
        same(found, wholes)
        check(found, wholes)


@slow
@given(
    st.data(),
    graphs.graphs(blank=3),
    models_of_three_words(),
    st.lists(graphs.log_probs(), min_size=2, max_size=4),
    st.sampled_from([0.5, 2.0, 17.0]),
)
def test_history_goes_on(data, graph, models, sentences_, beam):
    """The lattice of a sentence whose large model knows the words before it, and the parts of its scores."""
    large, small = models
    graph = with_words(graph, small)
    options = {"beam": beam, "lattice_beam": 4.0, "device": "cpu", "threads": 1}
    decoder = CtcDecoder(graph, language_model=large, graph_language_model=small, **options)
    stream, said = decoder.stream(**REQUESTED), []
    for log_probs in sentences_:
        middle = data.draw(st.integers(0, len(log_probs)))
        stream.decode_chunk(log_probs[:middle])
        if data.draw(st.booleans()):
            stream = decoder.restore(stream.save())
        final = stream.decode_chunk(log_probs[middle:], last=True)
        following = Following(graph, large, small, said)
        path_as_the_oracle(final, rescoring_oracle.decode(graph, following, log_probs, beam=beam))
        wanted = lattice_oracle.decode(graph, log_probs, beam=beam, lattice_beam=4.0, deviations=following)
        as_the_oracle(final.lattice._arrays, wanted)
        check_parts(final, following)
        keep = data.draw(st.booleans())
        said = [*said, *final.word_ids.tolist()] if keep else []
        stream.reset(keep_history=keep)


def check_parts(final, following):
    """Rescoring scores of links and of entries are what the models added, after what was said before."""
    lattice = final.lattice
    ends = np.flatnonzero(np.isfinite(lattice.final_scores))
    of_path = lattice.rescoring_scores[lattice.best].sum()
    if lattice.reached_final:
        last = lattice.links["target"][lattice.best[-1]] if len(lattice.best) else 0
        of_path += lattice.final_rescoring_scores[last]
    assert of_path == final.rescoring_score == 0.0 - added(following, final)
    assert len(ends) >= lattice.complete
    for entry in final.nbest:
        assert entry.rescoring_score == 0.0 - added(following, entry)


def test_history_goes_on_with_kenlm(tmp_path):
    kenlm_files.need_kenlm()
    rng, lengths = np.random.default_rng(0), []
    for seed in range(6):
        model = kenlm_files.random_ngrams(WORDS, 2 + seed % 3, seed)
        small = random_model(rng, WORDS, 2)
        fields = graphs.random_graph(seed, states=12, columns=4).fields()
        few = fields["columns"] | {"words": fields["columns"]["words"] % 4}
        graph = with_words(Graph(**fields | {"columns": few}), small)
        options = {"beam": 3.0, "lattice_beam": 4.0, "device": "cpu", "threads": 1, "unknown_words": "unk"}
        large = KenLM(model.write(tmp_path / f"{seed}.arpa"))
        decoder = CtcDecoder(graph, language_model=large, graph_language_model=small, **options)
        stream, said = decoder.stream(**REQUESTED), []
        for k in range(4):
            log_probs = graphs.random_log_probs(10 * seed + k, 5, 4)
            stream.decode_chunk(log_probs[:k])
            final = decoder.restore(stream.save()).decode_chunk(log_probs[k:], last=True)
            same([stream.decode_chunk(log_probs[k:], last=True)], [final])
            following = FollowingKenLm(graph, model, small, said)
            path_as_the_oracle(final, rescoring_oracle.decode(graph, following, log_probs, beam=3.0))
            wanted = lattice_oracle.decode(graph, log_probs, beam=3.0, lattice_beam=4.0, deviations=following)
            as_the_oracle(final.lattice._arrays, wanted)
            check_parts(final, following)
            said = [*said, *final.word_ids.tolist()]
            stream.reset(keep_history=True)
        lengths.append(len(said))
    assert sum(lengths) > 10, lengths


def test_each_stream_gets_its_outputs():
    """Rounds of streams with different outputs, or none, with boosts of their own."""
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    kinds = [{}, {"nbest": 2}, {"confidence": True}, {"lattice": True}, {"mbr": True}, {"nbest": 2}, REQUESTED]
    boosts = [None, boost(1), boost(2), boost(3), None, boost(4), boost(5)]
    streams = [decoder.stream(boost=one, **requested) for one, requested in zip(boosts, kinds, strict=True)]
    speech = [BATCH[i % 2 * 5] for i in range(len(kinds))]
    decoder.decode_chunks(streams, [log_probs[:20] for log_probs in speech])
    finals = decoder.decode_chunks(streams, [log_probs[20:] for log_probs in speech], last=True)
    for final, one, requested, log_probs in zip(finals, boosts, kinds, speech, strict=True):
        [whole] = decoder.decode([log_probs], boost=one, **requested)
        said = final.to_dict()
        assert {name: said[name] for name in whole.to_dict()} == whole.to_dict()
        assert (final.lattice is None) == (whole.lattice is None)
        assert [entry.boost_score for entry in final.nbest or []] == [entry.boost_score for entry in whole.nbest or []]
        if final.lattice is not None:
            assert packed(final.lattice._arrays) == packed(whole.lattice._arrays)
            assert final.lattice.boost_scores.tobytes() == whole.lattice.boost_scores.tobytes()
    assert finals[1]._results is finals[5]._results is not finals[2]._results  # worked out together


def test_streams_of_a_round_end_at_different_times():
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    streams = [decoder.stream(**REQUESTED) for _ in range(3)]
    first = decoder.decode_chunks(streams, [BATCH[0]] * 3, last=[False, True, False])
    assert [one.nbest is None for one in first] == [True, False, True]
    second = decoder.decode_chunks([streams[0], streams[2]], [BATCH[2]] * 2, last=[True, False])
    check(
        [first[1], second[0], streams[2].finish()],
        decoder.decode([BATCH[0], *[np.concatenate(BATCH[:3])] * 2], **REQUESTED),
    )
    assert streams[1].partial is first[1]


def test_an_endpoints_result_stays_while_frames_wait():
    decoder = test_endpoints.DECODERS["plain"]()
    stream = decoder.stream(endpoint=RULES, **REQUESTED)
    ended = stream.decode_chunk(SPEECH)
    assert ended.endpoint is not None and ended.nbest is not None
    assert stream.decode_chunk(SPEECH[:7]) is ended
    assert stream.finish() is ended
    check([ended], decoder.decode([SPEECH[: ended.num_frames]], **REQUESTED))


def test_pickles_have_the_times_of_the_stream():
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    stream = decoder.stream(**REQUESTED)
    stream.decode_chunk(BATCH[0], last=True)
    stream.reset()
    final = stream.decode_chunk(BATCH[5], last=True)
    again = pickle.loads(pickle.dumps(final))
    assert again.to_dict() == final.to_dict()
    assert final.first_frame == again.lattice.first_frame == len(BATCH[0])
    for made in (again.lattice, again.lattice.prune(2.0)):
        assert made.mbr.words[0].start_frame >= len(BATCH[0])
        assert made.times[0] == len(BATCH[0]) * 0.02
    assert [entry.words for entry in again.nbest] == [entry.words for entry in final.nbest]


def test_pictures_have_the_times_of_the_stream():
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    stream, first = decoder.stream(lattice=True), len(BATCH[0])
    stream.decode_chunk(BATCH[0], last=True)
    stream.reset()
    lattice = stream.decode_chunk(BATCH[5], last=True).lattice
    [in_frames] = CtcDecoder(GRAPH, **OPTIONS | {"frame_shift": None}).decode([BATCH[5]], lattice=True)
    for span in ({}, {"start": 10.5, "end": 35.5}):
        wanted = in_frames.lattice._picture(**span)
        found = lattice._picture(**{name: (first + frame) * 0.02 for name, frame in span.items()})
        assert found.boxes == [box._replace(time=(first + box.time) * 0.02) for box in wanted.boxes]
        assert found.lines == wanted.lines and len(wanted.boxes) > 3


def test_a_lost_result_is_said(device, monkeypatch):
    """Where a sentence's lattice was made and its answers could not be, reading them raises, and streams go on."""
    decoder = CtcDecoder(GRAPH, **OPTIONS | {"device": device})
    plain, richer, later = decoder.stream(), decoder.stream(**REQUESTED), decoder.stream(**REQUESTED)
    with monkeypatch.context() as patch:
        patch.setattr(decoder._search.reader, "answers", no_memory)
        lost = decoder.decode_chunks([plain, richer, later], [BATCH[0]] * 3, last=[False, True, False])[1]
    for name in ("nbest", "confidence", "mbr", "words"):
        with pytest.raises(MemoryError):
            getattr(lost, name)
    [whole] = decoder.decode([BATCH[0]], **REQUESTED)
    assert lost.is_final and lost.text == whole.text
    check([decoder.restore(richer.save()).partial], [whole])
    richer.reset()
    check([richer.decode_chunk(BATCH[0], last=True)], [whole], [len(BATCH[0])])
    finals = decoder.decode_chunks([plain, later], [BATCH[2]] * 2, last=True)
    [whole] = decoder.decode([np.concatenate([BATCH[0], BATCH[2]])], **REQUESTED)
    same([finals[0]], decoder.decode([np.concatenate([BATCH[0], BATCH[2]])]))
    check([finals[1]], [whole])


def no_memory(*_):
    raise MemoryError


@pytest.mark.parametrize("nbest", [0, -1, 2.5, "3"])
def test_bad_requests(nbest):
    with pytest.raises((TypeError, ValueError), match="nbest: expected"):
        CtcDecoder(GRAPH, **OPTIONS).stream(nbest=nbest)
