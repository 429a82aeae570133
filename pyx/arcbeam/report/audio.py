"""The recordings of utterances: files in a folder, named by the utterance ids; linked, or within the page."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from arcbeam.core.errors import FormatError
from arcbeam.core.show import few

TYPES = {
    ".wav": "audio/wav", ".flac": "audio/flac", ".mp3": "audio/mpeg", ".ogg": "audio/ogg", ".opus": "audio/ogg",
    ".m4a": "audio/mp4", ".webm": "audio/webm",
}  # fmt: skip
"""The media types of what browsers play, by the endings of file names."""


def find_recordings(folder: str | os.PathLike[str], names: Iterable[str]) -> dict[str, Path]:
    """The recordings in a folder and below it that are named as utterances are; utterances without one are left out.

    Names are those of files, or paths from the folder, without their endings.
    """
    there: dict[str, list[Path]] = {}
    for file in sorted(Path(folder).rglob("*")):
        if file.suffix.lower() in TYPES:
            for name in {file.stem, file.relative_to(folder).with_suffix("").as_posix()}:
                there.setdefault(name, []).append(file)
    found = {name: there[name] for name in names if name in there}
    if not found:
        got = f"recordings such as {next(iter(there.values()))[0]}" if there else "no recordings"
        raise FormatError(
            f"{os.fspath(folder)}: expected a folder of recordings named as the utterances are, ID{'|'.join(TYPES)}, "
            f"got {got}"
        )
    for name, files in found.items():
        if len(files) > 1:
            raise FormatError(f"expected one recording of the utterance {name!r}, got {few(list(map(str, files)))}")
    return {name: files[0] for name, files in found.items()}


def address(recording: Path, page: str | os.PathLike[str], *, embed: bool) -> str:
    """The address of a recording: relative to the folder of the page, or with `embed` all of it as a data URI."""
    if embed:
        content = base64.b64encode(recording.read_bytes()).decode("ascii")
        return f"data:{TYPES[recording.suffix.lower()]};base64,{content}"
    return quote(os.path.relpath(os.path.realpath(recording), os.path.dirname(os.path.realpath(page))))
