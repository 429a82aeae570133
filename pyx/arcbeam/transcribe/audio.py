"""Recordings as blocks of samples of one channel at the rate of the model: files, arrays, and a pipe of raw samples."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from arcbeam.adapters.onnx_audio import as_channel, as_samples, one_channel
from arcbeam.adapters.onnx_audio import of_low_rate as of_low_rate
from arcbeam.core.errors import FormatError
from arcbeam.core.packages import require
from arcbeam.files.reading import check_is_file, reason_of
from arcbeam.transcribe.windows import Samples

BLOCK_SECONDS = 10.0
MIXED = 2  # the most channels that are mixed without being told to
LARGEST = 32768.0  # one more than the largest sample of 16 bits
OF_FFMPEG = (".aac", ".m4a", ".mka", ".mkv", ".mov", ".mp4", ".webm", ".wma")  # which libsndfile does not read
LOSSY = ("MP3", "MPEG")  # of which libsndfile estimates the number of samples


class Sound(NamedTuple):
    """A recording that is read block by block.

    Attributes
    ----------
    name : str
        What messages call it.
    sample_rate, channels : int
        Of the recording itself.
    channel : int, "mean" or None
        Which of them the blocks have; None where there is one.
    blocks : iterator of float32 [samples]
        At `sample_rate`.
    """

    name: str
    sample_rate: int
    channels: int
    channel: int | str | None
    blocks: Iterator[Samples]


@contextmanager
def open_file(
    path: str | os.PathLike[str], channel: int | str | None, offset: float = 0.0, duration: float | None = None
) -> Iterator[Sound]:
    """An audio file of any format that soundfile reads, or the part of it from `offset` on that lasts `duration`.

    Raises
    ------
    FormatError
        The file is no audio, is cut short, or has no samples there.
    ValueError
        It has more than two channels, and `channel` is None; or lacks the channel.
    MissingDependencyError
        The package soundfile is missing.
    OSError
        It cannot be read.
    """
    check_is_file(path)
    name = os.fsdecode(path)
    soundfile = require("soundfile", f"{name}: audio files")
    if os.path.getsize(name) == 0:
        raise FormatError(f"{name}: expected audio, got an empty file")
    try:
        file = soundfile.SoundFile(name)
    except Exception as error:  # of libsndfile
        if isinstance(error, OSError):
            raise
        hint = f"; ffmpeg -i {shlex.quote(name)} audio.wav converts it" if name.lower().endswith(OF_FFMPEG) else ""
        raise FormatError(f"{name}: expected audio, got what cannot be read ({reason_of(error)}){hint}") from error
    with file:
        rate, begin = int(file.samplerate), round(offset * file.samplerate)
        end = file.frames if duration is None else begin + round(duration * rate)
        if not 0 <= begin < end <= file.frames:
            part = "" if duration is None and not offset else f" from {offset:g} s on"
            part += "" if duration is None else f" that last {duration:g} s"
            raise FormatError(f"{name}: expected samples{part}, got a file of {file.frames / rate:g} s")
        chosen = choose_channel(name, file.channels, channel)
        yield Sound(name, rate, file.channels, chosen, _of_file(file, name, chosen, begin, end))


def _of_file(file: Any, name: str, channel: int | str | None, begin: int, end: int) -> Iterator[Samples]:
    """The samples of a file from one on to before another."""
    size = max(1, round(BLOCK_SECONDS * file.samplerate))
    at = begin
    while at < end:
        try:
            if at == begin and begin:
                file.seek(begin)
            read = file.read(min(size, end - at), dtype="float32", always_2d=True)
        except Exception as error:  # of libsndfile
            if isinstance(error, OSError):
                raise
            raise FormatError(
                f"{name}: expected audio, got what cannot be read after {at / file.samplerate:g} s ({reason_of(error)})"
            ) from error
        if not len(read):
            if file.format in LOSSY and at > begin:
                return
            raise FormatError(
                f"{name}: expected {end / file.samplerate:g} s of audio, as the file says, got "
                f"{at / file.samplerate:g} s: it is cut short"
            )
        yield one_channel(read, name, channel)
        at += len(read)


def of_array(audio: Any, name: str, sample_rate: int, channel: int | str | None) -> Sound:
    """A recording [samples] or [samples, channels] of floats; TypeError or ValueError for anything else."""
    samples = as_samples(audio, name)
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    chosen = choose_channel(name, channels, channel)
    size = max(1, round(BLOCK_SECONDS * sample_rate))
    blocks = (one_channel(samples[at : at + size], name, chosen) for at in range(0, len(samples), size))
    return Sound(name, sample_rate, channels, chosen, blocks)


def of_pipe(pipe: BinaryIO, name: str, sample_rate: int) -> Sound:
    """Raw samples of one channel: whole numbers of 16 bits, little endian, without a header."""
    return Sound(name, sample_rate, 1, None, _of_pipe(pipe, name, sample_rate))


def _of_pipe(pipe: BinaryIO, name: str, sample_rate: int) -> Iterator[Samples]:
    left, most = b"", 2 * max(1, round(BLOCK_SECONDS * sample_rate))
    read = getattr(pipe, "read1", pipe.read)
    is_first = True
    while data := read(most):
        data = left + data
        if is_first and data.startswith((b"RIFF", b"fLaC", b"OggS")):
            raise FormatError(
                f"{name}: expected raw samples of 16 bits, got an audio file with a header; give its path instead"
            )
        whole, is_first = len(data) // 2 * 2, False
        left = data[whole:]
        yield np.frombuffer(data[:whole], "<i2").astype(np.float32) / np.float32(LARGEST)
    if left:
        raise FormatError(f"{name}: expected samples of 2 bytes each, got one byte after the last")


def choose_channel(name: str, channels: int, channel: int | str | None) -> int | str | None:
    """The channel of a recording: the one that was requested, or the mean of two; ValueError if that is not known."""
    channel = as_channel(channel)
    if channels == 1 and channel in (None, 0, "mean"):
        return None
    if channel is None and channels > MIXED:
        raise ValueError(
            f"{name}: expected at most {MIXED} channels, which are mixed, got {channels}; say which one is "
            f"transcribed, channel=0 to {channels - 1}, or channel='mean' for the mean of all"
        )
    if channel is None:
        return "mean"
    if isinstance(channel, int) and not 0 <= channel < channels:
        raise ValueError(f"{name}: expected a channel from 0 to {channels - 1} or 'mean', got channel={channel!r}")
    return channel


class Resampler:
    """Brings blocks from one rate to another as if they were one; soxr does it."""

    def __init__(self, name: str, rate: int, model_rate: int) -> None:
        self._stream: Any = None
        self._is_over = False  # after which there are no samples
        if rate != model_rate:
            soxr = require("soxr", f"{name}: {rate:,} samples a second, where the model takes {model_rate:,},")
            self._stream = soxr.ResampleStream(rate, model_rate, 1, dtype="float32")

    def add(self, samples: Samples, *, last: bool = False) -> Samples:
        """The samples at the new rate, as far as they are known."""
        if self._stream is None or self._is_over:
            return samples
        found: Samples = self._stream.resample_chunk(samples, last=last)
        self._is_over = last
        return found


def resampled(sound: Sound, model_rate: int) -> Iterator[Samples]:
    """The blocks of a recording at another rate."""
    resampler = Resampler(sound.name, sound.sample_rate, model_rate)
    for block in sound.blocks:
        yield resampler.add(block)
    yield resampler.add(np.empty(0, np.float32), last=True)


def counted(blocks: Iterable[Samples], add: Any) -> Iterator[Samples]:
    """The blocks, of whose lengths `add` is told."""
    for block in blocks:
        add(len(block))
        yield block
