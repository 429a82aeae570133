"""Which recordings the names on a command line stand for: audio files, folders of them, and NeMo's manifests."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from arcbeam.core.errors import FormatError
from arcbeam.files.lines import read_lines

PIPE = "-"  # raw samples from the standard input
MANIFESTS = (".json", ".jsonl", ".ndjson", ".manifest")
#: How the names of files in a folder end that are recordings; files that are named may end otherwise.
AUDIO = (
    ".aac", ".aif", ".aifc", ".aiff", ".au", ".caf", ".flac", ".m4a", ".mka", ".mkv", ".mov", ".mp3", ".mp4", ".oga",
    ".ogg", ".opus", ".sph", ".w64", ".wav", ".webm", ".wma",
)  # fmt: skip


class Recording(NamedTuple):
    """An audio file, or a part of one.

    Attributes
    ----------
    id : str
        Its name in results: its path from the folder that was named, without the ending.
    path : Path
    offset, duration : float, float or None
        Seconds: where the part begins, and how long it is; None: to the end.
    """

    id: str
    path: Path
    offset: float = 0.0
    duration: float | None = None

    def load(self) -> Recording:
        """Returns itself: an entry of a job, which is read while it is transcribed."""
        return self

    @property
    def source(self) -> Path:
        """The file of an entry of a job."""
        return self.path

    @property
    def is_pipe(self) -> bool:
        """Whether it can be read only once."""
        return str(self.path) == PIPE

    def entries(self) -> Iterator[Recording]:
        """Yields itself, the only entry of an input of a job."""
        yield self


def find_recordings(paths: Iterable[str], *, may_be_missing: bool = False) -> list[Recording]:
    """The recordings that are there, in the order of the paths; those of a folder in the order of their names.

    `may_be_missing`: files that are not there are found, too, and fail when they are read.

    Raises
    ------
    FormatError
        A folder without audio files, a manifest with a wrong line, or an id that occurs twice.
    OSError
        A path where there is nothing; the message of a manifest names the line.
    """
    found = [recording for path in paths for recording in _find(path, may_be_missing)]
    seen: dict[str, Path] = {}
    for recording in found:
        if recording.id in seen:
            raise FormatError(
                f"the name {recording.id!r} occurs twice: for {seen[recording.id]} and for {recording.path}; name the "
                'folder that both are in, or give a manifest with an "id" for each'
            )
        seen[recording.id] = recording.path
    return found


def _find(name: str, may_be_missing: bool) -> Iterator[Recording]:
    path = Path(name)
    if not may_be_missing and not path.exists():
        raise FileNotFoundError(2, os.strerror(2), name)
    if path.is_dir():
        yield from _of_folder(path)
    elif path.suffix.lower() in MANIFESTS and path.exists():
        yield from _of_manifest(path, may_be_missing)
    else:
        yield Recording(path.stem, path)


def _of_folder(folder: Path) -> Iterator[Recording]:
    every = (path for path in folder.rglob("*") if path.suffix.lower() in AUDIO and path.is_file())
    files = sorted(path for path in every if not path.name.startswith("."))  # as those that macOS adds
    if not files:
        raise FormatError(
            f"{folder}: expected a folder with audio files ({', '.join(AUDIO)}), got one with none; name other files "
            "one by one"
        )
    for path in files:
        yield Recording(path.relative_to(folder).with_suffix("").as_posix(), path)


def _of_manifest(manifest: Path, may_be_missing: bool) -> Iterator[Recording]:
    """Lines of JSON with "audio_filepath", relative to the manifest, and if need be "offset", "duration" and "id"."""
    counts: dict[str, int] = {}
    is_empty = True
    for number, line in read_lines(manifest):
        if not line.strip():
            continue
        where = f"{manifest}, line {number}"
        entry = _entry(line, where)
        path = manifest.parent / entry["audio_filepath"]
        if not may_be_missing and not path.is_file():
            raise FileNotFoundError(f"{where}: expected an audio file, got {path}, where there is none")
        name = entry.get("id", path.stem)
        if not isinstance(name, str) or not name:
            raise FormatError(f'{where}: expected text as "id", got {name!r}')
        offset, duration = (_seconds(entry, field, where) for field in ("offset", "duration"))
        if "id" not in entry and offset is not None:  # parts of one file
            counts[name] = counts.get(name, 0) + 1
            name = f"{name}-{counts[name]}"
        is_empty = False
        # Without an offset the duration is that of the file, which manifests round.
        yield Recording(name, path, offset or 0.0, None if offset is None else duration)
    if is_empty:
        raise FormatError(f'{manifest}: expected lines such as {{"audio_filepath": "a.wav"}}, got none')


def _entry(line: str, where: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError as error:
        raise FormatError(f"{where}: expected an object of JSON, got {line[:60]!r} ({error})") from None
    if not isinstance(entry, dict) or not isinstance(entry.get("audio_filepath"), str):
        raise FormatError(f'{where}: expected an object of JSON with "audio_filepath", got {line[:60]!r}')
    return entry


def _seconds(entry: dict[str, Any], field: str, where: str) -> float | None:
    value = entry.get(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        raise FormatError(f'{where}: expected seconds as "{field}", at least 0, got {value!r}')
    return float(value)
