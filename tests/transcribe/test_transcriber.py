"""Audio of any length to sentences: the words of a long recording are those of its parts, at their times."""

import warnings

import numpy as np
import pytest

import arcbeam
from tests.transcribe import tones

SENTENCES = tones.random_sentences(1, 40)
LONG = tones.recording(SENTENCES)


@pytest.fixture(scope="module")
def model():
    pytest.importorskip("kaldifst", reason="kaldifst is not installed: .[build]")
    return tones.ToneModel()


@pytest.fixture(scope="module")
def short_windows(model):
    return arcbeam.Transcriber(model, window_seconds=4.0, overlap_seconds=1.0)


def test_sentences_are_those_that_were_said(model):
    found = arcbeam.Transcriber(model).transcribe(LONG)
    assert [segment.text for segment in found.segments] == SENTENCES and found.text == " ".join(SENTENCES)
    assert found.duration == len(LONG) / tones.RATE and (found.id, found.path) == ("audio", None)
    at = 50
    for segment, said in zip(found.segments, SENTENCES, strict=True):
        assert segment.start == pytest.approx(at * 0.02)
        assert segment.end == pytest.approx((at + 4 * len(said) - 1) * 0.02)
        assert [word.word for word in segment.words] == said.split() and segment.complete
        assert segment.words[0].start == segment.start and segment.words[-1].end == segment.end
        at += 4 * len(said) + 50


def test_windows_change_nothing_where_the_model_needs_no_context(model, short_windows):
    whole = arcbeam.Transcriber(model, window_seconds=len(LONG) / tones.RATE + 1).transcribe(LONG)
    model.calls.clear()
    cut = short_windows.transcribe(LONG)
    assert cut == whole
    assert len(model.calls) > 20 and max(model.calls) == 4 * tones.RATE
    for options in ({"overlap_seconds": 0.0}, {"overlap_seconds": 2.0, "batch_size": 3}):
        assert arcbeam.Transcriber(model, window_seconds=4.0, **options).transcribe(LONG).segments == whole.segments


def test_a_model_that_loses_frames_at_the_end():
    pytest.importorskip("kaldifst", reason="kaldifst is not installed: .[build]")
    model = tones.ToneModel(lost_frames=2)
    found = arcbeam.Transcriber(model, window_seconds=4.0, overlap_seconds=0.5).transcribe(LONG)
    assert found.text == " ".join(SENTENCES)
    with pytest.raises(arcbeam.InputError, match=r"at least 200 frames .* in utterance 'audio': use a longer overlap$"):
        arcbeam.Transcriber(model, window_seconds=4.0, overlap_seconds=0.0).transcribe(LONG)


def test_memory_does_not_grow_with_the_recording(short_windows):
    """Only so much of an hour is read ahead of the window that the model takes."""
    from arcbeam.transcribe.audio import Sound
    from arcbeam.transcribe.transcriber import transcribe_sound

    read, done, most = 0, 0.0, 0.0

    def blocks():
        nonlocal read, most
        for _ in range(55):
            for begin in range(0, len(LONG), tones.RATE):
                block = LONG[begin : begin + tones.RATE]
                read += len(block)
                most = max(most, read / tones.RATE - done)
                yield block

    def progress(seconds):
        nonlocal done
        done = seconds

    sound = Sound("an hour", tones.RATE, 1, None, blocks())
    found = transcribe_sound(short_windows, sound, "hour", None, progress=progress)
    assert found.duration > 3600 and most <= 8.0 and done == found.duration
    assert [segment.text for segment in found.segments] == SENTENCES * 55


def test_a_list_of_recordings(short_windows):
    parts = [tones.recording(SENTENCES[:2]), tones.recording(SENTENCES[2:3]).astype(np.float64)]
    found = short_windows.transcribe(parts)
    assert [one.text for one in found] == [" ".join(SENTENCES[:2]), SENTENCES[2]]
    assert [one.id for one in found] == ["audio[0]", "audio[1]"]


def test_silence_has_no_sentences(short_windows):
    found = short_windows.transcribe(tones.silence(1000))
    assert found.segments == () and found.text == "" and found.words == []


def test_channels(short_windows):
    one, other = tones.recording(["abc"]), tones.recording(["eee"])
    both = np.stack([one, np.pad(other, (len(one) - len(other), 0)) if len(other) < len(one) else other], axis=1)
    assert short_windows.transcribe(both, channel=0).text == "abc"
    found = short_windows.transcribe(both, channel=1)
    assert (found.text, found.channels, found.channel) == ("eee", 2, 1)
    mixed = short_windows.transcribe(np.stack([one, one], axis=1))
    assert (mixed.text, mixed.channels, mixed.channel) == ("abc", 2, "mean")
    assert short_windows.transcribe(one[:, None]).channel is None


def test_a_language_model_and_a_boost(tmp_path):
    pytest.importorskip("kaldifst", reason="kaldifst is not installed: .[build]")
    arpa = tmp_path / "lm.arpa"
    arpa.write_text("\\data\\\nngram 1=5\n\n\\1-grams:\n-1 <s>\n-1 </s>\n-1 abc\n-1 abd\n-2 dad\n\n\\end\\\n")
    found = arcbeam.Transcriber(tones.ToneModel(arpa, cache=False), confidence=True).transcribe(
        tones.recording(["abc abd", "dad"])
    )
    assert [segment.text for segment in found.segments] == ["abc abd", "dad"]
    assert all(0.9 < word.confidence <= 1 for word in found.words)
    boost = arcbeam.Boost({"dad": -300.0})
    penalised = arcbeam.Transcriber(tones.ToneModel(arpa, cache=False)).transcribe(
        tones.recording(["dad"]), boost=boost
    )
    assert penalised.text != "dad"


def test_other_pauses(model):
    rules = {"long": arcbeam.EndpointRule(min_trailing_silence=3.0)}
    patient = arcbeam.Transcriber(model, endpoint=arcbeam.Endpoint(rules))
    assert [one.text for one in patient.transcribe(tones.recording(["ab ", "cd"])).segments] == ["ab cd"]


def test_what_objects_show(model, short_windows):
    found = short_windows.transcribe(tones.recording(["abc"]))
    assert str(found) == "abc" == str(found.segments[0]) and f"{found:>5}|{found.segments[0]:<4}|" == "  abc|abc |"
    assert found.to_dict()["segments"][0]["words"][0]["word"] == "abc"
    assert repr(short_windows).startswith("<Transcriber of <tests.transcribe.tones.ToneModel")
    assert short_windows.model is model and short_windows.decoder is model.decoder
    with pytest.raises(AttributeError, match="decoder"):
        short_windows.decoder = None


@pytest.mark.parametrize(
    ("audio", "options", "error", "message"),
    [
        (np.zeros(100, np.float32), {}, ValueError, "audio: expected a recording of at least 0.025 s, got 100 samples"),
        (np.zeros(0, np.float32), {}, ValueError, "audio: expected a recording of at least 0.025 s, got 0 samples"),
        (np.zeros(1600, np.int16), {}, TypeError, "audio: expected the samples .* int16; divide by 32768"),
        (np.full(1600, np.nan), {}, ValueError, "audio: expected finite samples, got nan"),
        (np.zeros((2, 3, 4)), {}, ValueError, r"audio: expected an array \[samples\] or .* got shape \[2, 3, 4\]"),
        (
            np.zeros((7, 16000)),
            {},
            ValueError,
            r".* got shape \[7, 16000\], .* is it \[channels, samples\]\?",
        ),
        (np.zeros((1, 400)), {}, ValueError, r"audio: .* 1 samples of 400 channels: .* a batch is a list of arrays"),
        (np.zeros((1600, 7)), {}, ValueError, "audio: expected at most 2 channels, which are mixed, got 7; say which"),
        (np.zeros((1600, 2)), {"channel": 2}, ValueError, "audio: expected a channel from 0 to 1 or 'mean', got chann"),
        (np.zeros((1600, 2)), {"channel": "left"}, TypeError, "channel: expected a number, 'mean' or None, got 'left'"),
        (np.zeros(1600), {"sample_rate": 8000.5}, TypeError, "sample_rate: expected a whole number"),
        (
            np.zeros(1600),
            {"sample_rate": 0},
            ValueError,
            "sample_rate: expected a whole number of at least 1, .* got 0",
        ),
        (np.zeros(1600), {"sample_rate": False}, TypeError, "sample_rate: expected a whole number .* got bool"),
        ([np.zeros(9600), np.zeros(9)], {}, ValueError, r"audio\[1\]: expected a recording of at least"),
        (7, {}, TypeError, "audio: expected the samples of a recording"),
    ],
)
def test_what_is_no_recording(short_windows, audio, options, error, message):
    with pytest.raises(error, match=f"^{message}"):
        short_windows.transcribe(audio, **options)
    assert short_windows.transcribe(tones.recording(["abc"])).text == "abc"


def test_a_rate_that_is_lower_than_the_models(short_windows, tmp_path):
    """A warning in the words of the command, of arrays and of files; none of a higher rate."""
    soundfile = pytest.importorskip("soundfile", reason="soundfile is not installed: .[onnx]")
    soxr = pytest.importorskip("soxr", reason="soxr is not installed: .[onnx]")
    low = soxr.resample(tones.recording(["abc"]), tones.RATE, 8000)
    soundfile.write(tmp_path / "low.wav", low, 8000)
    words = "fewer than the model's 16,000 samples a second, so high frequencies are missing, "
    words += "which the model was trained with: "
    with pytest.warns(UserWarning, match=f"^{words}audio$") as said:
        assert short_windows.transcribe(low, sample_rate=8000).text == "abc"
    assert said[0].filename == __file__
    with pytest.warns(UserWarning, match=f"^{words}.*low.wav$"):
        assert short_windows.transcribe(tmp_path / "low.wav").text == "abc"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        short_windows.transcribe(soxr.resample(tones.recording(["abc"]), tones.RATE, 48_000), sample_rate=48_000)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"overlap_seconds": 3.0}, "overlap_seconds: expected at most half of window_seconds=4, .* got 3"),
        ({"window_seconds": 0.001, "overlap_seconds": 0}, "overlap_seconds: .* has at least a frame of 0.02 s"),
        ({"window_seconds": -1.0}, "window_seconds: expected a number of seconds above 0, got -1"),
        ({"batch_size": 0}, "batch_size: expected a whole number of at least 1, got 0"),
        (
            {"lm": "a.arpa"},
            "lm: expected None for ToneModel, because the model is opened already; give lm= to its decoder$",
        ),
        (
            {"beam": 3.0, "toolkit": "onnx"},
            "toolkit, beam: expected None for ToneModel, .*; give beam= to its decoder$",
        ),
        ({"toolkit": "onnx"}, "toolkit: expected None for ToneModel, because the model is opened already$"),
        ({"toolkit": "kaldi"}, "toolkit: expected one of onnx, transformers, nemo or None, got 'kaldi'"),
    ],
)
def test_options_that_do_not_fit(model, options, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        arcbeam.Transcriber(model, **{"window_seconds": 4.0, "overlap_seconds": 1.0} | options)


def test_models_that_are_none(tmp_path):
    with pytest.raises(arcbeam.UnsupportedError, match=r"^model: expected a path, a name, .* got int$"):
        arcbeam.Transcriber(7)
    with pytest.raises(FileNotFoundError, match="there is no such path"):
        arcbeam.Transcriber("parakeet")
    with pytest.raises(FileNotFoundError, match="there is no such path"):
        arcbeam.Transcriber(tmp_path / "nothing")
    with pytest.raises(arcbeam.UnsupportedError, match=r"expected the folder of a model, with \*.onnx files or with"):
        arcbeam.Transcriber(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(arcbeam.UnsupportedError, match="got another file"):
        arcbeam.Transcriber(tmp_path / "file")


def test_a_decoder_without_times():
    class Timeless(tones.ToneModel):
        def __init__(self):
            self.decoder = arcbeam.ctc_decoder(tones.TOKENS, device="cpu")

    with pytest.raises(
        ValueError, match=r"^frame_shift: expected the seconds of a frame of the model, .*; give frame_shift= to its"
    ):
        arcbeam.Transcriber(Timeless())


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            lambda found: None,
            TypeError,
            r"encode: expected a list .* got NoneType; return \[array\] for one recording$",
        ),
        (lambda found: found[:-1], ValueError, r"encode: expected a list .* for each recording, 1, got 0 in a list"),
        (lambda found: found[0], ValueError, r"encode: .* for each recording, 1, got shape \[\d+, 7\]; return \[array"),
        (
            lambda found: [found[0][None]],
            ValueError,
            r"encode: .* got one of shape \[1, \d+, 7\]; return array\[0\] of it",
        ),
        (
            lambda found: [one.tolist() for one in found],
            TypeError,
            r"encode: .* got list in it; return arrays of NumPy",
        ),
        (
            lambda found: [one.T for one in found],
            arcbeam.InputError,
            r"audio: expected about .* got 7 from the model in utterance 'audio': is it \[columns, frames\]\?",
        ),
        (
            lambda found: [one[::2] for one in found],
            arcbeam.InputError,
            r"audio: .* from the model in utterance 'audio': give frame_shift=, .* to its decoder$",
        ),
    ],
)
def test_an_encode_that_returns_something_else(change, error, message):
    class Model(tones.ToneModel):
        def encode(self, audio, **options):
            return change(super().encode(audio, **options))

    pytest.importorskip("kaldifst", reason="kaldifst is not installed: .[build]")
    with pytest.raises(error, match=f"^{message}"):
        arcbeam.Transcriber(Model()).transcribe(tones.recording(["abc"]))


def test_an_encode_that_returns_one_array_of_all(model):
    class Stacked(tones.ToneModel):
        def encode(self, audio, **options):
            return np.stack(super().encode(audio, **options))

    options = {"window_seconds": 4.0, "overlap_seconds": 1.0, "batch_size": 3}
    assert arcbeam.Transcriber(Stacked(), **options).transcribe(LONG).text == " ".join(SENTENCES)
