"""Sentences of transducers' streams: they end where a loop over frames says, and have the bytes of their frames."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbeam import Batcher, BoostingTree, Endpoint, EndpointRule, TransducerDecoder
from arcbeam.transducer.streams.endpoint import Rule, TransducerRules
from tests.hypothesis_examples import examples
from tests.transducer.equality import as_bytes
from tests.transducer.networks import random_arrays, random_frames

SHIFT = 0.08
EVERY = 2  # frames: the nearest number to 0.2 s
RULES = Endpoint(
    {
        "long": EndpointRule(must_contain_nonsilence=False, min_trailing_silence=0.0, min_utterance_length=1.6),
        "nothing": EndpointRule(must_contain_nonsilence=False, min_trailing_silence=0.8),
        "pause": EndpointRule(min_trailing_silence=0.24),
    }
)
TREE = BoostingTree({(1, 2): 9.0, (6,): 3.0}, vocab_size=12)
KINDS = {"rnnt": None, "tdt": [0, 1, 2, 4], "rnnt with a beam": None, "tdt with a beam": [0, 1, 2, 4]}
BEAM = {"beam": 3.0, "max_hypotheses": 4}
WITHOUT_AND_WITH = pytest.mark.parametrize("kind", ["rnnt", "tdt with a beam"])


def decoder(kind="rnnt", loop=TransducerDecoder, **options):
    arrays = random_arrays(4, blank=12, blank_bias=3.0, durations=len(KINDS[kind] or ()))
    options = (BEAM if "beam" in kind else {}) | options
    options = {"device": "cpu", "threads": 2, "frame_shift": SHIFT, "confidence": "entropy", **options}
    return loop.from_arrays(arrays, 12, durations=KINDS[kind], **options)


def spoken(seed, *lengths):
    """Frames that say something and, in turn, frames that are as good as silent."""
    parts = [random_frames(seed + i, n) * (3.0 if i % 2 == 0 else 0.0) for i, n in enumerate(lengths)]
    return np.concatenate(parts).astype(np.float32)


SPEECH = spoken(3, 5, 9, 4, 7, 30, 4, 6, 24, 8, 3, 9, 5, 12, 6)


def rule_at(whole, checked_at):
    """The rule that holds after `checked_at` frames of a sentence, whose tokens on these frames are known."""
    spoken = -1  # the last frame that a token was written on, or that its duration passes
    for token, frame in enumerate(whole.frames.tolist()):
        if frame < checked_at:
            spoken = frame + max(1, 1 if whole.durations is None else int(whole.durations[token])) - 1
    silence = max(0, checked_at - spoken - 1)
    for name, rule in RULES.rules.items():
        said = spoken >= 0 or not rule.must_contain_nonsilence
        seconds = (silence * SHIFT + 1e-9, checked_at * SHIFT + 1e-9)
        if said and seconds[0] >= rule.min_trailing_silence and seconds[1] >= rule.min_utterance_length:
            return name
    return None


def sentences(one, speech, tree=None):
    """(first frame, end, rule) of each sentence: every check decodes all frames of the sentence before it."""
    found, first = [], 0
    while True:
        for checked_at in range(EVERY, len(speech) - first + 1, EVERY):
            [whole] = one.decode([speech[first : first + checked_at]], boost=tree)
            if (name := rule_at(whole, checked_at)) is not None:
                found.append((first, first + checked_at, name))
                first += checked_at
                break
        else:
            return [*found, (first, len(speech), None)]


WANTED = {kind: sentences(decoder(kind), SPEECH) for kind in KINDS}


def followed(stream, speech, rng, most=9, moves=lambda stream: stream):
    """The final results of all sentences of a stream that is cut at random, and reset at random times."""
    finals, at = [], 0
    while True:
        if stream.partial.endpoint is not None and (stream._last_came or rng.random() < 0.6):
            finals.append(stream.partial)
            stream.reset()
        elif stream.is_finished:
            return [*finals, stream.partial]
        elif stream._last_came:
            raise AssertionError("a stream without an endpoint has frames that wait")
        else:
            end = at + int(rng.integers(0, most))
            stream.decode_chunk(speech[at:end], last=end > len(speech))
            at = end
        stream = moves(stream)
        assert stream.partial.num_frames + stream.num_waiting == min(at, len(speech))
        if at > len(speech) and stream.partial.endpoint is not None and not stream.num_waiting:
            return [*finals, stream.partial]


def same_sentences(found, wanted, one, speech, tree=None):
    if len(found) == len(wanted) - 1:  # the end of the speech is an end of a sentence
        assert wanted[-1][0] == wanted[-1][1]
        wanted = wanted[:-1]
    assert [(final.first_frame, final.num_frames, final.endpoint) for final in found] == wanted
    for final, (first, end, _) in zip(found, wanted, strict=True):
        [whole] = one.decode([speech[first:end]], boost=tree)
        assert final.is_final and (final.frames >= first).all()
        assert final.times.tolist() == (final.frames * SHIFT).tolist()
        assert as_bytes([final], first) == as_bytes([whole])


@pytest.mark.parametrize("kind", KINDS)
def test_sentences_are_those_of_a_loop_over_frames(kind):
    one, wanted = decoder(kind), WANTED[kind]
    lacking = {"nothing"} if "beam" in kind else set()
    assert {name for *_, name in wanted} >= {*RULES.rules, None} - lacking and len(wanted) > 8
    for seed, most in ((0, 3), (1, 12), (2, 400)):
        found = followed(one.stream(endpoint=RULES), SPEECH, np.random.default_rng(seed), most)
        same_sentences(found, wanted, one, SPEECH)


@pytest.mark.parametrize("kind", ["tdt", "tdt with a beam"])
def test_with_a_tree_and_in_company(kind):
    """Rounds of streams that stop and go on, with and without rules; a tree may change with a sentence."""
    one, rng = decoder(kind), np.random.default_rng(5)
    speech = [np.roll(SPEECH, 20 * i, axis=0)[:90] for i in range(4)]
    trees = [None, TREE, None, TREE]
    streams = [one.stream(boost=tree, endpoint=RULES if i else None) for i, tree in enumerate(trees)]
    at, finals = [0] * 4, [[] for _ in streams]
    while not all(stream._last_came for stream in streams):
        going = [i for i, stream in enumerate(streams) if not stream._last_came]
        ends = {i: at[i] + int(rng.integers(0, 20)) for i in going}
        chunks = [speech[i][at[i] : ends[i]] for i in going]
        partials = one.decode_chunks([streams[i] for i in going], chunks, last=[ends[i] > 90 for i in going])
        assert list(partials) == [streams[i].partial for i in going]
        at = [ends.get(i, at[i]) for i in range(4)]
        for i in going:
            if streams[i].partial.endpoint and rng.random() < 0.5:
                finals[i].append(streams[i].partial)
                streams[i].reset()
    for i, stream in enumerate(streams):
        while stream.num_waiting:
            finals[i].append(stream.partial)
            stream.reset()
        wanted = sentences(one, speech[i], trees[i]) if i else [(0, 90, None)]
        same_sentences([*finals[i], stream.partial], wanted, one, speech[i], trees[i])
    streams[3].reset(boost=BoostingTree({(5,): 1.0}, vocab_size=12))
    assert streams[3].boost is not TREE and streams[3].num_frames == 90


def test_rounds_without_an_end_take_one_call(monkeypatch):
    """And those with ends two, whatever the number of streams."""
    one, calls = decoder(), []
    inner = one._search.decode
    monkeypatch.setattr(one._search, "decode", lambda *arguments: calls.append(len(arguments[2])) or inner(*arguments))
    streams = [one.stream(endpoint=RULES) for _ in range(3)]
    one.decode_chunks(streams, [SPEECH[:7]] * 3)
    assert calls == [3] and not any(stream.partial.endpoint for stream in streams)
    one.decode_chunks(streams, [SPEECH[7:12], SPEECH[7:9], SPEECH[7:8]])  # the first end is after 8 frames
    assert calls == [3, 3, 2] and all(stream.partial.endpoint for stream in streams)
    assert [stream.num_waiting for stream in streams] == [4, 1, 0]


@WITHOUT_AND_WITH
def test_reset_without_an_endpoint(kind):
    """The next sentence begins where the one before was left; after the last chunk, more speech may follow."""
    one = decoder(kind)
    stream = one.stream()
    stream.decode_chunk(SPEECH[:21])
    begun = stream.reset()
    assert (begun.first_frame, begun.num_frames, begun.tokens.tolist(), begun.is_final) == (21, 21, [], False)
    final = stream.decode_chunk(SPEECH[21:40], last=True)
    same_sentences([final], [(21, 40, None)], one, SPEECH)
    assert stream.is_finished
    with pytest.raises(ValueError, match=r"no chunk after the last; stream\.reset\(\) begins the next sentence"):
        stream.decode_chunk(SPEECH[:1])
    stream.reset()
    same_sentences([stream.decode_chunk(SPEECH[40:70], last=True)], [(40, 70, None)], one, SPEECH)


@WITHOUT_AND_WITH
def test_what_waits_is_a_copy(kind):
    one = decoder(kind)
    stream, lent = one.stream(endpoint=RULES), SPEECH.copy()
    first = stream.decode_chunk(lent[:100])
    assert stream.decode_chunk(lent[100:], last=True) is first and not stream.is_finished
    lent[:] = np.nan
    found = []
    while stream.num_waiting:
        found.append(stream.partial)
        stream.reset()
    same_sentences([*found, stream.partial], WANTED[kind], one, SPEECH)
    assert f"endpoint={first.endpoint!r}" in repr(first)


@WITHOUT_AND_WITH
def test_a_chunk_that_waits_is_refused_as_a_whole_if_it_is_not_finite(kind):
    one = decoder(kind)
    stream = one.stream(endpoint=RULES)
    first = stream.decode_chunk(SPEECH[:60])
    waiting, bad = stream.num_waiting, SPEECH[60:70].copy()
    bad[4, 2] = np.inf
    [refused] = one.decode_chunks([stream], [bad], errors="return")
    assert "expected finite values, got inf in utterance 0, frame 4, feature 2" in str(refused.error)
    with pytest.raises(ValueError, match="got inf in utterance 0, frame 4, feature 2"):
        stream.decode_chunk(bad, last=True)
    assert (stream.partial, stream.num_waiting, stream._last_came) == (first, waiting, False)
    other = one.stream(endpoint=RULES)
    with pytest.raises(ValueError, match="got inf in utterance 0, frame 64, feature 2"):
        other.decode_chunk(np.concatenate([SPEECH[:60], bad]))
    assert (other.num_frames, other.num_waiting) == (0, 0)


@pytest.mark.parametrize("options", [{}, BEAM], ids=["greedy", "beam"])
def test_an_output_after_the_end_that_is_not_finite(options):
    """It is not met where the frames before the end are decoded, and is met by whoever goes on with those after it."""
    arrays = random_arrays(4, blank=12, blank_bias=4.0)
    one = TransducerDecoder.from_arrays(
        arrays, 12, device="cpu", threads=1, frame_shift=SHIFT, activation="relu", max_symbols=2, **options
    )
    end = sentences(one, SPEECH[:40])[0][1]
    speech = SPEECH[: end + 6].copy()
    speech[-1] = 3e38
    with pytest.raises(ValueError, match="network's output is not finite"):
        one.decode([speech])
    stream = one.stream(endpoint=RULES)
    assert stream.decode_chunk(speech).endpoint and (stream.num_frames, stream.num_waiting) == (end, 6)
    waits = one.stream(endpoint=RULES)
    waits.decode_chunk(speech[:end])
    assert waits.decode_chunk(speech[end:]).endpoint and waits.num_waiting == 6  # what waits has met no network yet
    with pytest.raises(ValueError, match="network's output is not finite in utterance 0, frame 5"):
        stream.reset()
    assert (stream.num_frames, stream.num_waiting, stream.partial.endpoint) == (end, 0, None)
    plain = one.stream(endpoint=Endpoint({"never": EndpointRule(min_trailing_silence=60.0)}))
    with pytest.raises(ValueError, match=f"network's output is not finite in utterance 1, frame {end + 5}"):
        one.decode_chunks([one.stream(), plain], [speech[:3], speech])
    assert plain.num_frames == 0


@pytest.mark.parametrize(
    ("endpoint", "options", "error", "said"),
    [
        (Endpoint(), {}, ValueError, r"without max_relative_cost.* got 2 in 'rule2'; give arcbeam\.Endpoint\.sherpa"),
        (RULES, {"frame_shift": None}, ValueError, "its rules need the seconds of a frame"),
        ("sherpa", {}, TypeError, "expected an arcbeam.Endpoint, such as"),
    ],
)
def test_bad_rules(endpoint, options, error, said):
    with pytest.raises(error, match=said):
        decoder(**options).stream(endpoint=endpoint)
    assert decoder().stream(endpoint=Endpoint.sherpa()).endpoint == Endpoint.sherpa()


def test_rules_in_frames():
    rules = TransducerRules.of(RULES, 0.08)
    assert rules.every == EVERY and [rule.min_trailing_silence for rule in rules.rules] == [0, 10, 3]
    assert rules.rules[0].min_utterance_length == 20
    assert (TransducerRules.of(RULES, 0.01).every, TransducerRules.of(RULES, 0.5).every) == (20, 1)


@settings(max_examples=examples(40))
@given(
    on=st.lists(st.integers(0, 40), max_size=8).map(sorted),
    cuts=st.lists(st.integers(0, 45), max_size=6).map(sorted),
    lasts=st.lists(st.integers(0, 6), min_size=8, max_size=8) | st.none(),
    every=st.integers(1, 7),
    silence=st.integers(0, 12),
    length=st.integers(0, 30),
    must=st.booleans(),
)
def test_checks_do_not_depend_on_chunks(on, cuts, lasts, every, silence, length, must):
    rules = TransducerRules((Rule(must, silence, length),), every)
    tokens, durations = np.array(on, np.int64), None if lasts is None else np.array(lasts[: len(on)], np.int32)
    whole = rules.first_end(tokens, durations, 0, 45)
    before, found = 0, None
    for end in [*cuts, 45]:
        found = found or rules.first_end(tokens, durations, before, end)
        before = end
    assert found == whole
    for checked_at in range(every, 46, every):
        said = [i for i, frame in enumerate(on) if frame < checked_at]
        quiet = checked_at
        if said:
            quiet = max(0, checked_at - on[said[-1]] - (1 if lasts is None else max(1, lasts[said[-1]])))
        if (said or not must) and quiet >= silence and checked_at >= length:
            assert whole == (checked_at, 1)
            return
    assert whole is None


@WITHOUT_AND_WITH
def test_through_a_batcher(kind):
    one = decoder(kind)
    with Batcher(one) as batcher:
        stream, finals = one.stream(endpoint=RULES), []
        for at in range(0, len(SPEECH), 7):
            partial = batcher.submit(stream, SPEECH[at : at + 7], last=at + 7 >= len(SPEECH)).result(60)
            while partial.endpoint and not stream.is_finished:
                finals.append(partial)
                partial = stream.reset()
    same_sentences([*finals, stream.partial], WANTED[kind], one, SPEECH)


def ended_with_frames_after(one, last=True):
    """A stream that has stopped at its first endpoint; `last`: its last chunk has come."""
    stream = one.stream(endpoint=RULES)
    assert stream.decode_chunk(SPEECH, last=last).endpoint is not None and stream.num_waiting
    return stream


def resets(stream):
    """The results up to the end of what waits."""
    found = []
    while not stream.is_finished:
        found.append(as_bytes([stream.reset()]))
    return found


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("name", ["start", "decode_next"])
@WITHOUT_AND_WITH
def test_reset_that_breaks_off_leaves_the_stream_as_before(monkeypatch, kind, name, after, last):
    """Before the next sentence has begun, before its first frames or after them."""
    one = decoder(kind)
    whole, stream = ended_with_frames_after(one, last), ended_with_frames_after(one, last)
    owner = one._search if name == "start" else one._chunks
    called, before, partial = getattr(owner, name), stream.save(), stream.partial

    def interrupted(*arguments):
        if after:
            called(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            stream.reset()
    assert stream.save() == before and stream.partial is partial and not stream.is_finished
    if last:
        assert resets(stream) == resets(whole)
    else:
        assert as_bytes([stream.reset()]) == as_bytes([whole.reset()])
