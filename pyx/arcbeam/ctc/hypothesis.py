"""The results of a decoder: text, words with times, scores. They are derived from the path when they are first read."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from arcbeam.ctc._decode import graph_cost, rescoring_cost
from arcbeam.words import Word, finite

if TYPE_CHECKING:
    from collections.abc import Iterable

    from arcbeam.ctc.rescoring import Rescoring
    from arcbeam.ctc.stats import DecodeStats
    from arcbeam.graph.graph import Graph

EPSILON_COLUMN = 0xFFFF
# Attributes that are derived from the graph or the language models; a pickle has them instead of the graph and models.
DERIVED = ("graph_score", "rescoring_score", "tokens", "word_ids", "text", "words")


class Hypothesis:
    """The best path of one utterance.

    A pickled hypothesis has the values of all its attributes, but neither the graph nor language models.

    Attributes
    ----------
    arcs : uint32[n]
        Arc ids of the path in the graph, epsilon arcs included.
    score : float
        Natural-log score of the path: scaled acoustic score, graph weights, and the final weight if one was reached;
        with a large language model, also the rescoring score. -inf if the search died, so that no ranking prefers it.
    partial_score : float
        The path's score even if the search died; such a path is shorter than others, so their scores do not compare.
    complete : bool
        False if the search died: some frame admitted nothing, and the path is that of the last frame before it.
    reached_final : bool
        False if the path ends in a state that is not final, or the search died.
    error : ValueError or None
        Why the utterance could not be decoded, with ``errors="return"``: then there are no words, ``complete`` is False
        and scores are -inf.
    """

    def __init__(
        self,
        graph: Graph,
        frame_shift: float | None,
        arcs: np.ndarray,
        total_cost: float,
        reached_final: bool,
        complete: bool,
        rescoring: Rescoring | None = None,
        error: ValueError | None = None,
    ) -> None:
        self._graph = graph
        self._frame_shift = frame_shift
        self._rescoring = rescoring
        self.arcs = arcs
        self.partial_score = -math.inf if error is not None else 0.0 - total_cost  # never -0
        self.score = self.partial_score if complete else -math.inf
        self.complete = complete
        self.reached_final = reached_final
        self.error = error

    @cached_property
    def graph_score(self) -> float:
        """The graph's part of the partial score: weights along the path, and the final weight if one was reached."""
        return -graph_cost(self._graph, self.arcs, self.reached_final)

    @cached_property
    def rescoring_score(self) -> float:
        """The large language model's score less that of the graph's own, with the sentence end; 0 without a model."""
        if self._rescoring is None:
            return 0.0
        self._rescoring.check_files()
        return 0.0 - rescoring_cost(self._graph, self._rescoring, self.arcs, self.reached_final)

    @property
    def acoustic_score(self) -> float:
        """The rest of the partial score: scaled log-probs along the path, with blank penalties."""
        return self.partial_score - self.graph_score - self.rescoring_score

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

        A word spans the tokens that spell it. If the graph does not know how its words are spelled, a word starts
        with the frame that writes it and ends with the last token before the next word.
        """
        return self._graph.word_reader.words(self.arcs, self._frame_shift, Word)

    def to_dict(self) -> dict[str, Any]:
        """All attributes as plain Python values for JSON: a score of -inf becomes None, and an error its text."""
        return {
            "text": self.text,
            "words": [word._asdict() for word in self.words],
            "score": finite(self.score),
            "partial_score": finite(self.partial_score),
            "acoustic_score": finite(self.acoustic_score),
            "graph_score": finite(self.graph_score),
            "rescoring_score": finite(self.rescoring_score),
            "reached_final": self.reached_final,
            "complete": self.complete,
            "error": None if self.error is None else str(self.error),
            "tokens": self.tokens.tolist(),
            "word_ids": self.word_ids.tolist(),
            "arcs": self.arcs.tolist(),
        }

    def __getstate__(self) -> dict[str, Any]:
        for name in DERIVED:
            getattr(self, name)
        return {name: value for name, value in self.__dict__.items() if name not in ("_graph", "_rescoring")}

    def __repr__(self) -> str:
        if self.error is not None:
            return f"Hypothesis(error={self.error!r})"
        how = f"reached_final={self.reached_final}" if self.complete else "complete=False"
        return f"Hypothesis({self.text!r}, score={self.score:.3f}, {how})"


class Hypotheses(list[Hypothesis]):
    """The result of one decode: a list of :class:`Hypothesis`, in the order of the batch.

    Attributes
    ----------
    stats : DecodeStats
        The work of this decode.
    """

    stats: DecodeStats

    def __init__(self, hypotheses: Iterable[Hypothesis], stats: DecodeStats) -> None:
        super().__init__(hypotheses)
        self.stats = stats
