"""The result of forced alignment: words and labels of a text with their times, and how well they fit."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from arcbeam.ctc.confidence.frame_confidences import Label
from arcbeam.graph.text_graph import STAR
from arcbeam.words import Word, as_dicts, finite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcbeam.core.errors import Fault

Ints = npt.NDArray[np.int64]
DOUBTFUL = 0.1  # the confidence of a text below which it was hardly said; measured by the experiment `alignment`


@dataclass(frozen=True, eq=False)
class FramePath:
    """What the best path does in each frame; frames of one state are one label."""

    columns: npt.NDArray[np.int32]
    states: Ints
    items: Ints  # the place of the word or star in the text; below 0: a blank or a separator
    is_star: npt.NDArray[np.bool_]
    scores: npt.NDArray[np.float32]  # the log-prob of the column

    def part(self, first: int, end: int) -> FramePath:
        """That of some frames."""
        at = slice(first, end)
        return FramePath(self.columns[at], self.states[at], self.items[at], self.is_star[at], self.scores[at])


class WordPlaces(NamedTuple):
    """Where the words and stars of a text are: their numbers in it, frames, and the means of their probabilities."""

    items: list[int]
    begins: Ints
    ends: Ints
    confidences: list[float]

    def part(self, first: int, end: int) -> WordPlaces:
        """Those of some words."""
        at = slice(first, end)
        return WordPlaces(self.items[at], self.begins[at], self.ends[at], self.confidences[at])


_NONE = np.zeros(0, np.int64)
NO_PATH = (
    FramePath(np.zeros(0, np.int32), _NONE, _NONE, np.zeros(0, np.bool_), np.zeros(0, np.float32)),
    WordPlaces([], _NONE, _NONE, []),
)


def word_places(path: FramePath, ends_of: Ints) -> list[WordPlaces]:
    """Those of utterances whose paths come one after the other, up to these frames."""
    places = np.flatnonzero(path.items >= 0)
    utterance = np.searchsorted(ends_of, places, side="right")
    first, end = _runs(path.items[places] + (utterance << 32))
    confidences = _means(path.scores[places], first, end)
    begins, ends, of = places[first], places[end - 1] + 1, utterance[first]
    before = np.append(0, ends_of)[of]  # frames
    every = WordPlaces(path.items[begins].tolist(), begins - before, ends - before, confidences)
    cuts = np.searchsorted(of, np.arange(len(ends_of) + 1)).tolist()
    return [every.part(*words) for words in itertools.pairwise(cuts)]


class Alignment:
    """When the words and labels of a text were said, by the best path that reads them all.

    Attributes
    ----------
    score : float
        Natural-log score of the path; -inf if no path reads the text, as log-probs of -inf forbid it. Then
        `complete` is False, and there are no words.
    complete : bool
        Whether there is a path.
    exact : bool
        Whether it is proven that no path of the text has a better score. If it is False the path is the best one within
        the widest beam that was tried.
    error : InputError or None
        Why the text could not be aligned, with ``errors="return"``; None if it was.
    """

    def __init__(
        self,
        names: Sequence[str],
        path: FramePath,
        places: WordPlaces,
        score: float,
        exact: bool,
        error: Fault | None,
        tokens: tuple[Sequence[str] | None, int | None],
        frame_shift: float | None,
    ) -> None:
        self.score, self.exact, self.error = score, exact, error
        self.complete = score > -math.inf
        self._names, self._path, self._places, self._frame_shift = names, path, places, frame_shift
        self._tokens, self._blank = tokens

    @property
    def tokens(self) -> npt.NDArray[np.int32]:
        """int32[frames]: the column that the path reads in each frame."""
        return self._path.columns

    @property
    def frame_scores(self) -> npt.NDArray[np.float32]:
        """float32[frames]: the log-prob of that column, before `acoustic_scale` and `blank_penalty`."""
        return self._path.scores

    @cached_property
    def text(self) -> str:
        """The words, with a space between them, and ``<star>`` where a star has taken frames."""
        return " ".join(word.word for word in self.words)

    @cached_property
    def words(self) -> list[Word]:
        """The words with their times and confidences.

        A word spans the frames from its first label to its last. Its confidence is the geometric mean of the
        probabilities of its labels in the frames that read them; blanks within it do not count. A ``<star>`` has none.
        """
        found = self._places
        names = [self._names[item] for item in found.items]
        of_words: list[float | None] = [*found.confidences]
        if self._path.is_star.any():
            of_words = [None if name == STAR else value for name, value in zip(names, of_words, strict=True)]
        return list(map(Word, names, *self._times(found.begins, found.ends), of_words))

    @cached_property
    def labels(self) -> list[Label]:
        """The labels of the path with their times and confidences, separators between words among them.

        Those within a star are left out. A confidence is the geometric mean of the label's probabilities in its frames.
        """
        path, found = self._path, []
        firsts, ends = _runs(path.states)
        confidences = _means(path.scores, firsts, ends)
        columns = np.where(path.is_star[firsts], -1, path.columns[firsts]).tolist()
        for column, first, end, start_s, end_s, confidence in zip(
            columns, *self._times(firsts, ends), confidences, strict=True
        ):
            if column not in (-1, self._blank):
                name = str(column) if self._tokens is None else self._tokens[column]
                found.append(Label(name, first, end, start_s, end_s, confidence))
        return found

    @cached_property
    def confidence(self) -> float:
        """How well the text fits: the geometric mean as of a word, of all words; 1 without words, 0 without a path."""
        if not self.complete:
            return 0.0
        path = self._path
        scores = path.scores[(path.items >= 0) & ~path.is_star]
        return _means(scores, np.zeros(1, np.int64), np.array([len(scores)]))[0] if len(scores) else 1.0

    @property
    def doubtful(self) -> bool:
        """Whether the text was probably not said: its `confidence` is below 0.1, or there is no path."""
        return self.confidence < DOUBTFUL

    def _times(self, firsts: Ints, ends: Ints) -> tuple[list[Any], ...]:
        """First frames and those after the last, and both in seconds, None without a frame shift."""
        shift, unknown = self._frame_shift, [None] * len(firsts)
        seconds = (unknown, unknown) if shift is None else ((firsts * shift).tolist(), (ends * shift).tolist())
        return firsts.tolist(), ends.tolist(), *seconds

    def to_dict(self) -> dict[str, Any]:
        """The attributes as plain Python values for JSON: a score of -inf becomes None, and an error its text."""
        return {
            "text": self.text,
            "words": as_dicts(self.words),
            "labels": [label._asdict() for label in self.labels],
            "score": finite(self.score),
            "confidence": self.confidence,
            "doubtful": self.doubtful,
            "exact": self.exact,
            "complete": self.complete,
            "error": None if self.error is None else str(self.error),
            "tokens": self.tokens.tolist(),
            "frame_scores": [finite(score) for score in self.frame_scores.tolist()],
        }

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        if self.error is not None:
            return f"Alignment(error={self.error!r})"
        return f"Alignment({self.text!r}, score={self.score:.3f}, confidence={self.confidence:.3f}, exact={self.exact})"


def _runs(values: Ints) -> tuple[Ints, Ints]:
    """Where runs of equal values begin and end."""
    if not len(values):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    changes = np.flatnonzero(values[1:] != values[:-1]) + 1
    return np.concatenate(([0], changes)), np.concatenate((changes, [len(values)]))


def _means(scores: npt.NDArray[np.float32], firsts: Ints, ends: Ints) -> list[float]:
    """The geometric means of the probabilities of runs, in [0, 1]."""
    if not len(firsts):
        return []
    sums = np.add.reduceat(scores.astype(np.float64), firsts)
    return [math.exp(min(mean, 0.0)) for mean in (sums / (ends - firsts)).tolist()]
