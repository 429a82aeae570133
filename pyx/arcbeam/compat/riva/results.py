"""What the decoders return."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from arcbeam.ctc.lattice.alternatives import WordPath
    from arcbeam.ctc.streams.partial import Partial
    from arcbeam.words import Word

MbrWord: TypeAlias = tuple[str, float, float, float]  # word, begin and end in seconds, confidence


@dataclass
class NBestResult:
    """An entry of an n-best list.

    Attributes
    ----------
    score : float
        A cost, of scaled parts: lower is better.
    ilabels : list of int
        For each frame the column that the path reads, plus 1.
    words : list of int
        Output labels.
    word_start_times_seconds, word_durations_seconds : list of float
        Of each of `words`.
    """

    score: float
    ilabels: list[int]
    words: list[int]
    word_start_times_seconds: list[float]
    word_durations_seconds: list[float]

    @classmethod
    def of_path(cls, path: WordPath, cost: float, frame_shift: float) -> NBestResult:
        """The entry of a path."""
        words = path.words
        return cls(
            cost,
            (path.tokens + 1).tolist(),
            path.word_ids.tolist(),
            [word.start_frame * frame_shift for word in words],
            [(word.end_frame - word.start_frame) * frame_shift for word in words],
        )


@dataclass
class PartialHypothesisEx:
    """What is known of a stream after a chunk.

    Attributes
    ----------
    score : float
        A cost: lower is better. It has no cost of a final state.
    ilabels : list of int
        For each frame of the stream the column that the path reads, plus 1.
    words : list of int
        Output labels.
    word_start_times_frames, word_end_times_frames : list of int
        Of each of `words`; a word ends before its end.
    """

    score: float
    ilabels: list[int]
    words: list[int]
    word_start_times_frames: list[int]
    word_end_times_frames: list[int]

    @classmethod
    def of_partial(cls, partial: Partial) -> PartialHypothesisEx:
        """The result of a stream."""
        words = partial.words
        return cls(
            0.0 - partial.partial_score,
            (partial.tokens + 1).tolist(),
            partial.word_ids.tolist(),
            [word.start_frame for word in words],
            [word.end_frame for word in words],
        )


def mbr_words(words: Iterable[Word], frame_shift: float) -> list[MbrWord]:
    """Words with confidences as `decode_mbr` returns them."""
    return [
        (word.word, word.start_frame * frame_shift, word.end_frame * frame_shift, word.confidence or 0.0)
        for word in words
    ]
