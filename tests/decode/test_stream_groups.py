"""Groups of streams: a round of one is the round of its list, and what is wrong with it says so."""

import copy
import pickle

import numpy as np
import pytest

from arcbeam import Batcher, CtcDecoder, InputError, Stream, StreamGroup
from tests.decode.equality import same
from tests.decode.test_streams import BATCH, GRAPH, OPTIONS, boost, plain

pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")
FRAMES = 5
ROUNDS = 4
CHUNKS = np.stack([one[: FRAMES * ROUNDS] for one in BATCH if len(one) >= FRAMES * ROUNDS])
COUNT = len(CHUNKS)


def chunk(number: int) -> np.ndarray:
    """[streams, frames, columns]: of a round."""
    return CHUNKS[:, number * FRAMES : (number + 1) * FRAMES]


def check(got, expected):
    """The same results: paths, words and what is known of the sentence, as bytes."""
    assert got.texts() == [one.text for one in expected]
    for one, other in zip(got, expected, strict=True):
        assert one.arcs.tobytes() == other.arcs.tobytes()
        assert (one.score, one.num_frames, one.is_final) == (other.score, other.num_frames, other.is_final)
        assert (one.words, one.num_stable) == (other.words, other.num_stable)


def begun(decoder: CtcDecoder) -> list[Stream]:
    """Streams with boosts and without."""
    return [decoder.stream(boost=boost(i) if i % 2 else None) for i in range(COUNT)]


@pytest.mark.parametrize("as_list", [False, True])
def test_rounds_of_a_group_are_those_of_its_list(as_list):
    decoder = plain()
    group, alone = decoder.group(begun(decoder)), begun(decoder)
    for number in range(ROUNDS):
        last = number == ROUNDS - 1
        chunks = list(chunk(number)) if as_list else chunk(number)
        check(decoder.decode_chunks(group, chunks, last=last), decoder.decode_chunks(alone, chunk(number), last=last))
    wholes = decoder.decode(list(CHUNKS), boost=[stream.boost for stream in group])
    same([stream.partial for stream in group], wholes)


def test_a_group_is_a_sequence_in_the_order_of_its_streams():
    decoder = plain()
    streams = begun(decoder)
    group = decoder.group(reversed(streams))
    assert isinstance(group, StreamGroup)
    assert list(group) == streams[::-1]
    assert group[0] is streams[-1]
    assert group[1:] == streams[::-1][1:]
    assert streams[0] in group
    assert repr(group) == f"StreamGroup({COUNT} streams)"
    streams.clear()  # the group has its own list
    assert len(group) == COUNT
    found = decoder.decode_chunks(group, chunk(0)[::-1])
    check(found, decoder.decode_chunks(begun(decoder)[::-1], chunk(0)[::-1]))


def test_a_chunk_for_each_stream():
    decoder = plain()
    group = decoder.group(begun(decoder))
    for few in (chunk(0)[1:], list(chunk(0))[1:]):
        with pytest.raises(ValueError, match=rf"expected a chunk for each stream, {COUNT}, got {COUNT - 1}$"):
            decoder.decode_chunks(group, few)
    assert [stream.num_frames for stream in group] == [0] * COUNT
    alone = begun(decoder)
    check(decoder.decode_chunks(group, chunk(0)), decoder.decode_chunks(alone, chunk(0)))
    assert len(decoder.decode_chunks(group[1:], chunk(1)[1:])) == COUNT - 1  # a slice is a list


def test_a_stream_without_frames_has_the_same_text():
    decoder = plain()
    group = decoder.group(begun(decoder))
    before = decoder.decode_chunks(group, CHUNKS[:, :15]).texts()
    assert any(before)
    lengths = [FRAMES] + [0] * (COUNT - 1)
    found = decoder.decode_chunks(group, chunk(3), lengths)
    after = found.texts()
    assert all(text is known for text, known in zip(after[1:], before[1:], strict=True))
    assert after == [one.text for one in found]
    ended = decoder.decode_chunks(group, chunk(3), [0] * COUNT, last=True)  # final weights may choose another path
    wholes = [CHUNKS[0, :20], *CHUNKS[1:, :15]]
    assert ended.texts() == [one.text for one in decoder.decode(wholes, boost=[stream.boost for stream in group])]


def test_a_stream_of_two_groups():
    decoder = plain()
    streams, alone = begun(decoder), begun(decoder)
    some, all_of_them = decoder.group(streams[:2]), decoder.group(streams)
    check(decoder.decode_chunks(some, chunk(0)[:2]), decoder.decode_chunks(alone[:2], chunk(0)[:2]))
    check(decoder.decode_chunks(all_of_them, chunk(1)), decoder.decode_chunks(alone, chunk(1)))
    streams[1].decode_chunk(chunk(2)[1])
    alone[1].decode_chunk(chunk(2)[1])
    check(decoder.decode_chunks(some, chunk(3)[:2]), decoder.decode_chunks(alone[:2], chunk(3)[:2]))


@pytest.mark.parametrize("errors", ["raise", "return"])
def test_a_bad_chunk_leaves_its_stream_as_it_was(errors):
    decoder = plain()
    group, alone = decoder.group(begun(decoder)), begun(decoder)
    bad = chunk(0).copy()
    bad[1, 2, 3] = np.nan
    if errors == "raise":
        with pytest.raises(InputError, match="utterance 1, frame 2, column 3"):
            decoder.decode_chunks(group, bad)
    else:
        found = decoder.decode_chunks(group, bad, errors="return")
        assert [one.error is not None for one in found] == [at == 1 for at in range(COUNT)]
    assert [stream.num_frames for stream in group] == [0 if at == 1 else FRAMES for at in range(COUNT)]
    for at, stream in enumerate(alone):
        if at != 1:
            stream.decode_chunk(chunk(0)[at])
    check(decoder.decode_chunks(group, chunk(1)), decoder.decode_chunks(alone, chunk(1)))


def test_a_finished_stream_is_refused_until_it_is_reset():
    decoder = plain()
    group, alone = decoder.group(begun(decoder)), begun(decoder)
    group[2].finish()
    with pytest.raises(InputError, match="stream 2: expected no chunk after the last"):
        decoder.decode_chunks(group, chunk(0))
    found = decoder.decode_chunks(group, chunk(0), errors="return")
    assert found[2].error is not None
    decoder.decode_chunks(alone[:2] + alone[3:], np.delete(chunk(0), 2, axis=0))
    group[2].reset()
    check(decoder.decode_chunks(group, chunk(1)), decoder.decode_chunks(alone, chunk(1)))


def test_a_restored_stream():
    decoder = plain()
    group, alone = decoder.group(begun(decoder)), begun(decoder)
    decoder.decode_chunks(group, chunk(0))
    decoder.decode_chunks(alone, chunk(0))
    restored = decoder.group([decoder.restore(stream.save(), boost=stream.boost) for stream in group])
    expected = decoder.decode_chunks(alone, chunk(1))
    check(decoder.decode_chunks(restored, chunk(1)), expected)
    check(decoder.decode_chunks(group, chunk(1)), expected)  # of which a copy was saved


def test_what_is_no_group():
    decoder, other = plain(), plain()
    stream = decoder.stream()
    with pytest.raises(InputError, match="stream 1: expected one of this decoder, got one of another"):
        decoder.group([stream, other.stream()])
    with pytest.raises(InputError, match="expected each stream once, got the same at 0 and 1"):
        decoder.group([stream, stream])
    with pytest.raises(TypeError, match="expected a list of streams, got Stream"):
        decoder.group(stream)
    with pytest.raises(TypeError, match=r"expected what decoder\.stream\(\) returns, got int at 0"):
        decoder.group([1])
    group = other.group([other.stream()])
    with pytest.raises(InputError, match="expected a group of this decoder, got one of another"):
        decoder.decode_chunks(group, chunk(0)[:1])
    assert len(other.decode_chunks(group, chunk(0)[:1])) == 1
    assert decoder.decode_chunks(decoder.group([]), []).texts() == []


def test_streams_whose_chunks_wait_in_a_batcher():
    decoder = plain()
    group = decoder.group(begun(decoder))
    with Batcher(decoder, max_wait_ms=10_000.0) as batcher:
        waits = batcher.submit(group[1], chunk(0)[1])
        with pytest.raises(InputError, match="stream 1: expected one without chunks that wait in a Batcher"):
            decoder.decode_chunks(group, chunk(0))
        with pytest.raises(InputError, match="stream 1: expected one without chunks that wait in a Batcher"):
            decoder.group(group)
        batcher.close()
    assert waits.result().num_frames == FRAMES
    assert [one.num_frames for one in decoder.decode_chunks(group, chunk(1))] == [
        FRAMES + FRAMES * (at == 1) for at in range(COUNT)
    ]


def test_a_group_is_not_copied():
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    group = decoder.group([decoder.stream()])
    for act in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"expected the bytes of stream\.save\(\) of each stream"):
            act(group)
