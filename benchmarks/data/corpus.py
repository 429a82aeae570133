"""Recordings with their transcripts: a LibriSpeech folder, a manifest of JSON lines, or a set of ``ARCBEAM_DATA``."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.data.datasets import REAL, DataMissing, data_folder

SAMPLE_RATE = 16_000
AUDIO = (".flac", ".wav")


@dataclass(frozen=True)
class Recording:
    """One utterance: `seconds` long, and what is said in it, in lower case."""

    id: str
    audio: Path
    seconds: float
    text: str

    def samples(self) -> npt.NDArray[np.float32]:
        """The samples, between -1 and 1. Raises ValueError unless it is mono at 16 kHz."""
        values, rate = _soundfile().read(self.audio, dtype="float32", always_2d=True)
        if rate != SAMPLE_RATE or values.shape[1] != 1:
            raise ValueError(
                f"{self.audio}: expected one channel at {SAMPLE_RATE} Hz, got {values.shape[1]} at {rate} Hz"
            )
        return np.ascontiguousarray(values[:, 0])


@dataclass(frozen=True)
class Corpus:
    name: str
    recordings: Sequence[Recording]

    @property
    def seconds(self) -> float:
        return sum(r.seconds for r in self.recordings)

    @property
    def references(self) -> list[str]:
        return [r.text for r in self.recordings]

    def first(self, count: int | None) -> "Corpus":
        """The first recordings only; all of them where count is None."""
        return self if count is None else Corpus(self.name, self.recordings[:count])


def load(name: str) -> Corpus:
    """A corpus by its name: a folder in LibriSpeech's layout, a manifest, or a set of ARCBEAM_DATA with audio."""
    path = Path(name)
    if path.is_dir():
        return librispeech(path)
    if path.is_file():
        return manifest(path)
    if name in REAL:
        return data_set(name)
    raise DataMissing(f"no corpus {name!r}: expected a LibriSpeech folder, a manifest, or one of {', '.join(REAL)}")


def librispeech(folder: Path) -> Corpus:
    """All utterances below a folder in LibriSpeech's layout: ``ID.flac`` beside ``SPEAKER-CHAPTER.trans.txt``."""
    found = []
    for transcript in sorted(folder.rglob("*.trans.txt")):
        for number, line in enumerate(transcript.read_text(encoding="utf-8").splitlines(), 1):
            key, _, text = line.partition(" ")
            if not key:
                continue
            audio = next((p for s in AUDIO if (p := transcript.parent / (key + s)).exists()), None)
            if audio is None:
                raise DataMissing(f"{transcript}, line {number}: there is no audio {key}{' or '.join(AUDIO)}")
            found.append(_recording(key, audio, text))
    if not found:
        raise DataMissing(f"{folder}: expected a folder in LibriSpeech's layout, with .trans.txt files")
    return Corpus(folder.name, found)


def data_set(name: str) -> Corpus:
    """A set that has audio among those of ARCBEAM_DATA."""
    folder = data_folder() / name
    rows = [line.partition("\t") for line in (folder / "reference.tsv").read_text(encoding="utf-8").splitlines()]
    if not (folder / f"{rows[0][0]}.flac").exists():
        raise DataMissing(f"{folder}: the set {name} has log-probs, but no audio")
    return Corpus(name, [_recording(key, folder / f"{key}.flac", text) for key, _, text in rows])


def manifest(path: Path) -> Corpus:
    """JSON lines with audio_filepath (relative to the manifest, or absolute), text and duration in seconds."""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            audio, text, seconds = Path(row["audio_filepath"]), str(row["text"]), float(row["duration"])
        except (ValueError, KeyError, TypeError) as error:
            reason = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise DataMissing(
                f"{path}, line {number}: expected JSON with audio_filepath, duration and text: {reason}"
            ) from None
        if not audio.is_absolute():
            audio = path.parent / audio
        if not audio.exists():
            raise DataMissing(f"{path}, line {number}: there is no {audio}")
        found.append(Recording(audio.stem, audio, seconds, " ".join(text.lower().split())))
    if not found:
        raise DataMissing(f"{path}: the manifest is empty")
    return Corpus(path.stem, found)


def _recording(key: str, audio: Path, text: str) -> Recording:
    info = _soundfile().info(audio)
    return Recording(key, audio, info.frames / info.samplerate, " ".join(text.lower().split()))


def _soundfile():  # type: ignore[no-untyped-def]
    try:
        import soundfile
    except ImportError:
        raise DataMissing("audio is read by the package soundfile; install it with: pip install '.[bench]'") from None
    return soundfile
