"""The results of a decoder as lines of JSON, or as objects of Python with the same keys."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from numbers import Real
from typing import Any, TypeAlias

from arcbeam.core.errors import FormatError
from arcbeam.core.show import shortened
from arcbeam.files.lines import read_lines

StrPath: TypeAlias = str | os.PathLike[str]
Json: TypeAlias = dict[str, Any]
EXPECTED = "a line of arcbeam decode --format json, transduce, align or transcribe"


def _is_number(found: Any) -> bool:
    return found is None or (isinstance(found, Real) and not isinstance(found, bool) and found == found)


_TEXT = "a string", lambda found: isinstance(found, str)
_NUMBER = "a number or null", _is_number
_SHARE = "a number from 0 to 1, or null", lambda found: _is_number(found) and 0.0 <= (found or 0.0) <= 1.0
_LIST = (
    "a list of objects",
    lambda found: found is None or (isinstance(found, list) and all(isinstance(one, Mapping) for one in found)),
)
KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "id": _TEXT, "text": _TEXT, "word": _TEXT, "words": _LIST, "segments": _LIST, "nbest": _LIST,
    "frames": _NUMBER, "score": _NUMBER, "start": _NUMBER, "end": _NUMBER, "end_frame": _NUMBER,
    "confidence": _SHARE, "posterior": _SHARE,
}  # fmt: skip
"""What is expected of the keys that are read, and whether a value is that."""


def read_results(hypotheses: StrPath | Iterable[Mapping[str, Any]]) -> list[Json]:
    """An object for each result in a file of JSON lines, or in objects with the same keys, in their order.

    The texts have single spaces between words; ``times`` and ``confidences`` have an entry for each word of ``text``,
    or none at all.
    """
    if isinstance(hypotheses, (str, bytes, os.PathLike)):
        name = os.fsdecode(hypotheses)
        objects = _lines(name)
    elif isinstance(hypotheses, Iterable) and not isinstance(hypotheses, Mapping):
        name = "hypotheses"
        objects = ((f"hypotheses[{place}]", value) for place, value in enumerate(hypotheses))
    else:
        raise TypeError(
            'hypotheses: expected a file of JSON lines, or a list of objects such as {"id": name, '
            f"**hypothesis.to_dict()}}, got {type(hypotheses).__name__}"
        )
    results: dict[str, Json] = {}
    for where, value in objects:
        result = _result(value, where)
        if result["id"] in results:
            raise FormatError(f"{where}: the utterance id {result['id']!r} occurs twice")
        results[result["id"]] = result
    if not results:
        raise FormatError(f"{name}: expected results, one object for each utterance, got none")
    return list(results.values())


def _lines(name: str) -> Iterator[tuple[str, Any]]:
    """The place and the value of each line that is not blank."""
    for number, line in read_lines(name):
        if line.strip():
            try:
                yield f"{name}:{number}", json.loads(line)
            except (ValueError, RecursionError):
                raise FormatError(f"{name}:{number}: expected {EXPECTED}, got {shortened(line)}") from None


def _result(value: Any, where: str) -> Json:
    """The parts of a result that the page shows."""
    if not isinstance(value, Mapping) or "is_final" in value:
        got = "a result of a stream; decode whole utterances" if isinstance(value, Mapping) else shortened(value)
        raise FormatError(f"{where}: expected {EXPECTED}, got {got}")
    text = _text(value, "text", where)
    result: Json = {"id": _checked(value, "id", where), "text": text, "times": [], "confidences": []}
    result |= {key: _number(value, key, where) for key in ("frames", "score", "confidence")}
    for inside, word in _words(value, where):
        start, end, frame = (_number(word, key, inside) for key in ("start", "end", "end_frame"))
        if end and frame and frame >= 1:
            result["frame_shift"] = end / frame
        count = len(_text(word, "word", inside).split())
        result["times"] += [[start, end]] * count
        result["confidences"] += [_number(word, "confidence", inside)] * count
    if result["times"] and len(result["times"]) != len(text.split()):
        raise FormatError(
            f"{where}: expected as many words in `words` as in `text`, which has {len(text.split()):,}, got "
            f"{len(result['times']):,}; change both in the same way, or leave `words` out"
        )
    result["nbest"] = [
        {"text": _text(one, "text", f"{where}: nbest[{place}]")}
        | {key: _number(one, key, f"{where}: nbest[{place}]") for key in ("score", "posterior")}
        for place, one in enumerate(_checked(value, "nbest", where) or ())
    ]
    return result


def _words(value: Mapping[str, Any], where: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The place and the object of each word of a result: its own, or those of its segments."""
    parts = [(where, value)]
    if value.get("words") is None:
        parts = [(f"{where}: segments[{i}]", one) for i, one in enumerate(_checked(value, "segments", where) or ())]
    for place, part in parts:
        for i, word in enumerate(_checked(part, "words", place) or ()):
            yield f"{place}: words[{i}]", word


def _checked(value: Mapping[str, Any], key: str, where: str) -> Any:
    """The value of a key, None where there is none; FormatError for one of another kind."""
    expected, fits = KINDS[key]
    if not fits(found := value.get(key)):
        raise FormatError(f"{where}: {key}: expected {expected}, got {shortened(found) if key in value else 'nothing'}")
    return found


def _text(value: Mapping[str, Any], key: str, where: str) -> str:
    return " ".join(_checked(value, key, where).split())


def _number(value: Mapping[str, Any], key: str, where: str) -> float | None:
    """A number; None for null, and for the infinite score of a search that died."""
    found = _checked(value, key, where)
    return float(found) if found is not None and abs(found) <= sys.float_info.max else None
