"""The words of minimum Bayes risk decoding, and the confusion network that goes with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from arcbeam.core.pieces import join_pieces
from arcbeam.words import Word

if TYPE_CHECKING:
    from arcbeam.ctc.lattice.answers import Mbr
    from arcbeam.graph.graph import Graph

Sausage: TypeAlias = list[list[tuple[str, float]]]
Frames: TypeAlias = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]  # where labels begin, and where they end

OTHER_WORD = 0xFFFFFFFF


class Spelled(NamedTuple):
    """How labels make words: as pieces that are joined, where `separator` opens a word, or each as a word."""

    in_pieces: bool
    separator: str | None

    @classmethod
    def by(cls, graph: Graph) -> Spelled:
        """What a graph's labels are."""
        return cls(graph.join == "pieces", graph.separator)

    def words(self, labels: list[str]) -> list[tuple[str, int, int]]:
        """The words that labels make: (word, index of its first label, index of its last)."""
        if self.in_pieces:
            return join_pieces(labels, self.separator)
        return [(label, i, i) for i, label in enumerate(labels)]


class MbrWords(NamedTuple):
    """The result of minimum Bayes risk decoding.

    Attributes
    ----------
    text : str
        The words, with a space between them.
    words : list of Word
        With confidences. A word that the hypothesis has in its place has the hypothesis' times; any other those of the
        links that write it, averaged over the lattice and rounded to frames, at least one. A word of several pieces has
        the smallest of their confidences.
    errors : float
        The expected number of errors of these words, or of their pieces where the graph writes pieces. Each counts if
        the search died.
    truncated : bool
        The lattice is so large that edit distances were computed in bands around the hypothesis, whose words these are.
    """

    text: str
    words: list[Word]
    errors: float
    truncated: bool


def mbr_words(
    found: Mbr,
    name: Callable[[int], str],
    spelled: Spelled,
    of_hypothesis: Frames,
    frame_shift: float | None,
    first_frame: int,
) -> MbrWords:
    """The words of an array of ids, from `first_frame` on; `of_hypothesis` are the frames of the hypothesis' labels."""
    begins, ends = found.begins.copy(), found.ends.copy()
    same = found.same_as != OTHER_WORD
    for times, known in ((begins, of_hypothesis[0]), (ends, of_hypothesis[1])):
        times[same] = known[found.same_as[same]]
    words = []
    for word, first, last in spelled.words([name(label) for label in found.words.tolist()]):
        begin = first_frame + round(begins.item(first))
        end = max(begin + 1, first_frame + round(ends.item(last)))  # an epsilon arc writes a word between two frames
        start, stop = (None, None) if frame_shift is None else (begin * frame_shift, end * frame_shift)
        words.append(Word(word, begin, end, start, stop, found.confidences[first : last + 1].min().item()))
    return MbrWords(" ".join(word.word for word in words), words, found.errors, found.truncated)


def sausage_of(found: Mbr, name: Callable[[int], str]) -> Sausage:
    """The confusion network with the words of their ids."""
    return [[(name(word), posterior) for word, posterior in rivals] for rivals in found.sausage()]
