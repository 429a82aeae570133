"""Paths through the graph as words, and n-best lists of them. Each value is derived when it is first read."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from arcbeam.ctc.boost._boost import boost_cost
from arcbeam.ctc.boost.boost import Boost, Boosted
from arcbeam.ctc.boost.boosts import opened
from arcbeam.ctc.cpu._decode import graph_cost, rescoring_cost
from arcbeam.ctc.streams.sentences import STREAM_START, SentenceStart
from arcbeam.graph.openfst import EPSILON_COLUMN
from arcbeam.words import Word, as_dicts, finite, moved

if TYPE_CHECKING:
    from collections.abc import Iterable

    from arcbeam.ctc.lattice.answers import EntryLabels
    from arcbeam.ctc.rescoring import Rescoring
    from arcbeam.graph.graph import Graph
    from arcbeam.graph.new_words import OpenGraph

LEFT_BEHIND = ("_results", "_boost", "_came_before", "_labels", "_place")  # by a pickled entry


class PathSource(Protocol):
    """What paths are read with: the graph that their arcs belong to, and what has rescored them."""

    @property
    def graph(self) -> Graph:
        """The graph that their arcs belong to."""

    @property
    def frame_shift(self) -> float | None:
        """Seconds from one frame to the next, if they are known."""

    @property
    def rescoring(self) -> Rescoring | None:
        """The models that have rescored them."""


class WordPath:
    """A path through the graph, and what follows from it. A subclass has `arcs`, `reached_final` and a score."""

    _results: PathSource
    arcs: Any
    reached_final: Any

    def _boosted_with(self) -> Boost | None:
        raise NotImplementedError

    @property
    def _before(self) -> SentenceStart:
        """What came before the path."""
        raise NotImplementedError

    @property
    def _graph(self) -> Graph | OpenGraph:
        """The graph that the arcs belong to, with the new words of the boost."""
        return opened(self._results.graph, self._boosted_with())

    @cached_property
    def graph_score(self) -> float:
        """The graph's part of the score: weights along the path, and the final weight if one was reached."""
        return 0.0 - graph_cost(self._graph, self.arcs, self.reached_final)

    @cached_property
    def rescoring_score(self) -> float:
        """The large language model's score less that of the graph's own, with the sentence end; 0 without a model."""
        rescoring = self._results.rescoring
        if rescoring is None:
            return 0.0
        rescoring.check_files()
        return 0.0 - rescoring_cost(self._graph, rescoring, self.arcs, self.reached_final, self._before.lm_context)

    @cached_property
    def boost_score(self) -> float:
        """What the boost added to the score: the scores of all phrases in ``boosts``; 0 without a boost.

        The score less this is the score without a boost.
        """
        graph, boost = self._results.graph, self._boosted_with()
        return 0.0 if boost is None else 0.0 - boost_cost(self._graph, boost.compiled(graph), self.arcs)

    @cached_property
    def boosts(self) -> list[Boosted]:
        """The phrases of the boost that occur among the words, by their last words."""
        boost = self._boosted_with()
        if boost is None:
            return []
        words, found = self.words, []
        for phrase, score, first, end in boost.occurrences([word.word for word in words]):
            begins, ends = words[first], words[end - 1]
            span = begins.start_frame, ends.end_frame, begins.start, ends.end
            found.append(Boosted(phrase, score, first, end, *span))
        return found

    @cached_property
    def tokens(self) -> np.ndarray:
        """int32[frames]: the column that the path reads in each frame; fewer frames if the search died."""
        columns = self._graph.columns[self.arcs]
        return columns[columns != EPSILON_COLUMN].astype(np.int32)

    @cached_property
    def word_ids(self) -> np.ndarray:
        """uint32[m]: the output labels of the path."""
        labels = self._graph.words[self.arcs]
        return labels[labels != 0]

    @cached_property
    def text(self) -> str:
        """The words, with a space between them."""
        return self._graph.word_reader.text(self.arcs)

    @cached_property
    def words(self) -> list[Word]:
        """The words with their times.

        A word spans the tokens that spell it. If the graph has no spellings of its words, a word starts
        with the frame that writes it and ends with the last token before the next word.
        """
        return self._timed_words(None)

    def _timed_words(self, confidences: npt.NDArray[np.float64] | None) -> list[Word]:
        shift = self._results.frame_shift
        return moved(self._graph.word_reader.words(self.arcs, shift, Word, confidences), self._before.frames, shift)


class Alternative(WordPath):
    """One entry of an n-best list: a sequence of words, by its best path.

    Attributes
    ----------
    arcs : uint32[n]
        Arc ids of the path in the graph, epsilon arcs included.
    score : float
        Natural-log score of the path, comparable with the hypothesis'.
    posterior : float
        The probability of the words among all that the lattice holds, summed over all their paths; in [0, 1]. Where the
        graph writes pieces: of the pieces, and the same words in other pieces are another entry. 0 if the search died.
    reached_final : bool
        As the hypothesis'.
    """

    def __init__(
        self,
        results: PathSource,
        arcs: np.ndarray,
        score: float,
        posterior: float,
        reached_final: bool,
        boost: Boost | None = None,
        before: SentenceStart = STREAM_START,
        labels: EntryLabels | None = None,
        place: int = 0,
    ) -> None:
        self._results, self._boost, self._came_before = results, boost, before
        self._labels, self._place = labels, place  # where its labels are, if they have been read
        self.arcs, self.score, self.posterior, self.reached_final = arcs, score, posterior, reached_final

    def _boosted_with(self) -> Boost | None:
        return self._boost

    @property
    def _before(self) -> SentenceStart:
        return self._came_before

    @cached_property
    def word_ids(self) -> np.ndarray:
        """uint32[m]: the output labels of the path."""
        return super().word_ids if self._labels is None else self._labels.labels_of(self._place).copy()

    @cached_property
    def text(self) -> str:
        """The words, with a space between them."""
        if self._labels is None:
            return super().text
        return self._graph.word_reader.text_of_labels(self._labels.labels_of(self._place))

    def _timed_words(self, confidences: npt.NDArray[np.float64] | None) -> list[Word]:
        if self._labels is None or confidences is not None:
            return super()._timed_words(confidences)
        shift = self._results.frame_shift
        words = self._graph.word_reader.words_of_labels(*self._labels.of(self._place), shift, Word)
        return moved(words, self._before.frames, shift)

    @property
    def acoustic_score(self) -> float:
        """The rest of the score: scaled log-probs along the path, with blank penalties."""
        return self.score - self.graph_score - self.rescoring_score - self.boost_score

    def to_dict(self) -> dict[str, Any]:
        """The text, the words, the scores and the posterior as plain Python values for JSON."""
        return {
            "text": self.text,
            "words": as_dicts(self.words),
            "score": finite(self.score),
            "acoustic_score": finite(self.acoustic_score),
            "graph_score": finite(self.graph_score),
            "rescoring_score": finite(self.rescoring_score),
            "boost_score": finite(self.boost_score),
            "posterior": self.posterior,
        }

    def __getstate__(self) -> dict[str, Any]:
        for name in ("graph_score", "rescoring_score", "boost_score", "boosts", "tokens", "word_ids", "text", "words"):
            getattr(self, name)
        return {name: value for name, value in self.__dict__.items() if name not in LEFT_BEHIND}

    def __repr__(self) -> str:
        return f"Alternative({self.text!r}, score={self.score:.3f}, posterior={self.posterior:.3g})"


class Nbest(list[Alternative]):
    """The best distinct word sequences of an utterance; the first is the hypothesis.

    Attributes
    ----------
    is_all : bool
        The lattice holds no other word sequence, so that there may be fewer than were requested. A larger
        ``lattice_beam`` may find more.
    truncated : bool
        The lattice is so large that the search for entries was ended early: better ones may be missing, and
        posteriors may be too small.
    """

    def __init__(self, alternatives: Iterable[Alternative], is_all: bool, truncated: bool) -> None:
        super().__init__(alternatives)
        self.is_all, self.truncated = is_all, truncated
