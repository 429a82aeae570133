"""Writers of transcripts: one function a format, from an utterance and its hypothesis to text.

=========  =================================================================================================
``text``   ``id transcript``, as Kaldi's ``text`` files
``trn``    ``transcript (id)``, for sclite
``ctm``    ``id 1 start duration word``, times in seconds, one word a line; needs the frame shift
``json``   one JSON object a line: id, text, words with their times (frames always, seconds where the frame shift
           is known), scores (natural logs; the higher the better), reached_final, complete, frames
=========  =================================================================================================

A search that died has in any of them the words up to its last live frame; JSON says complete: false and, since it has
no infinity, score: null.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TextIO

from arcbeam.errors import FormatError

if TYPE_CHECKING:
    from arcbeam.cli.inputs import Utterance
    from arcbeam.hypothesis import Hypothesis

STDOUT = "-"
LEFT_OUT = ("error", "tokens", "word_ids", "arcs")  # of JSON: utterances with an error are not written


class Format(StrEnum):
    """Name of an output format."""

    text = "text"
    trn = "trn"
    ctm = "ctm"
    json = "json"


@contextmanager
def open_output(path: str) -> Iterator[TextIO]:
    """Open `path` for text in UTF-8; "-" is stdout, which stays open."""
    if path == STDOUT:
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(encoding="utf-8")
        yield sys.stdout
        sys.stdout.flush()
    else:
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            yield file


def write(file: TextIO, format: Format, utterance: "Utterance", hypothesis: "Hypothesis") -> None:
    """Write one transcript.

    Raises
    ------
    FormatError
        The utterance id does not fit the format: it is empty or holds a space.
    """
    if format is not Format.json and utterance.id.split() != [utterance.id]:
        raise FormatError(
            f"{utterance.source}: the utterance id {utterance.id!r} does not fit the format {format.value}, "
            "in which an id holds no space; use --format json"
        )
    file.write(WRITERS[format](utterance, hypothesis))


def _text(utterance: "Utterance", hypothesis: "Hypothesis") -> str:
    return f"{utterance.id} {hypothesis.text}".rstrip() + "\n"


def _trn(utterance: "Utterance", hypothesis: "Hypothesis") -> str:
    return f"{hypothesis.text} ({utterance.id})".lstrip() + "\n"


def _ctm(utterance: "Utterance", hypothesis: "Hypothesis") -> str:
    lines = []
    for word in hypothesis.words:
        if word.start is None or word.end is None:
            raise FormatError("CTM gives times in seconds: set --frame-shift")
        lines.append(f"{utterance.id} 1 {word.start:.3f} {word.end - word.start:.3f} {word.word}\n")
    return "".join(lines)


def _json(utterance: "Utterance", hypothesis: "Hypothesis") -> str:
    said = {name: value for name, value in hypothesis.to_dict().items() if name not in LEFT_OUT}
    fields = {"id": utterance.id, **_rounded(said), "frames": len(utterance.log_probs)}
    return json.dumps(fields, ensure_ascii=False, allow_nan=False) + "\n"


def _rounded(value: Any) -> Any:
    # Multiples of a frame shift are wanted without the noise of binary fractions.
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    return round(value, 6) if isinstance(value, float) else value


WRITERS: dict[Format, Callable[["Utterance", "Hypothesis"], str]] = {
    Format.text: _text,
    Format.trn: _trn,
    Format.ctm: _ctm,
    Format.json: _json,
}
