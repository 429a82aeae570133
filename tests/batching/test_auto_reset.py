"""Streams that go on by themselves after endpoints: the sentences that a client would have got by `reset`."""

import random
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import arcbeam
from arcbeam import Batcher, CtcDecoder
from tests.batching.stand_ins import PATIENCE_S, Decoder
from tests.decode import test_endpoints as of_ctc
from tests.decode.test_interrupted_rounds import ANSWERS, answers
from tests.transducer import test_transducer_sentences as of_transducers
from tests.transducer.equality import as_bytes

pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


def ctc_bytes(partial):
    return (
        partial.arcs.tobytes(), partial.score, partial.partial_score, partial.words, partial.first_frame,
        partial.num_frames, partial.endpoint, partial.is_final,
    )  # fmt: skip


def transducer_bytes(partial):
    return as_bytes([partial]), partial.first_frame, partial.num_frames, partial.endpoint, partial.is_final


KINDS = {
    "ctc": (lambda: CtcDecoder(of_ctc.SILENCE, **of_ctc.OPTIONS), of_ctc.SPEECH, of_ctc.RULES, ctc_bytes),
    "transducer": (of_transducers.decoder, of_transducers.SPEECH, of_transducers.RULES, transducer_bytes),
    "beam": (
        lambda: of_transducers.decoder("tdt with a beam"),
        of_transducers.SPEECH,
        of_transducers.RULES,
        transducer_bytes,
    ),
}


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    make, speech, rules, seen = KINDS[request.param]
    return SimpleNamespace(decoder=make(), speech=speech, rules=rules, seen=seen)


def by_hand(kind, speech, ends):
    """The sentences of each chunk, and what is known after it, by `decode_chunk` and `reset`."""
    stream, begin, found = kind.decoder.stream(endpoint=kind.rules), 0, []
    for end in ends:
        partial = stream.decode_chunk(speech[begin:end], last=end == ends[-1])
        sentences, begin = [], end
        while partial.endpoint and not stream.is_finished:
            sentences.append(kind.seen(partial))
            partial = stream.reset()
        found.append((sentences + [kind.seen(partial)] * partial.is_final, kind.seen(partial)))
    return found


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32), max_frames=st.integers(1, 60), clients=st.integers(1, 4))
def test_sentences_are_those_of_reset(kind, seed, max_frames, clients):
    rng = random.Random(seed)
    with Batcher(kind.decoder, max_wait_ms=0.2, max_frames=max_frames, auto_reset=True) as batcher:
        found = []
        for _ in range(clients):
            speech = kind.speech[rng.randrange(60) :]
            ends = sorted({*(rng.randrange(len(speech)) for _ in range(rng.randrange(9))), len(speech)})
            stream = kind.decoder.stream(endpoint=kind.rules)
            futures = [
                batcher.submit(stream, speech[begin:end], last=end == ends[-1])
                for begin, end in zip([0, *ends], ends, strict=False)
            ]
            found.append((futures, by_hand(kind, speech, ends), stream))
        for futures, wanted, stream in found:
            got = [future.result(PATIENCE_S) for future in futures]
            assert all(type(one) is arcbeam.ChunkSentences for one in got)
            assert [(list(map(kind.seen, one.sentences)), kind.seen(one.partial)) for one in got] == wanted
            assert stream.is_finished and got[-1].partial is got[-1].sentences[-1]
            with pytest.raises(ValueError, match="expected no chunk after the last"):
                batcher.submit(stream, None).result(PATIENCE_S)


def test_without_rules_the_last_chunk_ends_the_sentence(kind):
    with Batcher(kind.decoder, auto_reset=True) as batcher:
        stream = kind.decoder.stream()
        first = batcher.submit(stream, kind.speech[:9]).result(PATIENCE_S)
        last = batcher.submit(stream, None, last=True).result(PATIENCE_S)
    assert first.sentences == () and first.partial.num_frames == 9 and not first.partial.is_final
    assert last.sentences == (last.partial,) and last.partial.is_final
    assert "auto_reset=True" in repr(batcher)


def test_answers_of_sentences():
    kind = SimpleNamespace(decoder=CtcDecoder(of_ctc.SILENCE, **of_ctc.OPTIONS), seen=answers)
    stream, wanted = kind.decoder.stream(endpoint=of_ctc.RULES, **ANSWERS), []
    partial = stream.decode_chunk(of_ctc.SPEECH, last=True)
    while not stream.is_finished:
        wanted.append(answers(partial))
        partial = stream.reset()
    with Batcher(kind.decoder, auto_reset=True, max_frames=17) as batcher:
        stream = kind.decoder.stream(endpoint=of_ctc.RULES, **ANSWERS)
        found = batcher.submit(stream, of_ctc.SPEECH, last=True).result(PATIENCE_S)
    assert list(map(answers, found.sentences)) == [*wanted, answers(partial)]


def test_a_sentence_that_had_ended_before_goes_on(kind):
    """Of a stream that was saved or decoded elsewhere, with frames that wait."""
    stream, wanted = kind.decoder.stream(endpoint=kind.rules), by_hand(kind, kind.speech, [len(kind.speech)])
    stream.decode_chunk(kind.speech)
    assert stream.num_waiting
    with warnings.catch_warnings(action="error"), Batcher(kind.decoder, auto_reset=True) as batcher:
        found = batcher.submit(kind.decoder.restore(stream.save()), None, last=True).result(PATIENCE_S)
    assert list(map(kind.seen, found.sentences)) == wanted[0][0]


def test_an_error_in_reset_ends_the_stream(monkeypatch):
    decoder = Decoder()
    stream, other = decoder.stream("a"), decoder.stream("b")
    stream.reset = lambda: (_ for _ in ()).throw(MemoryError("no room"))
    decode = decoder.decode_chunks

    def at_an_end(streams, chunks, **options):
        found = decode(streams, chunks, **options)
        for one, partial in zip(streams, found, strict=True):
            partial.endpoint, partial.is_final = ("pause", True) if one is stream else (None, False)
        return found

    monkeypatch.setattr(decoder, "decode_chunks", at_an_end)
    with Batcher(decoder, max_wait_ms=0, auto_reset=True) as batcher:
        futures = [batcher.submit(one, 0) for one in (stream, other)]
        with pytest.raises(MemoryError, match="no room"):
            futures[0].result(PATIENCE_S)
        assert futures[1].result(PATIENCE_S).partial.text == "b 0"
        with pytest.raises(ValueError, match=r"a chunk before it was lost \(no room\)"):
            batcher.submit(stream, 1).result(PATIENCE_S)
        assert batcher.submit(other, np.int64(1)).result(PATIENCE_S).partial.text == "b 1"


def test_a_bad_option():
    with pytest.raises(TypeError, match="auto_reset: expected a bool, got int"):
        Batcher(Decoder(), auto_reset=1)
    with pytest.raises(ValueError, match="max_frames: expected a whole number of at least 1, got 0"):
        Batcher(Decoder(), max_frames=0)
