"""The journal of a job, a file beside its output: what the job was started with, and how far its files are complete."""

import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any

from arcbeam.core.errors import FormatError
from arcbeam.files.log_probs import Input
from arcbeam.files.writing import beside, writing

VERSION = 1
SHOWN = 3  # differences that a message names
ABSENT = "not there"  # an input that only one of two runs has
NOT_GIVEN = ("None", "")  # values of an option that was not given, and of a list without entries
CHANGED = re.compile(r"changed at (\d+)")
MOST = 100  # inputs that a journal names one by one; of more it has so many groups


@dataclass(frozen=True)
class Position:
    """A place between two batches of a job: everything before it is in the files, in their first bytes."""

    utterances: int = 0
    """The utterances of the job before it, and files that could not be read."""
    written: int = 0
    """Those among them that are in the output."""
    failed: int = 0
    """Those, and files, that were left out after an error."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """The bytes of each file, by its name."""
    scores: Mapping[str, Any] = field(default_factory=dict)
    """What was counted for the word error rate."""
    is_complete: bool = False
    """Whether the job has ended, and only names of files are left to be changed."""


class Journal:
    """Reads and writes the journal of a job that was started `with_`: options and inputs, as text by their names."""

    def __init__(self, output: str, with_: Mapping[str, str]) -> None:
        self.path = f"{output}.journal"
        self._with = dict(with_)

    def read(self) -> Position | None:
        """The position, if there is a journal; FormatError if that is of a job with other options or inputs."""
        try:
            with open(self.path, encoding="utf-8") as file:
                stored = json.load(file)
            if stored["journal"] != VERSION:
                raise ValueError(f"version {stored['journal']}")
            before, position = dict(stored["with"]), Position(**stored["position"])
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as error:
            raise FormatError(
                f"{self.path}: expected the journal of a job of this version of arcbeam, got another file ({error}); "
                "leave out --resume to begin anew"
            ) from error
        names = [name for name in {**before, **self._with} if before.get(name) != self._with.get(name)]
        if names:
            now, then = ({name: _told(with_.get(name, ABSENT)) for name in names} for with_ in (self._with, before))
            shown = "; ".join(f"{name} is {now[name]}, and was {then[name]}" for name in names[:SHOWN])
            more = f"; and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            raise FormatError(
                f"{self.path}: expected the options and inputs of the run that is to go on, got others: {shown}{more}. "
                "Give the same, or leave out --resume to begin anew"
            )
        return position

    def write(self, position: Position) -> None:
        """Replaces the position, so that a process which is killed leaves this one or the one before."""
        text = json.dumps({"journal": VERSION, "with": self._with, "position": asdict(position)}, indent=1)
        with beside(self.path) as name, writing(self.path), open(name, "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())

    def remove(self) -> None:
        """Removes the file, if it is there."""
        with suppress(FileNotFoundError):
            os.unlink(self.path)


def started_with(options: Mapping[str, Any], files: Iterable[str], inputs: Iterable[Input]) -> dict[str, str]:
    """Options and inputs as text: those among `files`, and the inputs, with their sizes and times of change."""
    found: dict[str, str] = {}
    for name, value in options.items():
        values = map(str, value if isinstance(value, (list, tuple)) else [value])
        found[f"--{name.replace('_', '-')}"] = ", ".join(map(_file, values) if name in files else values)
    names = [os.fspath(source.path) for source in inputs]
    found["the number of inputs"] = f"{len(names):,}"
    size = max(1, -(-len(names) // MOST))
    for at in range(0, len(names), size):
        group = names[at : at + size]
        found[f"input {at + 1:,}"] = _file(group[0]) if size == 1 else _files(group)
    return found


def _told(value: str) -> str:
    """A value for the reader of a message, with local dates and times in place of numbers of nanoseconds."""

    def date(found: re.Match[str]) -> str:
        seconds, rest = divmod(int(found[1]), 10**9)
        return f"changed at {datetime.fromtimestamp(seconds)}.{rest:09}"

    return "not given" if value in NOT_GIVEN else CHANGED.sub(date, value)


def _files(paths: list[str]) -> str:
    """Many files as they are now, in words and a digest."""
    digest = sha256("\0".join(map(_file, paths)).encode()).hexdigest()[:16]
    return f"{len(paths):,} files, from {paths[0]} to {paths[-1]}, with the digest {digest}"


def _file(path: str) -> str:
    """A file as it is now, in words."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return path
    return f"{path} of {status.st_size:,} bytes, changed at {status.st_mtime_ns}"
