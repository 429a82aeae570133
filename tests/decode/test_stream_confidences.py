"""Confidences of frames of streams: the bytes of `decode` for the frames of each sentence, whatever led to it."""

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import ConfidenceMethod, CtcDecoder, Endpoint, EndpointRule, FormatError, Graph
from arcbeam.core.confidence import AGGREGATIONS, resolve
from arcbeam.ctc.confidence._frame_confidence import FrameConfidenceEngine
from arcbeam.streams.waiting import PIECE
from tests.decode import graphs
from tests.decode.stream_confidences import METHODS, NOT_REQUESTED, confidences, follow
from tests.decode.test_endpoints import OPTIONS, RULES, SILENCE, SPEECH
from tests.decode.test_stream_states import changed, state_array
from tests.graph import sealing
from tests.hypothesis_examples import examples

slow = settings(deadline=None, max_examples=examples(120), suppress_health_check=[HealthCheck.too_slow])
BATCH = [np.roll(SPEECH, 20 * i, axis=0)[: 70 - 9 * i] for i in range(5)]
REQUESTED = ({}, {"nbest": 2, "confidence": True, "interim_answers": True}, {"posteriors": True})


def decoder(graph=SILENCE, **options):
    return CtcDecoder(graph, **OPTIONS | options)


@slow
@given(
    st.integers(0, 2**32),
    st.integers(1, len(BATCH)),
    st.permutations(METHODS),
    st.sampled_from([2, 9, 100]),
    st.sampled_from([None, RULES]),
)
def test_any_chunks_in_any_company(seed, streams, methods, most, endpoint):
    """With endpoints and without, refused chunks, moves, and methods of their own."""
    follow([decoder(threads=1), decoder()], BATCH[:streams], np.random.default_rng(seed), methods, most, endpoint)


@slow
@given(
    st.integers(0, 2**32),
    graphs.graphs(blank=3),
    st.lists(graphs.log_probs(max_frames=12), min_size=1, max_size=3),
    st.sampled_from([0.0, 0.5, 2.0, 30.0]),
    st.permutations(METHODS),
)
def test_any_graph(seed, graph, batch, beam, methods):
    """Graphs with dead ends and ties, searches that die, frames in which nothing can come."""
    rules = Endpoint({"pause": EndpointRule(min_trailing_silence=0.2), "long": EndpointRule(min_utterance_length=0.5)})
    follow([decoder(graph, beam=beam)], batch, np.random.default_rng(seed), methods, 4, rules)


@pytest.mark.parametrize("seed", range(3))
def test_beside_other_answers(seed):
    ones = [decoder(lattice_beam=4.0) for _ in range(2)]
    follow(ones, [one[:40] for one in BATCH], np.random.default_rng(seed), METHODS[:1], 9, RULES, REQUESTED, moves=0.1)


def test_what_waits_is_decoded_in_pieces_and_not_measured_again():
    one, speech = decoder(), np.tile(SPEECH, (5, 1))
    assert len(speech) > 2 * PIECE
    stream = one.stream(endpoint=RULES, frame_confidence="entropy")
    calls = counted(one)
    partial, first, ended = stream.decode_chunk(speech, last=True), 0, 0
    while True:
        [whole] = one.decode([speech[first : partial.num_frames]], frame_confidence="entropy")
        calls.pop()
        assert partial.frame_confidence.tobytes() == whole.frame_confidence.tobytes()
        assert partial.word_confidence.tobytes() == whole.word_confidence.tobytes()
        first, ended = partial.num_frames, ended + 1
        if stream.is_finished:
            break
        partial = stream.reset()
    assert first == len(speech) and ended > 20 and calls == [[len(speech)]]


def counted(one):
    """The frames of each utterance of the calls that the decoder makes from now on of the engine that measures."""
    calls = []

    class Counting:
        def __init__(self):
            self.engine = FrameConfidenceEngine(threads=1)

        def confidences(self, table, columns, by):
            calls.append(table[:, 2].tolist())
            return self.engine.confidences(table, columns, by)

        def release(self):
            self.engine.release()

    one._search.measurer._engine = Counting()
    return calls


def test_a_round_is_one_call_for_each_method():
    one = decoder()
    calls = counted(one)
    methods = ["entropy", None, ConfidenceMethod(), "max_prob", None, "entropy", resolve("max_prob")]
    streams = [one.stream(frame_confidence=method) for method in methods]
    chunks = [SPEECH[: 3 + i] for i in range(len(streams))]
    for _ in range(2):
        found = one.decode_chunks(streams, chunks)
        assert sorted(calls) == [[3, 5, 8], [6, 9]]
        assert [partial.frame_confidence is None for partial in found] == [method is None for method in methods]
        calls.clear()
    plain = [streams[1], streams[4]]
    one.decode_chunks(plain, [SPEECH, SPEECH])
    assert calls == []


def test_streams_without_keep_nothing():
    one = decoder()
    stream = one.stream()
    partial = stream.decode_chunk(SPEECH[:9])
    assert confidences(partial) == NOT_REQUESTED
    assert not {"labels", "frame_confidence"} & set(partial.to_dict())
    assert "confidences" not in sealing.sections(stream.save())


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_aggregations(aggregation):
    one = decoder(confidence_aggregation=aggregation)
    stream = one.stream(frame_confidence="entropy")
    for at in range(0, len(SPEECH), 10):
        stream.decode_chunk(SPEECH[at : at + 10])
    [whole] = one.decode([SPEECH], frame_confidence="entropy")
    final = stream.finish()
    assert final.token_confidence.tobytes() == whole.token_confidence.tobytes()
    assert final.word_confidence.tobytes() == whole.word_confidence.tobytes()
    assert final.labels == whole.labels


def test_arrays_of_a_batch_lengths_and_float16():
    one = decoder()
    batch = np.stack([SPEECH[:12], SPEECH[20:32], SPEECH[40:52]]).astype(np.float16)
    lengths = [12, 5, 0]
    streams = [one.stream(frame_confidence=method) for method in ("entropy", "max_prob", "entropy")]
    found = one.decode_chunks(streams, batch, lengths, last=True)
    for partial, rows, length, method in zip(found, batch, lengths, ("entropy", "max_prob", "entropy"), strict=True):
        [whole] = one.decode([rows[:length]], frame_confidence=method)
        assert partial.frame_confidence.tobytes() == whole.frame_confidence.tobytes()
        assert partial.word_confidence.tobytes() == whole.word_confidence.tobytes()


def wide():
    """A graph that does not know how many columns the log-probs have, and log-probs with more than it reads."""
    graph = Graph(**SILENCE.fields() | {"tokens": None, "width_is_exact": False})
    rng = np.random.default_rng(1)
    more = np.concatenate([SPEECH, rng.normal(-2, 2, (len(SPEECH), 5)).astype(np.float32)], axis=1)
    assert not graph.width_is_exact
    return decoder(graph), more


def test_columns_that_the_graph_does_not_read_count_also_after_an_endpoint():
    one, more = wide()
    stream = one.stream(endpoint=RULES, frame_confidence="entropy")
    partial, ended = stream.decode_chunk(more, last=True), 0
    while not stream.is_finished:
        [whole] = one.decode([more[partial.first_frame : partial.num_frames]], frame_confidence="entropy")
        assert partial.frame_confidence.tobytes() == whole.frame_confidence.tobytes()
        stream = one.restore(stream.save())
        partial, ended = stream.reset(), ended + 1
    assert ended > 3
    [narrow] = one.decode([SPEECH], frame_confidence="entropy")
    assert whole.frame_confidence.tobytes() != narrow.frame_confidence[: len(whole.frame_confidence)].tobytes()


def test_a_method_that_more_columns_break_refuses_the_chunk_alone():
    one, more = wide()
    steep = ConfidenceMethod(name="max_prob", alpha=285.0)  # 12 ** 285 is a float, 17 ** 285 is none
    streams = [one.stream(frame_confidence=method) for method in (steep, "entropy", None)]
    chunks = [more[:5]] * 3
    found = one.decode_chunks(streams, chunks, errors="return")
    assert "confidence alpha: expected a smaller number for 17 tokens" in str(found[0].error)
    assert [partial.error is None for partial in found] == [False, True, True]
    assert [stream.num_frames for stream in streams] == [0, 5, 5]
    with pytest.raises(ValueError, match="confidence alpha: expected a smaller number for 17 tokens"):
        one.decode_chunks(streams, chunks)
    assert [stream.num_frames for stream in streams] == [0, 5, 5]
    assert len(streams[0].decode_chunk(SPEECH[:5]).frame_confidence) == 5


def test_bad_requests():
    one = decoder()
    for wrong in ("sure", 1, True):
        with pytest.raises(ValueError, match='frame_confidence: expected "max_prob" or "entropy", an arcbeam'):
            one.stream(frame_confidence=wrong)
    with pytest.raises(ValueError, match="confidence alpha: expected a smaller number for 12 tokens"):
        one.stream(frame_confidence=ConfidenceMethod(name="max_prob", alpha=1e6))
    blind = decoder(Graph(**SILENCE.fields() | {"blank": None, "tokens": None}))
    with pytest.raises(ValueError, match="frame_confidence: the graph has no blank; give blank="):
        blind.stream(frame_confidence="entropy")
    with pytest.raises(TypeError, match="unknown option confidences: expected one of boost"):
        one.stream(confidences="entropy")


def test_streams_are_as_before_if_their_frames_cannot_be_measured():
    one = decoder()
    streams = [one.stream(frame_confidence=method, endpoint=RULES) for method in ("entropy", None, "max_prob")]
    one.decode_chunks(streams, [SPEECH[:7]] * 3)
    before = [stream.save() for stream in streams]

    class Short:
        def confidences(self, table, columns, by):
            raise MemoryError("out of memory for the confidences of the frames of utterance 0")

    one._search.measurer._engine = Short()
    with pytest.raises(MemoryError):
        one.decode_chunks(streams, [SPEECH[7:20]] * 3, errors="return")
    assert [stream.save() for stream in streams] == before
    one._search.measurer._engine = None
    for partial in one.decode_chunks(streams, [SPEECH[7:9]] * 3):
        assert partial.num_frames == 9


def test_a_reset_that_breaks_off_leaves_the_confidences_of_what_waits(monkeypatch):
    one = decoder()
    stream = one.stream(frame_confidence="entropy", nbest=2, interim_answers=True, endpoint=RULES)
    partial = stream.decode_chunk(SPEECH)
    before = stream.save()

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(one._chunks, "outputs", fail)
    with pytest.raises(KeyboardInterrupt):
        stream.reset()
    monkeypatch.undo()
    assert stream.save() == before and stream.num_waiting > 0 and stream.partial is partial
    while True:
        frames = SPEECH[partial.first_frame : partial.num_frames]
        [whole] = one.decode([frames], frame_confidence="entropy")
        assert len(frames) and partial.frame_confidence.tobytes() == whole.frame_confidence.tobytes()
        if not stream.num_waiting:
            break
        partial = stream.reset()


def test_frames_that_the_stream_has_not_got_are_missed():
    """By Ctrl-C between the search and the result: a stream without their confidences does not go on."""
    one = decoder()
    stream, other = (one.stream(frame_confidence="entropy") for _ in range(2))
    one.decode_chunks([stream, other], [SPEECH[:7], SPEECH[:9]])
    stream._state = other._state
    for call in (stream.save, stream.finish):
        with pytest.raises(ValueError, match="interrupted in the middle of a chunk"):
            call()
    assert len(stream.partial.frame_confidence) == 7
    stream.reset()
    [whole] = one.decode([SPEECH[7:]], frame_confidence="entropy")
    assert stream.decode_chunk(SPEECH[7:]).frame_confidence.tobytes() == whole.frame_confidence.tobytes()


def test_a_restored_stream_needs_the_same_aggregation():
    data = ended(decoder()).save()
    other = decoder(confidence_aggregation="mean")
    with pytest.raises(ValueError, match="expected a stream with confidence_aggregation='mean', as this") as error:
        other.restore(data)
    assert not isinstance(error.value, FormatError)
    plain = decoder().stream()
    plain.decode_chunk(SPEECH[:9])
    assert other.restore(plain.save()).save() == plain.save()  # which depends on it in nothing


def ended(one, method="entropy"):
    """A stream at an endpoint, after which frames wait."""
    stream = one.stream(endpoint=RULES, frame_confidence=method)
    stream.decode_chunk(SPEECH)
    assert stream.partial.endpoint and stream.num_waiting
    return stream


def test_a_state_has_the_confidences_of_all_frames():
    one = decoder()
    [whole] = one.decode([SPEECH], frame_confidence="entropy")
    assert state_array(ended(one).save(), "confidences").tobytes() == whole.frame_confidence.tobytes()
    one_third = ConfidenceMethod(alpha=np.float32(0.25), entropy_type="gibbs")
    data = ended(one, one_third).save()
    moved = one.restore(data)
    assert moved.save() == data and moved._method == dataclasses.replace(one_third, alpha=0.25)


NONE = np.empty(0, np.float32)
METHOD = {"name": "entropy", "entropy_type": "tsallis", "alpha": 0.33, "entropy_norm": "exp"}


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"confidences": NONE}, rf"expected a confidence for each of {len(SPEECH)} frames, got 0"),
        ({"confidences": np.ones(len(SPEECH) + 1, np.float32)}, "expected a confidence for each of"),
        ({"confidences": np.full(len(SPEECH), np.nan, np.float32)}, "expected confidences of frames from 0 to 1"),
        ({"confidences": np.full(len(SPEECH), 1.5, np.float32)}, "expected confidences of frames from 0 to 1"),
        ({"confidences": np.full(len(SPEECH), -0.1, np.float32)}, "expected confidences of frames from 0 to 1"),
        ({"frame_confidence": None}, r"expected the sections \[.*\], got \["),
        ({"frame_confidence": {}}, "got 0"),
        ({"frame_confidence": METHOD | {"name": "sure"}}, "confidences of frames cannot be read: confidence name"),
        ({"frame_confidence": METHOD | {"alpha": 0.0}}, "confidences of frames cannot be read: confidence alpha"),
        ({"frame_confidence": METHOD | {"alpha": "1"}}, "confidences of frames cannot be read: confidence alpha"),
        ({"frame_confidence": METHOD | {"alpha": 1e9, "name": "max_prob"}}, "confidences of frames cannot be used"),
        ({"frame_confidence": METHOD | {"sure": 1}}, "confidences of frames cannot be read: unknown option sure"),
        ({"frame_confidence": METHOD | {"entropy_norm": [1]}}, "confidences of frames cannot be read"),
        ({"frame_confidence": "entropy"}, "frame_confidence"),
    ],
)
def test_states_that_do_not_fit_say_why(facts, said):
    one = decoder()
    data = ended(one).save()
    assert changed(data) == data
    if facts == {"frame_confidence": {}}:  # a method of defaults, whose confidences are missing
        facts, said = facts | {"confidences": NONE}, "expected a confidence for each"
    with pytest.raises(FormatError, match=said):
        one.restore(changed(data, **facts))


def test_confidences_of_a_stream_that_asks_for_none_are_refused():
    one = decoder()
    plain = one.stream()
    plain.decode_chunk(SPEECH[:9])
    data = plain.save()
    for facts in ({"frame_confidence": METHOD}, {"frame_confidence": METHOD, "graph": "another"}):
        with pytest.raises(FormatError, match=r"expected the sections \[.*'confidences'"):
            one.restore(changed(data, **facts))


def test_forged_confidences_are_refused_or_harmless():
    """Checksums are made to fit; what gets through is decoded with."""
    one, rng, accepted = decoder(), np.random.default_rng(0), 0
    data = ended(one).save()
    offset, size = sealing.sections(data)["confidences"]
    for _ in range(200):
        at, number = offset + 4 * int(rng.integers(size // 4)), rng.integers(0, 256, 4, np.uint8).tobytes()
        number = number if rng.random() < 0.5 else np.float32(rng.random()).tobytes()
        try:
            restored = one.restore(sealing.reseal(sealing.poke(data, at, number)))
        except FormatError as error:
            assert "expected confidences of frames from 0 to 1" in str(error)
            continue
        accepted += 1
        for partial in (restored.partial, restored.reset()):
            assert ((partial.frame_confidence >= 0) & (partial.frame_confidence <= 1)).all() and partial.labels
    assert 0 < accepted < 200
