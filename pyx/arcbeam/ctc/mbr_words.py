"""The words of minimum Bayes risk decoding, and the confusion network that goes with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from arcbeam.words import Word

if TYPE_CHECKING:
    from arcbeam.ctc.lattice_answers import Mbr

Sausage: TypeAlias = list[list[tuple[str, float]]]


class MbrWords(NamedTuple):
    """The result of minimum Bayes risk decoding.

    Attributes
    ----------
    text : str
        The words, with a space between them.
    words : list of Word
        With confidences. A word's times are those of the link that writes it, averaged over the lattice.
    errors : float
        The expected number of errors of these words.
    truncated : bool
        The lattice is so large that edit distances were computed in bands around the hypothesis, whose words these are.
    """

    text: str
    words: list[Word]
    errors: float
    truncated: bool


def mbr_words(found: Mbr, name: Callable[[int], str], frame_shift: float | None, first_frame: int) -> MbrWords:
    """The words of an array of ids; `name` gives the word of an id. They begin after `first_frame` frames."""
    words = []
    for word, begin, end, confidence in zip(
        found.words.tolist(), found.begins.tolist(), found.ends.tolist(), found.confidences.tolist(), strict=True
    ):
        start, stop = None, None
        if frame_shift is not None:
            start, stop = (first_frame + begin) * frame_shift, (first_frame + end) * frame_shift
        span = first_frame + round(begin), first_frame + round(end)
        words.append(Word(name(word), *span, start, stop, confidence))
    return MbrWords(" ".join(word.word for word in words), words, found.errors, found.truncated)


def sausage_of(found: Mbr, name: Callable[[int], str]) -> Sausage:
    """The confusion network with the words of their ids."""
    return [[(name(word), posterior) for word, posterior in rivals] for rivals in found.sausage()]
