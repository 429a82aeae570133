"""Audio as onnx-asr takes it: arrays of samples, and files."""

from __future__ import annotations

import operator
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.core.checks import is_bool
from arcbeam.core.errors import FormatError
from arcbeam.core.packages import require
from arcbeam.core.warn import warn
from arcbeam.files.reading import check_is_file, reason_of

SHORTEST = 0.025  # seconds: a window of the features
LOUDEST = 16.0  # no recording is so far out of its range; those of int16 without a division are
MOST_CHANNELS = 64  # no recording of an array has more
EXPECTED = "the samples of a recording as floats from -1 to 1, or the path of one"

Samples = npt.NDArray[np.float32]


def read_audio(audio: Any, name: str, rate: int, channel: int | str | None, model_rate: int, resampler: Any) -> Samples:
    """The samples of a recording at the rate of the model.

    Parameters
    ----------
    audio : array [samples] or [samples, channels] of floats, or path
    name : str
        What messages call it.
    rate : int
        Samples a second of an array; a file says its own.
    channel : int, "mean" or None
        The channel of recordings with several.
    model_rate : int
        Samples a second that the model takes.
    resampler : onnx-asr's
    """
    if isinstance(audio, (str, os.PathLike)):
        samples, rate = _of_file(audio)
        name = os.fsdecode(audio)
    else:
        samples = as_samples(audio, name)
    samples = one_channel(samples, name, channel)
    check_length(len(samples), name, rate)
    warn_of_low_rate(rate, model_rate, name)
    return _resampled(samples, name, rate, resampler)


def warn_of_low_rate(rate: int, model_rate: int, name: str) -> None:
    """Warns of a lower rate than the model's."""
    if rate < model_rate:
        warn(of_low_rate(model_rate, name))


def of_low_rate(model_rate: int, names: str) -> str:
    """The warning about recordings with a lower rate than the model's."""
    said = "so high frequencies are missing, which the model was trained with"
    return f"fewer than the model's {model_rate:,} samples a second, {said}: {names}"


def as_samples(audio: Any, name: str) -> Any:
    """An array of samples [samples] or [samples, channels]; TypeError or ValueError for anything else."""
    samples = np.asarray(audio)
    if samples.dtype.kind != "f":
        hint = "; divide by 32768" if samples.dtype == np.int16 else ""
        raise TypeError(f"{name}: expected {EXPECTED}, got an array of {samples.dtype}{hint}")
    if samples.ndim not in (1, 2):
        raise ValueError(f"{name}: expected an array [samples] or [samples, channels], got shape {list(samples.shape)}")
    if samples.ndim == 2 and samples.shape[1] > MOST_CHANNELS and samples.shape[0] < samples.shape[1]:
        raise ValueError(
            f"{name}: expected an array [samples] or [samples, channels], got shape {list(samples.shape)}, which is "
            f"{samples.shape[0]:,} samples of {samples.shape[1]:,} channels: is it [channels, samples]? Transpose it, "
            "as in audio.T; a batch is a list of arrays, as in list(audio)"
        )
    if samples.size and LOUDEST < (most := float(np.abs(samples).max())) < np.inf:
        warn(f"{name}: expected samples from -1 to 1, got one of size {most:g}: are they of int16? divide by 32768")
    return samples


def check_length(samples: int, name: str, rate: int) -> None:
    """ValueError for a recording that is shorter than a window of the features."""
    if samples < SHORTEST * rate:
        raise ValueError(f"{name}: expected a recording of at least {SHORTEST} s, got {samples:,} samples")


def _of_file(path: str | os.PathLike[str]) -> tuple[Any, int]:
    """Samples [samples, channels] and the rate of a file; a WAV needs no package."""
    check_is_file(path)
    name = os.fsdecode(path)
    try:
        soundfile = require("soundfile", f"{name}: audio that is no WAV of whole numbers")
    except ImportError:
        if not name.lower().endswith(".wav"):
            raise
        from onnx_asr.utils import read_wav

        read: Any = read_wav
    else:
        read = lambda file: soundfile.read(file, dtype="float32", always_2d=True)  # noqa: E731
    try:
        samples, rate = read(name)
    except Exception as error:  # of soundfile and of Python's wave
        if isinstance(error, OSError):
            raise
        raise FormatError(f"{name}: expected audio, got what cannot be read ({reason_of(error)})") from error
    return samples, int(rate)


def as_channel(channel: Any) -> int | str | None:
    """The number of a channel as Python's own int, also if it is NumPy's; "mean" or None as they are.

    TypeError for anything else.
    """
    if channel is None or (isinstance(channel, str) and channel == "mean"):
        return channel
    try:
        if not is_bool(channel):
            return operator.index(channel)
    except TypeError:
        pass
    raise TypeError(f"channel: expected a number, 'mean' or None, got {channel!r}")


def one_channel(samples: Any, name: str, channel: int | str | None) -> Samples:
    """The samples of one channel, float32; ValueError for a channel that is not there, and unless all are finite."""
    if samples.ndim == 2:
        channels = samples.shape[1]
        channel = as_channel(channel)
        if channel == "mean":
            samples = samples.mean(axis=1)
        elif channel is None and channels == 1:
            samples = samples[:, 0]
        elif channel is None:
            raise ValueError(f"{name}: expected one channel, got {channels}; give channel=, its number or 'mean'")
        elif not isinstance(channel, int) or not 0 <= channel < channels:
            raise ValueError(f"channel: expected 0 to {channels - 1} or 'mean' for {name}, got {channel!r}")
        else:
            samples = samples[:, channel]
    found = np.ascontiguousarray(samples, np.float32)
    if not np.isfinite(found).all():
        raise ValueError(f"{name}: expected finite samples, got {found[~np.isfinite(found)][0]}")
    return found


def _resampled(samples: Samples, name: str, rate: int, resampler: Any) -> Samples:
    """The samples at the rate of the model."""
    from onnx_asr.utils import SampleRates, is_supported_sample_rate

    if not is_supported_sample_rate(rate):
        known = ", ".join(map(str, getattr(SampleRates, "__args__", ())))
        raise ValueError(f"{name}: sample_rate: expected one of {known}, which onnx-asr resamples, got {rate}")
    found, lengths = resampler(samples[None], np.array([len(samples)], np.int64), rate)
    return np.asarray(found[0, : lengths[0]], np.float32)
