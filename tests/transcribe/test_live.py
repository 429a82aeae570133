"""Live audio: the sentences are those of the whole recording, and each event agrees with what was stable before."""

import contextlib
from functools import partial

import numpy as np
import pytest

import arcbeam
from tests.processes import in_threads
from tests.transcribe import tones
from tests.transducer.networks import random_arrays

SENTENCES = tones.random_sentences(2, 8)
AUDIO = tones.recording(SENTENCES)


@pytest.fixture(scope="module")
def transcriber():
    pytest.importorskip("kaldifst", reason="kaldifst is not installed: .[build]")
    return arcbeam.Transcriber(tones.ToneModel())


def final(events):
    return [event.segment for event in events if event.is_final]


@pytest.mark.parametrize("piece", [160, 4000, 100_000])
def test_sentences_are_those_of_the_whole_recording(transcriber, piece):
    chunks = np.split(AUDIO, range(piece, len(AUDIO), piece))
    events = [*transcriber.stream(chunks, window_seconds=2.0, step_seconds=0.5, ahead_seconds=0.2)]
    assert tuple(final(events)) == transcriber.transcribe(AUDIO).segments
    stable = ""
    for event in events:
        assert event.text.startswith(stable) and event.text.startswith(event.stable_text)
        assert [word.word for word in event.stable_words] == event.stable_text.split()
        stable = "" if event.is_final else event.stable_text
        assert event.to_dict()["is_final"] is event.is_final and str(event) == event.text


def test_words_come_while_they_are_spoken(transcriber):
    recording, known = transcriber.live(step_seconds=0.5, ahead_seconds=0.2), []
    said = tones.recording(["abc abc abc abc abc abc abc abc"])
    for chunk in np.split(said, range(1600, len(said), 1600)):
        for event in recording.add(chunk):
            assert not event.is_final
            known.append((recording.seconds, event.segment.end))
    assert len(known) > 3
    assert all(now - end <= 0.5 + 0.2 + 0.1 + 1.0 for now, end in known)  # a second is the silence at the end
    [event] = recording.finish()
    assert event.is_final and event.text == "abc abc abc abc abc abc abc abc"
    assert recording.is_finished and recording.seconds == len(said) / tones.RATE


@pytest.mark.parametrize("rounds", [None, False, True], ids=["alone", "in rounds", "in rounds, with auto_reset"])
def test_many_recordings_at_once(transcriber, rounds):
    texts = [tones.random_sentences(seed, 3) for seed in range(8)]
    audios = [tones.recording(one) for one in texts]

    def follow(at, batcher):
        chunks = np.split(audios[at], range(3000, len(audios[at]), 3000))
        events = transcriber.stream(chunks, window_seconds=3.0, batcher=batcher)
        said = [segment.text for segment in final(events)]
        return said, transcriber.transcribe(audios[at], batcher=batcher)

    with contextlib.ExitStack() as stack:
        batcher = None if rounds is None else arcbeam.Batcher(transcriber.decoder, auto_reset=rounds)
        if batcher is not None:
            stack.enter_context(batcher)
        found = in_threads(*(partial(follow, at, batcher) for at in range(len(texts))))
        assert batcher is None or batcher.stats().decoded > 0
    assert [said for said, _ in found] == texts
    assert [whole for _, whole in found] == [transcriber.transcribe(audio) for audio in audios]


def test_a_batcher_of_another_decoder(transcriber):
    with pytest.raises(TypeError, match=r"^batcher: expected an arcbeam.Batcher or None, got str"):
        transcriber.live(batcher="rounds")
    with arcbeam.Batcher(tones.ToneModel().decoder) as other:
        for wrong in (transcriber.live, lambda batcher: transcriber.transcribe(AUDIO, batcher=batcher)):
            with pytest.raises(ValueError, match=r"^batcher: expected one of this transcriber's decoder"):
                wrong(batcher=other)


def test_bad_samples_are_left_out(transcriber):
    recording = transcriber.live()
    half = len(AUDIO) // 2
    events = recording.add(AUDIO[:half])
    for wrong, error in [(np.full(10, np.inf), ValueError), (np.zeros(10, np.int16), TypeError)]:
        with pytest.raises(error, match=r"^samples: expected"):
            recording.add(wrong)
    with pytest.warns(UserWarning, match=r"^samples: expected samples from -1 to 1, got one of size 9000: are they of"):
        arcbeam.Transcriber(tones.ToneModel()).live().add(np.full(10, 9000.0))
    with pytest.raises(ValueError, match="expected at most 2 channels"):
        recording.add(np.zeros((10, 3)))
    events += recording.add(np.stack([AUDIO[half:]] * 2, axis=1))
    events += recording.finish()
    assert [segment.text for segment in final(events)] == SENTENCES
    with pytest.raises(ValueError, match=r"^samples: expected none after finish\(\)"):
        recording.add(AUDIO)
    with pytest.raises(ValueError, match="expected none after finish"):
        recording.finish()


def test_a_model_that_fails_once_loses_nothing():
    """Neither within the recording nor at its end, also of one that is resampled."""
    pytest.importorskip("kaldifst", reason="kaldifst is not installed: .[build]")
    soxr = pytest.importorskip("soxr", reason="soxr is not installed: .[onnx]")
    model = tones.ToneModel()
    with pytest.warns(
        UserWarning, match=r"^fewer than the model's 16,000 samples a second, so .* trained with: samples$"
    ):
        recording = arcbeam.Transcriber(model).live(sample_rate=8000)
    encode = model.encode

    def fail(*_, **__):
        raise MemoryError

    model.encode = fail
    with pytest.raises(MemoryError):
        recording.add(soxr.resample(AUDIO, tones.RATE, 8000))
    with pytest.raises(MemoryError):
        recording.finish()
    model.encode = encode
    events = recording.add(AUDIO[:0]) + recording.finish()
    assert [segment.text for segment in final(events)] == SENTENCES


def test_nothing_was_said(transcriber):
    assert [*transcriber.stream([])] == [] == [*transcriber.stream([tones.silence(1)])]
    assert [*transcriber.stream([tones.silence(10), tones.silence(500)])] == []


def test_rates_and_seconds_that_do_not_fit(transcriber):
    with pytest.raises(ValueError, match=r"^sample_rate: expected a whole number of at least 1, or None, got 0"):
        transcriber.live(sample_rate=0)
    with pytest.raises(ValueError, match=r"^step_seconds: .* at most window_seconds=2, got 1.5"):
        transcriber.live(window_seconds=2.0, step_seconds=1.5)
    with pytest.raises(ValueError, match=r"^ahead_seconds: expected a number of seconds, at least 0"):
        transcriber.live(ahead_seconds=-1.0)


@pytest.mark.parametrize("beam", [{}, {"beam": 4.0}, {"beam": 6.0, "settle_frames": 10}], ids=str)
def test_a_transducer_greedily_and_with_a_beam(beam):
    """Segments are those of the whole recording; what was stable stays, with its times."""
    model = tones.ToneModel()
    pieces = ["▁a", "b", "c", "▁d", "▁", "e", "f", "g", "▁h", "i", "j", "k"]
    arrays = random_arrays(23, blank=12, blank_bias=3.0)
    arrays["encoder_weight"] *= 0.1  # for log-probs
    model.decoder = arcbeam.TransducerDecoder.from_arrays(
        arrays, 12, tokenizer=pieces, frame_shift=tones.FRAME / tones.RATE, max_symbols=2, device="cpu", **beam
    )
    rule = arcbeam.EndpointRule(must_contain_nonsilence=False, min_trailing_silence=0.0, min_utterance_length=4.0)
    transcriber = arcbeam.Transcriber(model, endpoint=arcbeam.Endpoint({"long": rule}))
    chunks = np.split(AUDIO, range(4000, len(AUDIO), 4000))
    events = [*transcriber.stream(chunks, window_seconds=2.0, step_seconds=0.5, ahead_seconds=0.2)]
    assert tuple(final(events)) == transcriber.transcribe(AUDIO).segments and len(final(events)) > 1
    stable = ()
    for event in events:
        assert tuple(event.segment.words[: len(stable)]) == tuple(stable)
        stable = () if event.is_final else event.stable_words
    assert any(event.stable_words for event in events if not event.is_final)
