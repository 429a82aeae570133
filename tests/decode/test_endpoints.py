"""Endpoints and the sentences of a stream: against an oracle, however it is cut into chunks, saved and restored."""

import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import Boost, CtcDecoder, Endpoint, EndpointRule, Graph, KenLM
from arcbeam.ctc.streams.endpoint import EndpointRules
from tests.decode import graphs, kenlm_files, rescoring_oracle
from tests.decode.endpoint_oracle import sentences
from tests.decode.equality import as_the_oracle, same
from tests.decode.language_models import over, random_model
from tests.decode.test_kenlm import KenLmDeviations
from tests.decode.test_rescoring import WORDS, with_words
from tests.decode.test_rescoring import language_models as models_of_three_words
from tests.decode.test_streams import BATCH, GRAPH, boost
from tests.decode.test_streams import WORDS as MANY
from tests.hypothesis_examples import examples

slow = settings(deadline=None, max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
SPEECH = np.concatenate(BATCH)
OPTIONS = {"beam": 6.0, "max_active": 60, "frame_shift": 0.1, "device": "cpu", "threads": 2}
SILENCE = Graph(**GRAPH.fields() | {"blank": 0, "separator_column": 1})
RULES = Endpoint(
    {
        "pause": EndpointRule(min_trailing_silence=0.2),
        "end": EndpointRule(min_trailing_silence=0.1, max_relative_cost=2.0),
        "long": EndpointRule(must_contain_nonsilence=False, min_trailing_silence=0.0, min_utterance_length=4.0),
    }
)

pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


def rescoring():
    rng = np.random.default_rng(3)
    large, small = (random_model(rng, MANY, order, share=0.2) for order in (3, 2))
    graph = over(SILENCE, small, MANY)
    options = OPTIONS | {"hypotheses_per_state": 3}
    return CtcDecoder(graph, language_model=large, graph_language_model=small, **options)


DECODERS = {"plain": lambda: CtcDecoder(SILENCE, **OPTIONS), "rescoring": rescoring}


def followed(stream, log_probs, rng, most=9, moves=lambda stream: stream):
    """The final results of all sentences of a stream that is cut at random."""
    finals, at, partial = [], 0, stream.partial
    while not stream.is_finished:
        if partial.endpoint is not None and rng.random() < 0.7:
            finals.append(partial)
            partial = stream.reset()
        elif at <= len(log_probs) and not stream._last_came:
            end = at + int(rng.integers(0, most))
            partial = stream.decode_chunk(log_probs[at:end], last=end > len(log_probs))
            at = end
        stream = moves(stream)
        assert partial.num_frames + stream.num_waiting == min(at, len(log_probs))
        assert stream.partial.to_dict() == partial.to_dict()
    return [*finals, partial]


def check_sentences(found, wanted, decoder, log_probs, one=None):
    """That these final results are those of the sentences that are wanted, each decoded as a whole."""
    if wanted[-1][2] is not None and len(found) > len(wanted):  # the end came after a reset: nothing followed
        [nothing] = decoder.decode([log_probs[:0]], boost=one)  # epsilon arcs may write words even then
        assert (found[-1].text, found[-1].num_frames) == (nothing.text, found[-1].first_frame)
        found = found[:-1]
    assert [(final.first_frame, final.num_frames, final.endpoint) for final in found] == wanted
    for final, (first, end, _) in zip(found, wanted, strict=True):
        [whole] = decoder.decode([log_probs[first:end]], boost=one)
        assert final.is_final and final.num_stable == len(final.words)
        assert (final.arcs.tobytes(), final.score, final.text) == (whole.arcs.tobytes(), whole.score, whole.text)
        assert (final.reached_final, final.complete) == (whole.reached_final, whole.complete)
        assert final.rescoring_score == whole.rescoring_score
        shift = decoder.options.frame_shift
        moved = [
            word._replace(
                start_frame=word.start_frame + first, end_frame=word.end_frame + first,
                start=(word.start_frame + first) * shift, end=(word.end_frame + first) * shift,
            )
            for word in whole.words
        ]  # fmt: skip
        assert final.words == moved


@pytest.mark.parametrize("boosted", [False, True])
@pytest.mark.parametrize("kind", DECODERS)
def test_sentences_are_those_of_the_oracle(kind, boosted):
    decoder, one = DECODERS[kind](), boost(1) if boosted else None
    wanted = sentences(decoder, SPEECH, RULES, one)
    assert {name for *_, name in wanted} >= {"pause", "end"} and len(wanted) > 4
    for seed, most in itertools.product(range(3), (2, 9, 200)):
        rng = np.random.default_rng(seed)
        found = followed(decoder.stream(boost=one, endpoint=RULES), SPEECH, rng, most)
        check_sentences(found, wanted, decoder, SPEECH, one)


@pytest.mark.parametrize("kind", DECODERS)
def test_streams_in_company(kind):
    """Rounds of many streams, some of which have stopped."""
    decoder, rng = DECODERS[kind](), np.random.default_rng(4)
    boosts = [boost(i) if i % 2 else None for i in range(5)]
    speech = [np.roll(SPEECH, 20 * i, axis=0) for i in range(5)]
    streams = [decoder.stream(boost=one, endpoint=RULES if i else None) for i, one in enumerate(boosts)]
    at, finals = [0] * 5, [[] for _ in streams]
    while not all(stream.is_finished for stream in streams):
        going = [i for i, stream in enumerate(streams) if at[i] <= len(SPEECH)]
        chunks = [speech[i][at[i] : at[i] + 5 * i + 3] for i in going]
        for i, chunk in zip(going, chunks, strict=True):
            at[i] += max(len(chunk), 1)
        last = [at[i] > len(SPEECH) for i in going]
        partials = decoder.decode_chunks([streams[i] for i in going], chunks, last=last)
        assert [streams[i].partial for i in going] == partials
        for i, stream in enumerate(streams):
            while stream.partial.endpoint and not stream.is_finished and rng.random() < 0.4:
                finals[i].append(stream.partial)
                stream.reset()
    for i, (stream, one) in enumerate(zip(streams, boosts, strict=True)):
        wanted = sentences(decoder, speech[i], RULES, one) if i else [(0, len(SPEECH), None)]
        check_sentences([*finals[i], stream.partial], wanted, decoder, speech[i], one)


@pytest.mark.parametrize("kind", DECODERS)
def test_saved_and_restored_on_the_way(kind):
    decoder, other, one = DECODERS[kind](), DECODERS[kind](), boost(1)
    wanted = sentences(decoder, SPEECH, RULES, one)
    waited = 0

    def move(stream):
        nonlocal waited
        waited += stream.num_waiting > 0
        moved = other.restore(stream.save(), boost=one)
        assert moved.save() == stream.save()
        assert (moved.num_waiting, moved.is_finished) == (stream.num_waiting, stream.is_finished)
        assert moved.endpoint == RULES
        return moved

    found = followed(decoder.stream(boost=one, endpoint=RULES), SPEECH, np.random.default_rng(0), moves=move)
    check_sentences(found, wanted, decoder, SPEECH, one)
    assert waited > 3


@pytest.mark.parametrize("kind", DECODERS)
@pytest.mark.parametrize("seed", range(3))
def test_everything_at_once(kind, seed):
    """Random rounds on two decoders: chunks of all lengths, moves, bad chunks, streams that are dropped, resets."""
    decoders, rng = [DECODERS[kind](), DECODERS[kind]()], np.random.default_rng(seed)
    boosts = [boost(i) if i % 2 else None for i in range(8)]
    speech = [np.roll(SPEECH, 17 * i, axis=0)[: 60 + 12 * i] for i in range(8)]
    streams = [decoders[i % 2].stream(boost=one, endpoint=RULES) for i, one in enumerate(boosts)]
    at, finals = [0] * 8, [[] for _ in streams]
    dropped = set(rng.choice(8, 2, replace=False).tolist())
    going = set(range(8))
    while going:
        for decoder in decoders:
            ours = [i for i in going if streams[i]._decoder is decoder._chunks and rng.random() < 0.7]
            sent = [i for i in rng.permutation(ours).tolist() if not streams[i]._last_came]
            ends = [at[i] + int(rng.integers(0, 25)) for i in sent]
            chunks = [speech[i][at[i] : end] for i, end in zip(sent, ends, strict=True)]
            if sent and len(chunks[0]) and rng.random() < 0.2:
                bad = chunks[0].copy()
                bad[-1, 0] = np.nan
                refused = decoder.decode_chunks([streams[sent[0]]], [bad], errors="return")
                assert "got nan" in str(refused[0].error)
            last = [end >= len(speech[i]) for i, end in zip(sent, ends, strict=True)]
            decoder.decode_chunks([streams[i] for i in sent], chunks, last=last)
            for i, end in zip(sent, ends, strict=True):
                at[i] = min(end, len(speech[i]))
            for i in ours:
                if streams[i].partial.endpoint and not streams[i].is_finished and rng.random() < 0.6:
                    finals[i].append(streams[i].partial)
                    streams[i].reset()
                if rng.random() < 0.3:
                    streams[i] = decoders[rng.integers(2)].restore(streams[i].save(), boost=boosts[i])
        for i in list(going):
            if streams[i].is_finished:
                finals[i].append(streams[i].partial)
                going.remove(i)
            elif i in dropped and at[i] > 40:
                streams[i] = None
                going.remove(i)
    for i in set(range(8)) - dropped:
        wanted = sentences(decoders[0], speech[i], RULES, boosts[i])
        check_sentences(finals[i], wanted, decoders[0], speech[i], boosts[i])


@slow
@given(
    st.data(),
    graphs.graphs(blank=3),
    graphs.log_probs(max_frames=20),
    st.sampled_from([0.0, 0.5, 2.0, 30.0]),
    st.sampled_from([0.07, 0.1, 0.2]),
)
def test_any_graph(data, graph, log_probs, beam, shift):
    """Graphs without ends, searches that die, ties of costs, and rules that hold at once."""
    decoder = CtcDecoder(graph, beam=beam, device="cpu", threads=1, frame_shift=shift)
    rule = st.builds(
        EndpointRule,
        must_contain_nonsilence=st.booleans(),
        min_trailing_silence=st.sampled_from([0.0, shift, 2 * shift, 5 * shift]),
        min_utterance_length=st.sampled_from([0.0, 3 * shift]),
        max_relative_cost=st.sampled_from([0.0, 0.5, 1.0, math.inf]),
    )
    rules = Endpoint(data.draw(st.dictionaries(st.sampled_from("abc"), rule, min_size=1)))
    wanted = sentences(decoder, log_probs, rules)
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))

    def move(stream):
        return decoder.restore(stream.save()) if rng.random() < 0.3 else stream

    found = followed(decoder.stream(endpoint=rules), log_probs, rng, most=4, moves=move)
    check_sentences(found, wanted, decoder, log_probs)


def spoken(*columns, width=3, sure=-0.1):
    """Log-probs of a model that is sure of these columns."""
    log_probs = np.full((len(columns), width), -8.0, np.float32)
    log_probs[np.arange(len(columns)), columns] = sure
    return log_probs


LETTERS = Graph.from_arcs(  # "a" is written by column 1; column 0 is the blank, column 2 separates words
    [(0, 0, 1, 0, 0.0), (0, 0, 3, 0, 0.0), (0, 1, 2, 1, 0.0), (1, 1, 2, 0, 0.0), (1, 0, 1, 0, 0.0), (1, 0, 3, 0, 0.0)],
    start=0,
    finals={0: 0.5, 1: 4.0},
    tokens=["-", "a", "|"],
    word_symbols=["<eps>", "a"],
    blank=0,
    separator="|",
)


def ends_at(rules, log_probs, shift=0.1, **options):
    decoder = CtcDecoder(LETTERS, **{"device": "cpu", "threads": 1, "frame_shift": shift} | options)
    partial = decoder.stream(endpoint=rules).decode_chunk(log_probs)
    return partial.endpoint, partial.num_frames


def test_blanks_and_separators_are_silence(device):
    pause, on = Endpoint({"pause": EndpointRule(min_trailing_silence=0.6)}), {"device": device}
    assert LETTERS.separator_column == 2
    assert ends_at(pause, spoken(1, 1, *[0, 2] * 8), **on) == ("pause", 8)
    assert ends_at(pause, spoken(1, 0, 0, 0, 1, *[0] * 12), **on) == ("pause", 12)
    assert ends_at(pause, spoken(*[0] * 30), **on) == (None, 30)  # nothing was said
    assert ends_at(pause, spoken(*[1] * 30), **on) == (None, 30)


def test_the_rules_of_kaldi(device):
    """By hand: 20 ms frames, looks every 10."""
    kaldi, on = Endpoint.kaldi(), {"device": device, "shift": 0.02}
    assert ends_at(kaldi, spoken(*[0] * 500), **on) == ("rule1", 250)
    # The best path ends in state 0, whose final weight is the relative cost: 0.5 is below 2.
    assert ends_at(kaldi, spoken(*[1] * 33, *[0] * 500), **on) == ("rule2", 60)
    assert ends_at(kaldi, spoken(*[1] * 1100), **on) == ("rule5", 1000)
    costly = {name: rule for name, rule in kaldi.rules.items() if name != "rule2"}
    assert ends_at(Endpoint(costly), spoken(*[1] * 33, *[0] * 500), **on) == ("rule3", 90)
    del costly["rule3"]
    assert ends_at(Endpoint(costly), spoken(*[1] * 33, *[0] * 500), **on) == ("rule4", 140)


def test_the_rules_of_sherpa():
    sherpa = Endpoint.sherpa()
    assert ends_at(sherpa, spoken(*[0] * 500), shift=0.02) == ("rule1", 120)
    assert ends_at(sherpa, spoken(*[1] * 33, *[0] * 500), shift=0.02) == ("rule2", 100)
    assert ends_at(sherpa, spoken(*[1] * 2000), shift=0.02) == ("rule3", 1000)


def test_the_defaults():
    """As online2/online-endpoint.h of Kaldi and csrc/endpoint.h of sherpa-onnx have them."""
    of = lambda rule: (  # noqa: E731
        rule.must_contain_nonsilence,
        rule.min_trailing_silence,
        rule.max_relative_cost,
        rule.min_utterance_length,
    )
    inf = math.inf
    kaldi = [(False, 5.0, inf, 0.0), (True, 0.5, 2.0, 0.0), (True, 1.0, 8.0, 0.0), (True, 2.0, inf, 0.0)]
    assert list(map(of, Endpoint().rules.values())) == [*kaldi, (False, 0.0, inf, 20.0)]
    assert Endpoint() == Endpoint.kaldi()
    sherpa = [(False, 2.4, inf, 0.0), (True, 1.2, inf, 0.0), (False, 0.0, inf, 20.0)]
    assert list(map(of, Endpoint.sherpa().rules.values())) == sherpa
    assert list(Endpoint.sherpa().rules) == ["rule1", "rule2", "rule3"]


@pytest.mark.parametrize(
    ("shift", "seconds", "frames", "every"),
    [
        (0.02, 0.5, 25, 10),
        (0.04, 0.5, 13, 5),
        (0.04, 2.4, 60, 5),
        (0.03, 0.3, 10, 7),
        (0.08, 5.0, 63, 2),
        (1.0, 0.5, 1, 1),
    ],
)
def test_seconds_become_frames(shift, seconds, frames, every):
    rules = EndpointRules.of(Endpoint({"one": EndpointRule(min_trailing_silence=seconds)}), LETTERS, shift)
    assert (rules.rules[0].min_trailing_silence, rules.every) == (frames, every)


def test_frames_after_the_search_has_died_are_silence(device):
    dead = np.full((40, 3), -np.inf, np.float32)
    pause = Endpoint({"pause": EndpointRule(min_trailing_silence=1.0)})
    decoder = CtcDecoder(LETTERS, device=device, threads=1, frame_shift=0.1)
    log_probs = np.concatenate([spoken(1, 1, 0, 0), dead, spoken(1, 0)])
    for most in (2, 100):
        found = followed(decoder.stream(endpoint=pause), log_probs, np.random.default_rng(0), most)
        check_sentences(found, sentences(decoder, log_probs, pause), decoder, log_probs)
        assert (found[0].text, found[0].num_frames, found[0].complete) == ("a", 12, False)
        # The next sentences begin dead; only speech would let a rule of this kind end them.
        assert len(found) == 2


def test_the_stream_stops_and_the_frames_wait(device):
    decoder = CtcDecoder(LETTERS, device=device, threads=1, frame_shift=0.1)
    pause = Endpoint({"pause": EndpointRule(min_trailing_silence=0.4)})
    stream = decoder.stream(endpoint=pause)
    log_probs = spoken(*[1, 0, 0, 0, 0, 0, 0] * 2)
    ended = stream.decode_chunk(log_probs)
    assert (ended.endpoint, ended.text, ended.num_frames, stream.num_waiting) == ("pause", "a", 6, 8)
    assert "8 more wait" in repr(stream) and "endpoint='pause'" in repr(stream)
    assert stream.decode_chunk(spoken(1)) is ended
    assert stream.num_waiting == 9
    assert not stream.is_finished
    assert stream.finish() is ended
    with pytest.raises(ValueError, match="after the last"):
        stream.decode_chunk(log_probs)
    following = stream.reset()
    assert (following.endpoint, following.text, following.first_frame, following.num_frames) == ("pause", "a", 6, 12)
    assert [(word.start_frame, word.start) for word in following.words] == [(7, pytest.approx(0.7))]
    last = stream.reset()
    assert (last.text, last.endpoint, last.is_final, last.num_frames) == ("a", None, True, 15)
    assert stream.is_finished and stream.num_waiting == 0
    nothing = stream.reset()
    assert (nothing.text, nothing.is_final, nothing.first_frame, stream.is_finished) == ("", False, 15, False)
    assert stream.decode_chunk(spoken(1), last=True).words[0].start_frame == 15


def test_silence_goes_on_in_a_restored_stream(device):
    """Frame by frame, so that nearly all of a pause is settled when the stream moves."""
    decoder = CtcDecoder(LETTERS, device=device, threads=1, frame_shift=0.1)
    pause = Endpoint({"pause": EndpointRule(min_trailing_silence=0.8)})
    for log_probs, wanted in ((spoken(0, 0, 1, *[0, 2] * 9), ("pause", 12)), (spoken(*[0] * 20), (None, 20))):
        stream = decoder.stream(endpoint=pause)
        for row in log_probs:
            settled = stream.num_settled
            stream.decode_chunk(row[np.newaxis])
            stream = decoder.restore(stream.save())
        assert (stream.partial.endpoint, stream.partial.num_frames) == wanted
        assert settled > 5


def test_waiting_frames_are_copies(device):
    decoder = CtcDecoder(LETTERS, device=device, threads=1, frame_shift=0.1)
    pause = Endpoint({"pause": EndpointRule(min_trailing_silence=0.4)})
    whole = spoken(1, *[0] * 6, 1, 0, 1)
    finals = []
    for kind, place in itertools.product((np.float32, np.float16), (lambda a: a, lambda a: a[::-1].copy()[::-1])):
        stream, chunk = decoder.stream(endpoint=pause), place(whole.astype(kind))
        stream.decode_chunk(chunk)
        chunk[:] = 0.0
        stream.reset()
        finals.append(stream.finish())
        assert (finals[-1].text, finals[-1].first_frame) == ("a a", 6)
    same(finals[1:2], finals[:1])


def test_columns_that_the_graph_does_not_read(device):
    fields = LETTERS.fields() | {"tokens": None, "blank": 0, "separator_column": 2, "width_is_exact": False}
    decoder = CtcDecoder(Graph(**fields), device=device, threads=1, frame_shift=0.1)
    narrow = spoken(*[1, 0, 2, 0, 1, 0, 0, 0, 0, 0, 2, 0] * 3)
    wide = np.concatenate([narrow, np.full((len(narrow), 2), -0.01, np.float32)], axis=1)
    pause = Endpoint({"pause": EndpointRule(min_trailing_silence=0.4)})
    wanted = sentences(decoder, wide, pause)
    assert len(wanted) == 4
    for most in (3, 100):
        found = followed(decoder.stream(endpoint=pause), wide, np.random.default_rng(0), most)
        check_sentences(found, wanted, decoder, wide)


def test_a_boost_that_cannot_be_used_changes_nothing():
    decoder = CtcDecoder(SILENCE, **OPTIONS)
    stream = decoder.stream(boost=boost(0))
    partial = stream.decode_chunk(BATCH[5][:20])
    within = [" ".join(["w1"] * n) for n in range(1, 12)]
    with pytest.raises(ValueError, match="phrases within one another"):
        stream.reset(boost=Boost(within, 1000.0))
    assert stream.partial is partial
    [whole] = decoder.decode([BATCH[5]], boost=stream.boost)
    same([stream.decode_chunk(BATCH[5][20:], last=True)], [whole])


def test_a_bad_chunk_is_refused_although_it_would_wait(device):
    decoder = CtcDecoder(LETTERS, device=device, threads=1, frame_shift=0.1)
    stream = decoder.stream(endpoint=Endpoint({"pause": EndpointRule(min_trailing_silence=0.4)}))
    bad = spoken(1, *[0] * 6, 1)
    bad[7, 0] = np.nan
    with pytest.raises(ValueError, match="got nan in utterance 0, frame 7, column 0"):
        stream.decode_chunk(bad)
    ended = stream.decode_chunk(bad[:7])
    assert ended.endpoint == "pause"
    with pytest.raises(ValueError, match="frame 0, column 0"):
        stream.decode_chunk(bad[7:])
    assert stream.num_waiting == 1


def test_reset_in_the_middle_of_a_sentence(device):
    decoder = CtcDecoder(LETTERS, device=device, threads=1, frame_shift=0.1)
    stream = decoder.stream()
    stream.decode_chunk(spoken(0, 1, 0))
    partial = stream.reset()
    assert (partial.text, partial.first_frame, partial.num_frames, stream.num_frames) == ("", 3, 3, 3)
    assert [word.start_frame for word in stream.decode_chunk(spoken(1), last=True).words] == [3]
    again = pickle.loads(pickle.dumps(stream.partial))
    assert (again.first_frame, again.endpoint, again.words) == (3, None, stream.partial.words)


def test_the_next_sentence_may_have_another_boost():
    decoder = CtcDecoder(SILENCE, **OPTIONS)
    first, second = boost(0), boost(1)
    stream = decoder.stream(boost=first)
    for other, wanted in ((None, first), (second, second), (None, second), (Boost([]), None)):
        final = stream.decode_chunk(BATCH[5], last=True)
        [whole] = decoder.decode([BATCH[5]], boost=stream.boost)
        assert (final.arcs.tobytes(), final.score) == (whole.arcs.tobytes(), whole.score)
        stream.reset(boost=other)
        assert stream.boost is (wanted or other)
    assert stream.num_frames == 4 * len(BATCH[5])


class Following(rescoring_oracle.Deviations):
    """A sentence that follows words: the large model sees the last of them, the small one a beginning."""

    def __init__(self, graph, large, small, said):
        super().__init__(graph, large, small)
        seen = large.order - 1
        self.state = large.start if len(said) < seen else 0
        for word in said[len(said) - min(seen, len(said)) :]:
            label = large.label(graph.word_symbols[word]) or large.unknown_label
            _, self.state = rescoring_oracle.step(large, self.state, label)

    def start(self):
        return self.state, self.small.start


def added(deviations, final):
    """What the models have added to the cost of a path."""
    cost, history = 0.0, deviations.start()
    for word in final.word_ids.tolist():
        of_word, history = deviations(history, word)
        cost += float(of_word)
    return cost + float(deviations.end(history)) * final.reached_final


@slow
@given(
    st.data(),
    graphs.graphs(blank=3),
    models_of_three_words(),
    st.lists(graphs.log_probs(), min_size=2, max_size=4),
    st.sampled_from([0.5, 2.0, 17.0]),
)
def test_history_goes_on(data, graph, models, sentences_, beam):
    large, small = models
    graph = with_words(graph, small)
    decoder = CtcDecoder(
        graph, language_model=large, graph_language_model=small, beam=beam, device="cpu", threads=1, frame_shift=0.1
    )
    stream, said = decoder.stream(), []
    for log_probs in sentences_:
        middle = data.draw(st.integers(0, len(log_probs)))
        stream.decode_chunk(log_probs[:middle])
        if data.draw(st.booleans()):
            stream = decoder.restore(stream.save())
        final = stream.decode_chunk(log_probs[middle:], last=True)
        following = Following(graph, large, small, said)
        as_the_oracle(final, rescoring_oracle.decode(graph, following, log_probs, beam=beam))
        assert final.rescoring_score == 0.0 - added(following, final)
        keep = data.draw(st.booleans())
        said = [*said, *final.word_ids.tolist()] if keep else []
        stream.reset(keep_history=keep)


class FollowingKenLm(KenLmDeviations):
    def __init__(self, graph, model, small, said):
        super().__init__(graph, model, small)
        seen = model.order - 1
        words = [graph.word_symbols[word] for word in said[len(said) - min(seen, len(said)) :]]
        self.words = words if len(said) >= seen else ["<s>", *words]

    def start(self):
        return self.state(self.words), self.small.start


def test_history_goes_on_with_kenlm(tmp_path):
    kenlm_files.need_kenlm()
    rng = np.random.default_rng(0)
    for seed in range(6):
        model = kenlm_files.random_ngrams(WORDS, 2 + seed % 3, seed)
        small = random_model(rng, WORDS, 2)
        fields = graphs.random_graph(seed, states=12, columns=4).fields()
        few = fields["columns"] | {"words": fields["columns"]["words"] % 4}
        graph = with_words(Graph(**fields | {"columns": few}), small)
        decoder = CtcDecoder(
            graph, language_model=KenLM(model.write(tmp_path / f"{seed}.arpa")), graph_language_model=small, beam=3.0,
            device="cpu", threads=1, unknown_words="unk",
        )  # fmt: skip
        stream, said = decoder.stream(), []
        for k in range(4):
            log_probs = graphs.random_log_probs(10 * seed + k, 5, 4)
            stream.decode_chunk(log_probs[:k])
            final = decoder.restore(stream.save()).decode_chunk(log_probs[k:], last=True)
            same([stream.decode_chunk(log_probs[k:], last=True)], [final])
            following = FollowingKenLm(graph, model, small, said)
            as_the_oracle(final, rescoring_oracle.decode(graph, following, log_probs, beam=3.0))
            assert final.rescoring_score == 0.0 - added(following, final)
            said = [*said, *final.word_ids.tolist()]
            stream.reset(keep_history=True)


@pytest.mark.parametrize(
    ("rules", "error", "said"),
    [
        (lambda: EndpointRule(min_trailing_silence=-1.0), ValueError, "min_trailing_silence: expected a number of sec"),
        (lambda: EndpointRule(min_trailing_silence=math.inf), ValueError, "min_trailing_silence"),
        (lambda: EndpointRule(min_utterance_length="20"), TypeError, "min_utterance_length"),
        (lambda: EndpointRule(max_relative_cost=math.nan), ValueError, "max_relative_cost"),
        (lambda: EndpointRule(must_contain_nonsilence=1), TypeError, "must_contain_nonsilence: expected a bool"),
        (lambda: EndpointRule(min_silence=1.0), TypeError, "unknown option min_silence: expected one of must_contain"),
        (lambda: Endpoint({}), ValueError, "rules: expected 1 to 8, got 0"),
        (lambda: Endpoint({f"rule{i}": EndpointRule() for i in range(9)}), ValueError, "expected 1 to 8, got 9"),
        (lambda: Endpoint([EndpointRule()]), TypeError, "rules: expected a mapping of names"),
        (lambda: Endpoint({"": EndpointRule()}), TypeError, "expected a name for each rule, got ''"),
        (lambda: Endpoint({"rule1": 2.0}), TypeError, "expected an arcbeam.EndpointRule as 'rule1', got float"),
    ],
)
def test_bad_rules(rules, error, said):
    with pytest.raises(error, match=said):
        rules()


def test_bad_calls():
    decoder = CtcDecoder(SILENCE, **OPTIONS)
    with pytest.raises(TypeError, match=r"endpoint: expected an arcbeam.Endpoint, such as arcbeam.Endpoint.kaldi\(\)"):
        decoder.stream(endpoint="kaldi")
    with pytest.raises(ValueError, match="endpoint: its rules need the seconds of a frame"):
        CtcDecoder(SILENCE, device="cpu", threads=1).stream(endpoint=Endpoint())
    with pytest.raises(ValueError, match="endpoint: the graph has no blank; give blank="):
        no_blank = Graph.from_arcs([(0, 0, 1, 0, 0.0)], finals={0: 0.0})
        CtcDecoder(no_blank, device="cpu", threads=1, frame_shift=0.1).stream(endpoint=Endpoint())
    stream = decoder.stream()
    with pytest.raises(ValueError, match="keep_history: expected False, because the decoder has no large language"):
        stream.reset(keep_history=True)
    with pytest.raises(TypeError, match="keep_history: expected a bool, got int"):
        stream.reset(keep_history=1)
    with pytest.raises(TypeError, match=r"boost: expected an arcbeam.Boost, got list"):
        stream.reset(boost=["w1"])
    assert stream.num_frames == 0
