"""Writers of transcripts: one function a format, from an utterance and its hypothesis to text.

If a search died, there are words up to its last live frame. JSON has null for its score, which is not finite.
"""

import errno
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from io import RawIOBase
from typing import TYPE_CHECKING, Any

import typer

from arcbeam.cli.terminal import note
from arcbeam.core.errors import FormatError
from arcbeam.core.json_lines import ctc_fields, json_line
from arcbeam.files.kaldi_specifiers import written
from arcbeam.files.writing import PARTIAL, beside, writing
from arcbeam.words import ctm_lines, is_field, one_line

if TYPE_CHECKING:
    from arcbeam.ctc.align.alignment import Alignment
    from arcbeam.ctc.hypothesis import Hypothesis
    from arcbeam.files.log_probs import Utterance
    from arcbeam.jobs.job import Job
    from arcbeam.transducer.hypothesis import TransducerHypothesis

STDOUT = "-"
SOME_LEFT_OUT = 3  # the exit code
BLOCK = 1 << 13


class Format(StrEnum):
    """Name of an output format."""

    text = "text"
    trn = "trn"
    ctm = "ctm"
    stm = "stm"
    json = "json"


TIMED = (Format.ctm, Format.stm)  # the formats that need seconds
NAMES = {
    ".json": Format.json, ".jsonl": Format.json, ".ndjson": Format.json, ".ctm": Format.ctm, ".stm": Format.stm,
    ".trn": Format.trn,
}  # fmt: skip
"""How the files of a format end."""


def check_name(output: str, format: Format, is_chosen: bool) -> None:
    """A usage error for a file whose name is of another format, unless the command line has the format, too."""
    named = NAMES.get(os.path.splitext(output)[1].lower(), format)
    if named is not format and not is_chosen:
        raise typer.BadParameter(
            f"the format is {format}, and {output} is a name of {named} files; type --format {named}, or --format "
            f"{format} for {format} in a file of this name",
            param_hint="'--output'",
        )


def check_format(format: Format, *, of_json: Mapping[str, bool], confidence: bool) -> None:
    """A usage error for requested outputs that the format has no place for: those of JSON alone, by their options."""
    if format is Format.json:
        return
    if confidence and format is not Format.ctm:
        raise typer.BadParameter("confidences are for --format json or ctm", param_hint="'--confidence'")
    for option, is_requested in of_json.items():
        if is_requested:
            raise typer.BadParameter(
                f"only --format json has a place for it, got --format {format}", param_hint=f"'--{option}'"
            )


def check_times(format: Format, frame_shift: float | None) -> None:
    """A usage error for a format with seconds where those of a frame are not known."""
    if format in TIMED and frame_shift is None:
        raise typer.BadParameter(f"{format.upper()} gives times in seconds: set --frame-shift", param_hint="'--format'")


class Output:
    """A binary file without a buffer that transcripts go to, in blocks of whole utterances."""

    def __init__(self, file: RawIOBase, name: str, block: int = BLOCK, job: "Job | None" = None) -> None:
        self._file, self._name, self._block = file, name, block
        self._waiting: list[bytes] = []
        self._end = self._written = 0 if job is None else job.position.sizes.get(name, 0)  # of an earlier run
        self._given = 0 if job is None else job.position.written
        self._ends: deque[int] = deque()  # of the utterances that are not yet written, in bytes from the beginning
        self._whole = self._written  # the end of the last that is

    def write(self, text: str, *, is_whole: bool = True) -> None:
        """Write the text of one utterance; or a part of it, after which more follows."""
        data = text.encode("utf-8")
        self._waiting.append(data)
        self._end += len(data)
        if is_whole:
            self._ends.append(self._end)
            self._given += 1
        if self._end - self._written >= self._block:
            self.flush()

    @property
    def count(self) -> str:
        """How many utterances were given, those of an earlier run among them."""
        return _count(self._given)

    def tell(self) -> int:
        """The bytes that were given, those of an earlier run among them."""
        return self._end

    def fileno(self) -> int:
        """The number of the open file."""
        return self._file.fileno()

    def flush(self) -> None:
        """Write what has been gathered."""
        left = memoryview(b"".join(self._waiting))
        self._waiting.clear()
        try:
            with writing(self._name):
                while left:
                    count = self._file.write(left)
                    if count is None:
                        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
                    self._written += count
                    left = left[count:]
        finally:
            while self._ends and self._ends[0] <= self._written:
                self._whole = self._ends.popleft()

    def break_off(self, cut: bool) -> int:
        """Write what has been gathered, and return how many whole utterances were written; `cut` keeps only them."""
        with suppress(OSError):
            self.flush()
        if cut:
            self._file.truncate(self._whole)
        return self._given - len(self._ends)


@contextmanager
def open_output(path: str, *, at_once: bool = False, job: "Job | None" = None) -> Iterator[Output]:
    """Open `path` for UTF-8 ("-": stdout); if writing breaks off, whole utterances stay in ``PATH.partial``.

    `job`: the output is that of a job, which may go on where an earlier run broke off.
    """
    block = 1 if at_once else BLOCK
    if path == STDOUT:
        sys.stdout.flush()
        file: Any = getattr(sys.stdout.buffer, "raw", sys.stdout.buffer)
        with _told(Output(file, "standard output", 1 if sys.stdout.isatty() else block), path) as output:
            yield output
        return
    kept = None if job is None else job.kept(path)
    with (
        beside(path, keep=True, kept=kept) as name,
        open(name, "wb" if kept is None else "ab", buffering=0) as raw,
        _told(Output(raw, path, block, job), path, kept is not None) as output,
    ):
        if job is not None and kept is not None:
            job.add(path, output)
        yield output
    if not is_pipe(path):
        note(f"wrote {path}: {output.count}")


@contextmanager
def _told(output: Output, path: str, may_go_on: bool = False) -> Iterator[Output]:
    """Writes all of an output; or if something breaks it off, what is there by then, and says so."""
    try:
        yield output
        output.flush()
    except BrokenPipeError:  # the reader has closed the pipe
        raise
    except BaseException:
        is_file = path != STDOUT and not is_pipe(path)
        if utterances := output.break_off(cut=is_file):
            _tell_partial(path, utterances, may_go_on)
        raise


def _count(utterances: int) -> str:
    return f"{utterances:,} utterance{'s'[: utterances != 1]}"


def _tell_partial(path: str, utterances: int, may_go_on: bool) -> None:
    count = _count(utterances)
    if path == STDOUT:
        note(f"note: stopped early: the standard output is incomplete, with {count}")
    elif is_pipe(path):
        note(f"note: stopped early: the output to {path} is incomplete, with {count}")
    elif os.path.getsize(path + PARTIAL):
        other = "is unchanged" if os.path.exists(path) else "was not written"
        goes_on = "; the same command with --resume goes on" if may_go_on else ""
        note(f"note: stopped early: {path + PARTIAL} has what was done, {count}; {path} {other}{goes_on}")


def check_lattice_file(lattice: str | None, output: str) -> str | None:
    """The archive that --lattice names ("-": stdout); fails on one that cannot be written, before any work is done."""
    if lattice is None:
        return None
    try:
        archive = written(lattice).archive
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--lattice'") from None
    if lattice == STDOUT:
        wrong = "expected the name of a file, got -; ark:- is the standard output"
    elif archive == lattice and os.path.splitext(lattice)[1] in (".fst", ".txt", ".json"):
        name, ending = os.path.splitext(lattice)
        text = f", or ark,t:{lattice} for text" if ending == ".txt" else ""
        wrong = f"expected the name of a Kaldi archive, got {lattice}; type --lattice {name}.ark{text}"
    elif archive == STDOUT and output == STDOUT:
        wrong = "lattices and words cannot both go to the standard output; name a file for the words with --output"
    elif output != STDOUT and os.path.realpath(archive) == os.path.realpath(output) and not is_pipe(archive):
        wrong = f"expected another file than that of --output, got {lattice} for both"
    else:
        return archive
    raise typer.BadParameter(wrong, param_hint="'--lattice'")


def is_done(job: "Job") -> bool:
    """Whether nothing is left to do of a job that is to be resumed, which is noted."""
    if not job.is_complete():
        return False
    note(f"note: {job.output} is complete, with {_count(job.position.written)}: nothing is left to do")
    tell_job(job)
    return True


def tell_job(job: "Job") -> None:
    """Ends the command, after a note, if utterances were left out."""
    job.tell_failed()
    if job.failed:
        raise typer.Exit(SOME_LEFT_OUT)


def is_pipe(path: str) -> bool:
    """Whether there is something of this name that is no regular file."""
    return os.path.exists(path) and not os.path.isfile(path)


def check_ids(batch: Iterable["Utterance"], format: Format, lattices: bool = False) -> None:
    """Fail on utterance ids that are empty or contain white space, if what is written has no room for them."""
    for utterance in batch:
        if is_field(utterance.id):
            continue
        if format is not Format.json:
            where, instead = f"the format {format.value}", "use --format json"
        elif lattices:
            where, instead = "an archive of lattices", "leave out --lattice, or name the utterance otherwise"
        else:
            continue
        raise FormatError(
            f"{utterance.source}: the utterance id {utterance.id!r} does not fit {where}, in which an id must not be "
            f"empty or contain a space; {instead}"
        )


def _text(name: str, hypothesis: Any) -> str:
    return f"{name} {one_line(hypothesis.text)}".rstrip() + "\n"


def _trn(name: str, hypothesis: Any) -> str:
    return f"{one_line(hypothesis.text)} ({name})".lstrip() + "\n"


def _ctm(name: str, hypothesis: Any) -> str:
    return ctm_lines(name, hypothesis.words)


def _stm(name: str, hypothesis: Any) -> str:
    words = hypothesis.words
    if not words:
        return ""
    end = max(word.end for word in words)
    return f"{name} 1 {name} {words[0].start:.3f} {end:.3f} {one_line(hypothesis.text)}\n"


WRITERS: dict[Format, Callable[[str, Any], str]] = {
    Format.text: _text,
    Format.trn: _trn,
    Format.ctm: _ctm,
    Format.stm: _stm,
}


def write(
    output: Output,
    format: Format,
    utterance: "Utterance",
    hypothesis: "Hypothesis | TransducerHypothesis | Alignment",
    fields: Callable[[Any], Mapping[str, Any]] = ctc_fields,
) -> None:
    """Write one transcript; `fields` are those of its JSON object."""
    check_ids([utterance], format)
    if format is Format.json:
        output.write(json_line({"id": utterance.id, "frames": len(utterance.log_probs), **fields(hypothesis)}))
    else:
        output.write(WRITERS[format](utterance.id, hypothesis))
