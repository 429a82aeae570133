"""Writers of transcripts: one function a format, from an utterance and its hypothesis to text.

=========  =================================================================================================
``text``   ``id transcript``, as Kaldi's ``text`` files
``trn``    ``transcript (id)``, for sclite
``ctm``    ``id 1 start duration word``, times in seconds, one word a line; needs the frame shift; with --confidence
           a sixth column has the word's
``json``   one JSON object a line: id, text, words with their times (frames always, seconds where the frame shift
           is known), scores (natural logs; the higher the better), reached_final, complete, frames; confidences,
           the n-best list, minimum Bayes risk, the confusion network and labels if they are asked for
=========  =================================================================================================

If a search died, every format has the words up to its last live frame. JSON then has complete: false and, because it
cannot express infinity, score: null.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import IO, TYPE_CHECKING, Any

import typer

from arcbeam.cli.console import note
from arcbeam.errors import FormatError
from arcbeam.files.writing import replacing

if TYPE_CHECKING:
    from arcbeam.cli.inputs import Utterance
    from arcbeam.ctc.hypothesis import Hypothesis
    from arcbeam.transducer.hypothesis import TransducerHypothesis

STDOUT = "-"
PARTIAL = ".partial"
LEFT_OUT = ("error", "tokens", "word_ids", "arcs", "frame_confidence")  # of JSON, which has no utterances with an error


class Format(StrEnum):
    """Name of an output format."""

    text = "text"
    trn = "trn"
    ctm = "ctm"
    json = "json"


class Output:
    """The file that transcripts go to; knows whether any have been written."""

    def __init__(self, file: IO[str]) -> None:
        self.file, self.utterances = file, 0

    def write(self, text: str) -> None:
        """Write the text of one utterance."""
        self.file.write(text)
        self.utterances += 1


def write_utf8() -> None:
    """Let the standard output have any text, whatever the locale."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8")


@contextmanager
def open_output(path: str) -> Iterator[Output]:
    """Open `path` for text in UTF-8; "-" is stdout, which stays open.

    The file gets its name when it is complete. If writing breaks off, the text so far stays in ``PATH.partial``, and a
    note on stderr says so.
    """
    output: Output | None = None
    try:
        if path == STDOUT:
            write_utf8()
            output = Output(sys.stdout)
            yield output
            sys.stdout.flush()
        else:
            with replacing(path, "w", path + PARTIAL, encoding="utf-8", newline="\n") as file:
                output = Output(file)
                yield output
    except BrokenPipeError:  # the reader has closed the pipe
        raise
    except BaseException:
        if output is not None and output.utterances:
            _tell_partial(path, output.utterances)
        raise


def _tell_partial(path: str, utterances: int) -> None:
    count = f"{utterances} utterance{'s'[: utterances != 1]}"
    if path == STDOUT:
        note(f"note: stopped early: the standard output is incomplete, with {count}")
    elif os.path.exists(path + PARTIAL):
        other = "is unchanged" if os.path.exists(path) else "was not written"
        note(f"note: stopped early: {path + PARTIAL} has what was done, {count}; {path} {other}")
    elif _is_pipe(path):
        note(f"note: stopped early: the output to {path} is incomplete, with {count}")


def check_lattice_file(lattice: str | None, output: str) -> None:
    """Fail on a name that no archive of lattices can have, before any work is done for it."""
    if lattice is None:
        return
    if lattice == STDOUT:
        wrong = "expected the name of a file, got -; lattices do not go to the standard output"
    elif lattice.endswith(".gz"):
        wrong = f"expected a name such as lattices.ark, got {lattice}; compress the archive when it is written"
    elif output != STDOUT and os.path.realpath(lattice) == os.path.realpath(output) and not _is_pipe(lattice):
        wrong = f"expected another file than that of --output, got {lattice} for both"
    else:
        return
    raise typer.BadParameter(wrong, param_hint="'--lattice'")


def _is_pipe(path: str) -> bool:
    return os.path.exists(path) and not os.path.isfile(path)


def check_ids(batch: Iterable["Utterance"], format: Format, lattices: bool = False) -> None:
    """Fail on utterance ids that are empty or contain white space, if what is written has no room for them.

    Raises
    ------
    FormatError
        It names the utterance, and what to do.
    """
    for utterance in batch:
        if utterance.id.split() == [utterance.id]:
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


def _text(utterance: "Utterance", hypothesis: Any) -> str:
    return f"{utterance.id} {one_line(hypothesis.text)}".rstrip() + "\n"


def _trn(utterance: "Utterance", hypothesis: Any) -> str:
    return f"{one_line(hypothesis.text)} ({utterance.id})".lstrip() + "\n"


def one_line(text: str) -> str:
    """Pieces of a transducer may stand for any byte, and so for the end of a line."""
    return " ".join(text.split())


def _ctm(utterance: "Utterance", hypothesis: Any) -> str:
    lines = []
    for word in hypothesis.words:
        if word.start is None or word.end is None:
            raise FormatError("CTM gives times in seconds: set --frame-shift")
        confidence = "" if word.confidence is None else f" {word.confidence:.3f}"
        said = one_line(word.word).replace(" ", "_") or "_"
        lines.append(f"{utterance.id} 1 {word.start:.3f} {word.end - word.start:.3f} {said}{confidence}\n")
    return "".join(lines)


def _json(utterance: "Utterance", hypothesis: "Hypothesis") -> str:
    said = {name: value for name, value in hypothesis.to_dict().items() if name not in LEFT_OUT}
    fields = {"id": utterance.id, **rounded(said), "frames": len(utterance.log_probs)}
    return json.dumps(fields, ensure_ascii=False, allow_nan=False) + "\n"


def rounded(value: Any) -> Any:
    """The value with floats of six digits: multiples of a frame shift then lack the noise of binary fractions."""
    if isinstance(value, dict):
        return {name: rounded(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    return round(value, 6) if isinstance(value, float) else value


WRITERS: dict[Format, Callable[["Utterance", Any], str]] = {
    Format.text: _text,
    Format.trn: _trn,
    Format.ctm: _ctm,
    Format.json: _json,
}


def write(
    output: Output,
    format: Format,
    utterance: "Utterance",
    hypothesis: "Hypothesis | TransducerHypothesis",
    writers: Mapping[Format, Callable[["Utterance", Any], str]] = WRITERS,
) -> None:
    """Write one transcript.

    Raises
    ------
    FormatError
        As of `check_ids`.
    """
    check_ids([utterance], format)
    output.write(writers[format](utterance, hypothesis))
