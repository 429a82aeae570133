"""A job: which utterances are its part, which of them are done, what failed, and how far its files are complete."""

import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Protocol, Self

from arcbeam.core.errors import FormatError
from arcbeam.core.show import few
from arcbeam.files.log_probs import Entry, Input, Unique, Utterance, count
from arcbeam.files.writing import PARTIAL, Kept, beside, replacing
from arcbeam.jobs.journal import Journal, Position
from arcbeam.jobs.shards import Shard

BETWEEN_SAVES = 1.0
"""Seconds between two positions in the journal: what a job that is killed decodes again, besides a batch."""
ERRORS = ".errors.tsv"
TOLD = 20  # failures that are noted when they occur, where a file lists all of them
NAMED = 5  # failures that are named at the end


@dataclass(frozen=True)
class Failed:
    """An utterance with an error; or a file, which has no `id`."""

    id: str
    source: Path
    why: str

    def __str__(self) -> str:
        what = f"utterance {self.id!r}" if self.id else "the rest of the file"
        return f"{self.source}: {what} is left out: {self.why}"


class JobFile(Protocol):
    """A file that a job writes from its beginning to its end."""

    def tell(self) -> int:
        """The bytes that were given so far, those of an earlier run among them."""

    def flush(self) -> None:
        """Writes what has been gathered."""

    def fileno(self) -> int:
        """The number of the open file."""


class Job:
    """A run over the utterances of `inputs`, or a shard of them; used as a context.

    `output` is the file that it writes, or None for a pipe or the like, from which no run can go on; or with
    `is_folder` a folder, which gets a file of each utterance at once. Beside it is the journal: with `resume` a run
    goes on where one that was `started_with` the same options broke off. `tell` notes a line for the user. `passed` is
    called with the id of each utterance that this run does not decode.
    """

    def __init__(
        self,
        inputs: list[Input],
        output: str | None = None,
        *,
        started_with: Mapping[str, str] | None = None,
        resume: bool = False,
        shard: Shard | None = None,
        skip_errors: bool = False,
        tell: Callable[[str], None] = lambda line: None,
        passed: Callable[[str], None] = lambda name: None,
        is_folder: bool = False,
    ) -> None:
        self.inputs, self.output, self._is_folder = inputs, output, is_folder
        self.resume, self.shard, self.skip_errors = resume, shard, skip_errors
        self.position = Position()
        self.failed = 0  # with those of earlier runs
        self._names: list[str] = []  # of the first that failed
        self._tell, self._passed = tell, passed
        self._journal = None if output is None else Journal(output, started_with or {})
        self._has_begun = False
        self._saved = time.monotonic()
        self._files: dict[str, JobFile] = {}
        self._errors: BinaryIO | None = None
        self._opened = ExitStack()  # what lists the errors
        self._range: range | None = None

    def utterances(self) -> Iterator[Utterance | Failed]:
        """Yields those that are left to do, in order; with `skip_errors` also what cannot be read."""
        done, places = self.position.utterances, self._places() if self.shard else None
        for number, item in enumerate(self._items()):
            if places is not None and number >= places.stop:
                return
            if number < done + (places.start if places else 0):
                self._passed(item.id)
            else:
                yield item if isinstance(item, Failed) else self._loaded(item)

    def total(self) -> int | None:
        """The number of utterances, those of earlier runs among them, if it is known without reading log-probs."""
        return len(self._places()) if self.shard else count(self.inputs)

    def _places(self) -> range:
        """The places of the shard among the utterances of all inputs, whose ids are read, and checked, for it."""
        if self._range is None:
            total = 0
            for item in self._items():
                self._passed(item.id)
                total += 1
            self._range = (self.shard or Shard(1, 1)).of(total)
        return self._range

    def _items(self) -> Iterator[Entry | Failed]:
        """The entries of all inputs; with `skip_errors` also broken files, and ids that occur a second time."""
        unique = Unique(self.inputs)
        for source in self.inputs:
            entries = source.entries()
            while True:
                name = ""
                try:
                    entry = next(entries, None)
                    if entry is None:
                        break
                    name = entry.id
                    unique.add(entry)
                except (ValueError, OSError) as error:
                    if not self.skip_errors:
                        raise
                    yield Failed(name, source.path, reason(error))
                else:
                    yield entry

    def _loaded(self, entry: Entry) -> Utterance | Failed:
        """The utterance of an entry, or why it cannot be read."""
        try:
            return entry.load()
        except (ValueError, OSError) as error:
            if not self.skip_errors:
                raise
            return Failed(entry.id, entry.source, reason(error))

    def leave_out(self, failed: Failed) -> None:
        """Lists a failure, and notes it."""
        self.failed += 1
        if failed.id:
            self._passed(failed.id)
        if len(self._names) < NAMED:
            self._names.append(failed.id or os.fspath(failed.source))
        if self._journal is None or self.failed <= TOLD:
            self._tell(f"note: {failed}")
        if self._journal is not None:
            if self._errors is None:
                self._errors = self._opened.enter_context(self.open(self.errors))
            fields = (failed.id, os.fspath(failed.source), failed.why)
            self._errors.write(("\t".join(" ".join(one.split()) for one in fields) + "\n").encode())

    def tell_failed(self) -> None:
        """Notes how many utterances failed in all runs of the job, the first of this one, and where all are listed."""
        if self.failed:
            names = f": {few(self._names, self.failed)}" if self._names else ""
            listed = f"; {self.errors} says why" if self._journal is not None else ""
            self._tell(f"note: left out {self.failed:,} utterance{'s'[: self.failed != 1]}{names}{listed}")

    @property
    def errors(self) -> str:
        """The file with a line for each failure: id, tab, file, tab, reason."""
        return f"{self.output}{ERRORS}"

    @contextmanager
    def open(self, path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
        """A file of the job, after the bytes in it of an earlier run; it gets its name when it is complete."""
        name = os.fsdecode(path)
        with replacing(name, kept=self.kept(name)) as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                self.add(name, file)
            elif self.resume:
                raise FormatError(f"--resume: expected files, which a run can go on with, got {name}")
            yield file

    def add(self, path: str, file: JobFile) -> None:
        """A file of the job that was opened with `kept`."""
        self._files[path] = file

    def kept(self, path: str) -> Kept | None:
        """What says how many bytes of a file stay. The output is the first to be opened, and its lock is the job's."""
        if self._journal is None:
            return None

        def kept(size: int) -> int:
            if path == self.output:
                self._begin(size)
            wanted = self.position.sizes.get(path, 0)
            if size < wanted:
                raise FormatError(
                    f"{path}{PARTIAL}: expected at least {wanted:,} bytes, as the journal of the job says, got "
                    f"{size:,}; leave out --resume to begin anew"
                )
            return wanted

        return kept

    def _begin(self, size: int) -> None:
        """Reads the journal of an earlier run, whose output has so many bytes, or begins a new one."""
        assert self._journal is not None
        found = self._journal.read() if self.resume else None
        if found is not None and size and not found.is_complete:
            self.position, self.failed = found, found.failed
            self._tell(f"note: going on after {found.utterances:,} utterances")
        else:
            self._journal.write(self.position)
        self._has_begun = True

    def is_complete(self) -> bool:
        """Whether an earlier run, which this is to resume, has ended; names of files that it left are changed."""
        found = self._journal.read() if self.resume and self._journal is not None else None
        if found is None or not found.is_complete:
            return False
        if not all(size in (_size(path), _size(path + PARTIAL)) for path, size in found.sizes.items()):
            return False
        for path, size in found.sizes.items():
            if _size(path + PARTIAL) == size:
                with beside(path, keep=True, kept=lambda now: now):
                    pass
        self.position, self.failed = found, found.failed
        return True

    def mark(self, utterances: int, written: int, scores: Mapping[str, Any]) -> None:
        """A batch of so many utterances was taken, and those written are in the files; `scores` are the job's."""
        sizes = {path: file.tell() for path, file in self._files.items()}
        self.position = replace(
            self.position,
            utterances=self.position.utterances + utterances,
            written=self.position.written + written,
            failed=self.failed,
            sizes={**self.position.sizes, **sizes},
            scores=scores,
        )
        if time.monotonic() - self._saved > BETWEEN_SAVES:
            self._save()

    def end(self) -> None:
        """All utterances are in the files, and nothing more is written to them."""
        sizes = {path: file.tell() for path, file in self._files.items()}
        self.position = replace(self.position, sizes={**self.position.sizes, **sizes}, is_complete=True)
        self._save()

    def _save(self) -> None:
        """Writes the position, after the files up to there."""
        if self._journal is not None:
            for file in self._files.values():
                file.flush()
                os.fsync(file.fileno())
            self._journal.write(self.position)
        self._saved = time.monotonic()

    def __enter__(self) -> Self:
        if self._is_folder:
            self._begin(1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the job, or saves the position if it breaks off: all other files are closed."""
        if kind is None and self._has_begun and self.failed and self._errors is None:  # those of an earlier run
            self._opened.enter_context(self.open(self.errors))
        self._opened.__exit__(kind, error, trace)
        if self._journal is None or not self._has_begun:
            return
        if kind is None:
            if self.skip_errors and not self.failed:
                with suppress(FileNotFoundError):
                    os.unlink(self.errors)
            if not self.resume:
                self._journal.remove()
            return
        with suppress(OSError):  # the error that broke the job off is told
            if not self._is_folder and not os.path.exists(f"{self.output}{PARTIAL}"):
                self._journal.remove()
            elif all(_size(path + PARTIAL) >= size for path, size in self.position.sizes.items()):
                self._journal.write(self.position)


def reason(error: BaseException) -> str:
    """An error as one line, with the file that it is about."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def _size(path: str) -> int:
    """The size of a file, -1 if there is none."""
    try:
        return os.stat(path).st_size
    except OSError:
        return -1
