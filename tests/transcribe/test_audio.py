"""Audio files, arrays and pipes as blocks of samples: what is read is what was written, or an error names the file."""

import io

import numpy as np
import pytest

import arcbeam
from arcbeam.adapters.onnx_audio import one_channel
from arcbeam.transcribe import audio
from tests.transcribe import tones

soundfile = pytest.importorskip("soundfile", reason="soundfile is not installed: .[bench]")

NOISE = np.random.default_rng(0).uniform(-0.5, 0.5, 16_000 * 25).astype(np.float32)


def read(path, channel=None, **part):
    with audio.open_file(path, channel, **part) as sound:
        return sound, np.concatenate([*sound.blocks])


def test_a_file_comes_in_blocks(tmp_path):
    soundfile.write(tmp_path / "a.wav", NOISE, 16_000, subtype="FLOAT")
    with audio.open_file(tmp_path / "a.wav", None) as sound:
        blocks = [*sound.blocks]
    assert [len(block) for block in blocks] == [160_000, 160_000, 80_000]
    assert np.concatenate(blocks).tobytes() == NOISE.tobytes()
    assert (sound.name, sound.sample_rate, sound.channels) == (str(tmp_path / "a.wav"), 16_000, 1)
    assert sound.channel is None


@pytest.mark.parametrize("name", ["a.wav", "a.flac", "a.ogg", "a.mp3", "a.aiff"])
def test_formats(tmp_path, name):
    if name == "a.mp3" and "MP3" not in soundfile.available_formats():
        pytest.skip("this libsndfile has no MP3")
    soundfile.write(tmp_path / name, NOISE, 16_000)
    _, samples = read(tmp_path / name)
    assert abs(len(samples) - len(NOISE)) <= (0 if name != "a.mp3" else 5000)
    assert samples.dtype == np.float32


def test_a_part_of_a_file(tmp_path):
    soundfile.write(tmp_path / "a.flac", NOISE, 16_000, subtype="PCM_24")
    _, whole = read(tmp_path / "a.flac")
    _, part = read(tmp_path / "a.flac", offset=1.5, duration=12.0)
    assert part.tobytes() == whole[24_000:216_000].tobytes()
    _, rest = read(tmp_path / "a.flac", offset=24.0)
    assert rest.tobytes() == whole[384_000:].tobytes()
    with pytest.raises(arcbeam.FormatError, match=r"a.flac: expected samples from 30 s on, got a file of 25 s"):
        read(tmp_path / "a.flac", offset=30.0)
    with pytest.raises(arcbeam.FormatError, match=r"expected samples from 20 s on that last 9 s, got a file of 25 s"):
        read(tmp_path / "a.flac", offset=20.0, duration=9.0)


def test_channels(tmp_path):
    many = NOISE[: 7 * 4000].reshape(-1, 7)
    soundfile.write(tmp_path / "seven.wav", many, 8000, subtype="FLOAT")
    soundfile.write(tmp_path / "two.wav", many[:, :2], 8000, subtype="FLOAT")
    for channel in (0, 6, np.int64(6)):
        sound, samples = read(tmp_path / "seven.wav", channel)
        assert samples.tobytes() == many[:, channel].tobytes() and sound.channel == channel
        assert type(sound.channel) is int
    for channel in (False, np.True_, 0.0, "0"):
        with pytest.raises(TypeError, match=r"^channel: expected a number, 'mean' or None, got "):
            read(tmp_path / "two.wav", channel)
        with pytest.raises(TypeError, match=r"^channel: expected a number, 'mean' or None, got "):
            one_channel(many, "audio", channel)
    assert one_channel(many, "audio", np.int32(3)).tobytes() == many[:, 3].tobytes()
    sound, samples = read(tmp_path / "two.wav")
    assert samples.tobytes() == many[:, :2].mean(axis=1).tobytes() and sound.channel == "mean"
    assert read(tmp_path / "seven.wav", "mean")[1].tobytes() == many.mean(axis=1).tobytes()
    with pytest.raises(ValueError, match=r"seven.wav: expected at most 2 channels, which are mixed, got 7; say which"):
        read(tmp_path / "seven.wav")
    with pytest.raises(ValueError, match=r"two.wav: expected a channel from 0 to 1 or 'mean', got channel=2"):
        read(tmp_path / "two.wav", 2)


def test_files_that_are_no_audio(tmp_path):
    (tmp_path / "empty.wav").write_bytes(b"")
    with pytest.raises(arcbeam.FormatError, match=r"empty.wav: expected audio, got an empty file$"):
        read(tmp_path / "empty.wav")
    (tmp_path / "text.wav").write_text("no audio\n" * 100)
    with pytest.raises(arcbeam.FormatError, match=r"text.wav: expected audio, got what cannot be read \(LibsndfileErr"):
        read(tmp_path / "text.wav")
    (tmp_path / "film.mp4").write_bytes(b"film" * 100)
    with pytest.raises(arcbeam.FormatError, match=r"film.mp4: expected audio, .*; ffmpeg -i \S+/film.mp4 audio.wav"):
        read(tmp_path / "film.mp4")
    soundfile.write(tmp_path / "none.wav", NOISE[:0], 16_000)
    with pytest.raises(arcbeam.FormatError, match=r"none.wav: expected samples, got a file of 0 s$"):
        read(tmp_path / "none.wav")
    with pytest.raises(IsADirectoryError):
        read(tmp_path)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "gone.wav")


def test_a_file_that_is_cut_short(tmp_path):
    soundfile.write(tmp_path / "whole.flac", NOISE, 16_000)
    data = (tmp_path / "whole.flac").read_bytes()
    (tmp_path / "cut.flac").write_bytes(data[: len(data) // 2])
    with pytest.raises(arcbeam.FormatError, match=r"cut.flac: expected "):
        read(tmp_path / "cut.flac")


def test_samples_that_are_not_finite(tmp_path):
    spoiled = NOISE.copy()
    spoiled[300_000] = np.nan
    soundfile.write(tmp_path / "a.wav", spoiled, 16_000, subtype="FLOAT")
    with pytest.raises(ValueError, match=r"a.wav: expected finite samples, got nan"):
        read(tmp_path / "a.wav")


class Trickle(io.BytesIO):
    """A pipe that gives a few bytes at a time."""

    def read1(self, size=-1):
        return super().read1(min(size, 4097))


def test_a_pipe():
    numbers = np.array([0, 1, -1, 32767, -32768] * 4000, "<i2")
    sound = audio.of_pipe(Trickle(numbers.tobytes()), "standard input", 16_000)
    samples = np.concatenate([*sound.blocks])
    assert samples.tobytes() == (numbers / np.float32(32768)).astype(np.float32).tobytes()
    with pytest.raises(arcbeam.FormatError, match=r"^standard input: expected samples of 2 bytes each, got one"):
        [*audio.of_pipe(Trickle(b"abc"), "standard input", 16_000).blocks]
    with pytest.raises(arcbeam.FormatError, match=r"expected raw samples of 16 bits, got an audio file with a header"):
        [*audio.of_pipe(Trickle(b"RIFF1234WAVE"), "standard input", 16_000).blocks]


def test_another_rate(tmp_path):
    """Blocks are resampled as if they were one, and the words stay where they are."""
    soxr = pytest.importorskip("soxr", reason="soxr is not installed: .[onnx]")
    pytest.importorskip("kaldifst", reason="kaldifst is not installed: .[build]")
    said = tones.random_sentences(3, 20)
    for rate in (8000, 44_100, 48_000):
        samples = soxr.resample(tones.recording(said), tones.RATE, rate)
        soundfile.write(tmp_path / "a.wav", samples, rate, subtype="FLOAT")
        with audio.open_file(tmp_path / "a.wav", None) as sound:
            found = np.concatenate([*audio.resampled(sound, tones.RATE)])
        whole = soxr.resample(samples, rate, tones.RATE)
        assert abs(len(found) - len(whole)) <= 1
        assert np.abs(found[: len(whole)] - whole[: len(found)]).max() < 1e-3
        transcript = arcbeam.Transcriber(tones.ToneModel()).transcribe(tmp_path / "a.wav")
        assert [segment.text for segment in transcript.segments] == said
        assert transcript.sample_rate == rate and (transcript.id, transcript.path) == ("a", str(tmp_path / "a.wav"))
        at_once = arcbeam.Transcriber(tones.ToneModel()).transcribe(samples, sample_rate=rate)
        assert at_once.segments == transcript.segments


def test_another_rate_without_the_package_that_resamples(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "soxr", None)
    sound = audio.of_array(NOISE, "audio", 8000, None)
    message = r"audio: 8,000 samples a second, where .* 16,000, needs the package soxr, .*: pip install soxr"
    with pytest.raises(arcbeam.MissingDependencyError, match=message):
        next(audio.resampled(sound, 16_000))
