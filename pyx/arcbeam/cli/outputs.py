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
import math
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
    fields: dict[str, Any] = {
        "id": utterance.id,
        "text": hypothesis.text,
        "words": [
            {"word": w.word, "start": _number(w.start), "end": _number(w.end),
             "start_frame": int(w.start_frame), "end_frame": int(w.end_frame)}
            for w in hypothesis.words
        ],
        "score": _number(hypothesis.score),
        "partial_score": _number(hypothesis.partial_score),
        "acoustic_score": _number(hypothesis.acoustic_score),
        "graph_score": _number(hypothesis.graph_score),
        "rescoring_score": _number(hypothesis.rescoring_score),
        "reached_final": bool(hypothesis.reached_final),
        "complete": bool(hypothesis.complete),
        "frames": len(utterance.log_probs),
    }  # fmt: skip
    return json.dumps(fields, ensure_ascii=False, allow_nan=False) + "\n"


def _number(value: float | None) -> float | None:
    # JSON has neither infinity nor NaN; multiples of a frame shift are wanted without the noise of binary fractions.
    return round(float(value), 6) if value is not None and math.isfinite(value) else None


WRITERS: dict[Format, Callable[["Utterance", "Hypothesis"], str]] = {
    Format.text: _text,
    Format.trn: _trn,
    Format.ctm: _ctm,
    Format.json: _json,
}
