"""Endpoints and the sentences of a stream: against an oracle, however it is cut into chunks, saved and restored."""

import itertools
import math
import pickle
import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from arcbeam import Batcher, Boost, CtcDecoder, Endpoint, EndpointRule, Graph
from arcbeam.ctc.streams.endpoint import EndpointRules
from tests.decode import rescoring_oracle
from tests.decode.equality import same
from tests.decode.test_kenlm import KenLmDeviations
from tests.decode.test_streams import BATCH, GRAPH, boost, silent
from tests.decode.test_streams import DECODERS as DECODERS_OF_STREAMS
from tests.decode.wholes import conform
from tests.hypothesis_examples import examples

slow = settings(deadline=None, max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
SPEECH = np.concatenate(BATCH)
OPTIONS = {"beam": 6.0, "max_active": 60, "frame_shift": 0.1, "device": "cpu", "threads": 2}
SILENCE = silent(GRAPH)
RULES = Endpoint(
    {
        "pause": EndpointRule(min_trailing_silence=0.2),
        "end": EndpointRule(min_trailing_silence=0.1, max_relative_cost=2.0),
        "long": EndpointRule(must_contain_nonsilence=False, min_trailing_silence=0.0, min_utterance_length=4.0),
    }
)

DECODERS = {kind: partial(make, silent, frame_shift=0.1) for kind, make in DECODERS_OF_STREAMS.items()}

pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


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
    ended = decoder.stream(endpoint=rules).decode_chunk(log_probs)
    return ended.endpoint, ended.num_frames


def test_blanks_and_separators_are_silence(device):
    pause, on = Endpoint({"pause": EndpointRule(min_trailing_silence=0.6)}), {"device": device}
    assert LETTERS.separator_column == 2
    assert ends_at(pause, spoken(1, 1, *[0, 2] * 8), **on) == ("pause", 8)
    assert ends_at(pause, spoken(1, 0, 0, 0, 1, *[0] * 12), **on) == ("pause", 12)
    assert ends_at(pause, spoken(*[0] * 30), **on) == (None, 30)  # nothing was said
    assert ends_at(pause, spoken(*[1] * 30), **on) == (None, 30)


def test_separators_of_a_graph_from_elsewhere_are_silence(device):
    """One of OpenFst has tokens, but does not say which of them separates words."""
    graph = Graph(**(LETTERS.fields() | {"separator": None, "separator_column": None}))
    pause = Endpoint({"pause": EndpointRule(min_trailing_silence=0.6)})
    decoder = CtcDecoder(graph, device=device, threads=1, frame_shift=0.1)
    ended = decoder.stream(endpoint=pause).decode_chunk(spoken(1, 1, *[0, 2] * 8))
    assert (ended.endpoint, ended.num_frames) == ("pause", 8)


def test_the_rules_of_kaldi(device):
    """By hand: 20 ms frames, checks every 10."""
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
        [pair] = conform([decoder], [log_probs], np.random.default_rng(0), None, most, pause, [{}])
        found = pair.finals
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
    with pytest.warns(
        UserWarning, match=r"endpoint, in frame 6; the result is that sentence, and 9 frames after it wait: call str"
    ):
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


@pytest.mark.parametrize("way", ["decode_chunk", "decode_chunks", "Batcher"])
def test_a_last_chunk_after_an_endpoint_without_reset(device, way):
    decoder = CtcDecoder(LETTERS, device=device, threads=1, frame_shift=0.1)
    pause = Endpoint({"pause": EndpointRule(min_trailing_silence=0.4)})
    chunks = np.array_split(spoken(*[1, 0, 0, 0, 0, 0, 0] * 2), 7)

    def speech(follows):
        """The results of the chunks, the last of which has last=True; `follows` resets after each endpoint."""
        stream = decoder.stream(endpoint=pause)
        with Batcher(decoder) as batcher:
            for at, chunk in enumerate(chunks):
                last = at == len(chunks) - 1
                if way == "decode_chunk":
                    found = stream.decode_chunk(chunk, last=last)
                elif way == "decode_chunks":
                    [found] = decoder.decode_chunks([stream], [chunk], last=[last])
                else:
                    found = batcher.submit(stream, chunk, last=last).result()
                while follows and found.endpoint and not stream.is_finished:
                    found = stream.reset()
        return stream

    with pytest.warns(UserWarning, match=r"^stream: the last chunk came after .* frame 6; .* 8 frames after it wait"):
        stream = speech(follows=False)
    assert stream.num_waiting == 8
    with warnings.catch_warnings(action="error"):
        stream = speech(follows=True)
        stream_of_one = decoder.stream(endpoint=pause)
        found = stream_of_one.decode_chunk(np.concatenate(chunks), last=True)  # its frames wait, and reset() is to come
        assert found.endpoint and stream_of_one.num_waiting == 8
        with Batcher(decoder, max_frames=3) as batcher:  # the chunk is cut, and has its endpoint in an earlier piece
            cut = batcher.submit(decoder.stream(endpoint=pause), np.concatenate(chunks), last=True).result()
        assert (cut.endpoint, cut.text) == (found.endpoint, found.text)
    assert stream.is_finished and stream.num_waiting == 0


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("requested", [{}, {"lattice": True}])
@pytest.mark.parametrize(("columns", "wanted"), [((0, 0, 1, *[0, 2] * 9), ("pause", 12)), ((0,) * 20, (None, 20))])
def test_silence_is_counted_once(device, columns, wanted, requested, moves):
    """Frame by frame, so that nearly all of a pause is settled, and still in the log of a stream that keeps links."""
    decoder = CtcDecoder(LETTERS, device=device, threads=1, frame_shift=0.1)
    stream = decoder.stream(endpoint=Endpoint({"pause": EndpointRule(min_trailing_silence=0.8)}), **requested)
    for row in spoken(*columns):
        settled = stream.num_settled
        stream.decode_chunk(row[np.newaxis])
        stream = decoder.restore(stream.save()) if moves else stream
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
    for most in (3, 100):
        [pair] = conform([decoder], [wide], np.random.default_rng(0), None, most, pause, [{}])
        assert len(pair.finals) >= 4


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


def test_the_next_sentence_may_have_another_boost(device):
    decoder = CtcDecoder(SILENCE, **OPTIONS | {"device": device})
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


class FollowingKenLm(KenLmDeviations):
    def __init__(self, graph, model, small, said):
        super().__init__(graph, model, small)
        seen = model.order - 1
        words = [graph.word_symbols[word] for word in said[len(said) - min(seen, len(said)) :]]
        self.words = words if len(said) >= seen else ["<s>", *words]

    def start(self):
        return self.state(self.words), self.small.start


@pytest.mark.parametrize(
    ("rules", "error", "said"),
    [
        (
            lambda: EndpointRule(min_trailing_silence=500),
            ValueError,
            "expected at most 60 seconds, got 500; write 500 mil",
        ),
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
