"""Words of a hypothesis with their times, and the lines of text that have them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Word(NamedTuple):
    """One word of a hypothesis.

    Attributes
    ----------
    word : str
    start_frame, end_frame : int
        Frames ``[start_frame, end_frame)`` of the word's tokens.
    start, end : float or None
        These times in seconds; None if the decoder was given no ``frame_shift``.
    confidence : float or None
        In [0, 1]; None if none was requested. With CTC the probability that the word is right, by the posteriors of a
        lattice; of a transducer how certain the network is of the word's tokens, which is no probability of the word,
        or with a beam the probability by all hypotheses; of an alignment the geometric mean of the probabilities of its
        labels.
    """

    word: str
    start_frame: int
    end_frame: int
    start: float | None
    end: float | None
    confidence: float | None = None


def moved(words: list[Word], frames: int, frame_shift: float | None) -> list[Word]:
    """The words so many frames later, `frame_shift` seconds each if it is known."""
    if not frames:
        return words
    found = []
    for word in words:
        begin, end = word.start_frame + frames, word.end_frame + frames
        start_s, end_s = (None, None) if frame_shift is None else (begin * frame_shift, end * frame_shift)
        found.append(Word(word.word, begin, end, start_s, end_s, word.confidence))
    return found


def as_dicts(words: list[Word], frame_confidences: npt.NDArray[np.float32] | None = None) -> list[dict[str, Any]]:
    """The fields of words for JSON: with `confidence` and `frame_confidence` where these were requested."""
    found = [word._asdict() for word in words]
    for fields in found:
        if fields["confidence"] is None:
            del fields["confidence"]
    if frame_confidences is not None:
        for fields, confidence in zip(found, frame_confidences.tolist(), strict=True):
            fields["frame_confidence"] = confidence
    return found


def finite(value: float) -> float | None:
    """The number, or None if JSON cannot express it."""
    return float(value) if math.isfinite(value) else None


def one_line(text: str) -> str:
    """The text without ends of lines: pieces of a transducer may stand for any byte."""
    return " ".join(text.split())


def is_field(name: str) -> bool:
    """Whether a name fits into a line whose fields are separated by spaces: it is not empty, and has no white space."""
    return name.split() == [name]


def ctm_lines(name: str, words: Iterable[Word]) -> str:
    """Lines of NIST's CTM: a word each, with its seconds and, if it has one, its confidence."""
    lines = []
    for word in words:
        start, end = word.start or 0.0, word.end or 0.0
        confidence = "" if word.confidence is None else f" {word.confidence:.3f}"
        said = one_line(word.word).replace(" ", "_") or "_"
        lines.append(f"{name} 1 {start:.3f} {end - start:.3f} {said}{confidence}\n")
    return "".join(lines)
