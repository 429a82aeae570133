"""The results of a decoder: text, words with times, scores. Each is derived from the path when it is first read."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from arcbeam.core._confidence import aggregated
from arcbeam.core.calls import lists_options
from arcbeam.core.show import Formatted
from arcbeam.ctc import frame_picture
from arcbeam.ctc.boost.boost import Boost
from arcbeam.ctc.confidence.frame_confidences import Label, of_words
from arcbeam.ctc.lattice.alternatives import Nbest, WordPath
from arcbeam.ctc.lattice.lattice import Lattice
from arcbeam.ctc.lattice.mbr_words import Spelled, mbr_words, sausage_of
from arcbeam.ctc.results import Results
from arcbeam.ctc.streams.sentences import STREAM_START, SentenceStart
from arcbeam.words import Word, as_dicts, finite

if TYPE_CHECKING:
    from collections.abc import Iterable

    from arcbeam.core.errors import Fault
    from arcbeam.ctc.lattice.answers import Mbr
    from arcbeam.ctc.lattice.mbr_words import MbrWords, Sausage
    from arcbeam.ctc.stats import DecodeStats

# Attributes that are derived when they are read; a pickle has them instead of the batch, the graph and the models.
DERIVED = (
    "arcs", "partial_score", "score", "complete", "reached_final", "error",
    "graph_score", "rescoring_score", "boost_score", "boosts", "tokens", "word_ids", "text", "words", "nbest",
    "confidence", "confidence_truncated", "lattice", "_has_mbr", "frame_confidence", "labels", "token_confidence",
    "word_confidence", "_frame_shift", "_first_frame", "_label_names",
)  # fmt: skip


class Hypothesis(WordPath, Formatted):
    """The best path of one utterance, and the other outputs that were requested.

    A pickled hypothesis has the values of all its attributes, but neither the graph nor language models.
    """

    _results: Results

    def __init__(self, results: Results, index: int) -> None:
        self._results = results
        self._index = index

    def _boosted_with(self) -> Boost | None:
        return self._results.boost(self._index)

    @property
    def _before(self) -> SentenceStart:
        return STREAM_START

    def _read(self) -> dict[str, Any]:
        """The engine's values of the path, read together, because readers of one value need others."""
        results, index = self._results, self._index
        arcs, begins, lengths, total_costs, reached_final, complete, *_ = results.paths
        begin, error, lived = begins.item(index), results.errors.get(index), complete.item(index)
        partial_score = -math.inf if error is not None else 0.0 - total_costs.item(index)  # never -0
        read = {
            "arcs": arcs[begin : begin + lengths.item(index)],
            "score": partial_score if lived else -math.inf,
            "partial_score": partial_score,
            "complete": lived,
            "reached_final": reached_final.item(index),
            "error": error,
        }
        read.update(self.__dict__)  # what a user has set stays
        self.__dict__.update(read)
        return read

    @cached_property
    def arcs(self) -> np.ndarray:
        """uint32[n]: arc ids of the path in the graph, epsilon arcs included."""
        return self._read()["arcs"]

    @cached_property
    def score(self) -> float:
        """Natural-log score of the path; -inf if the search died, so that no ranking prefers it.

        It is the sum of the scaled acoustic score, graph weights, the final weight if one was reached, with a large
        language model the rescoring score, and with a boost the scores of its phrases.
        """
        return self._read()["score"]

    @cached_property
    def partial_score(self) -> float:
        """The path's score even if the search died; such paths are shorter than others, so scores do not compare."""
        return self._read()["partial_score"]

    @cached_property
    def complete(self) -> bool:
        """False if the search died: some frame admitted nothing, and the path is that of the last frame before it."""
        return self._read()["complete"]

    @cached_property
    def reached_final(self) -> bool:
        """False if the path ends in a state that is not final, or the search died."""
        return self._read()["reached_final"]

    @cached_property
    def error(self) -> Fault | None:
        """Why the utterance could not be decoded, with ``errors="return"``; None if it was.

        There are no words then, ``complete`` is False and scores are -inf.
        """
        return self._read()["error"]

    @property
    def acoustic_score(self) -> float:
        """The rest of the partial score: scaled log-probs along the path, with blank penalties."""
        return self.partial_score - self.graph_score - self.rescoring_score - self.boost_score

    @cached_property
    def words(self) -> list[Word]:
        """The words with their times, and with their confidences if these were requested.

        A word spans the labels that spell it. If the graph has no spellings of its words, a word starts with the frame
        that writes it and ends with the last label before the next word. A confidence is the expected share of paths of
        the lattice that agree on the word (Xu, Povey, Mangu & Zhu 2011, gamma(q, r_q) with R fixed to the hypothesis);
        a word of several labels has the smallest of theirs.
        """
        return self._timed_words(self._results.word_confidences(self._index))

    @cached_property
    def nbest(self) -> Nbest | None:
        """The best distinct word sequences, best first, this hypothesis as the first; None if not requested.

        None of them if the utterance could not be decoded.
        """
        return self._results.nbest(self._index)

    @cached_property
    def confidence(self) -> float | None:
        """The probability of this sequence of words among all that the lattice holds, in [0, 1]; None if not requested.

        0 if the utterance could not be decoded, or the search died: then all confidences of its words are 0, too.
        """
        return self._results.confidence(self._index)

    @cached_property
    def confidence_truncated(self) -> bool | None:
        """Whether the lattice was too large for exact confidences; None if no confidence was requested.

        Then ``confidence`` may be too small, and those of words may come from edit distances in bands around the
        hypothesis. Limits count steps, so both are the same on every run.
        """
        return self._results.confidence_truncated(self._index)

    @cached_property
    def frame_confidence(self) -> npt.NDArray[np.float32] | None:
        """float32[frames of the log-probs]: how certain the model is of each frame, in [0, 1]; None if not requested.

        No frames if the utterance could not be decoded.
        """
        frames = self._results.frames
        return None if frames is None else frames.of(self._index)

    @property
    def _aggregation(self) -> str:
        """How one confidence is made of several, where those of frames were requested."""
        frames = self._results.frames
        assert frames is not None
        return frames.aggregation

    @cached_property
    def token_confidence(self) -> npt.NDArray[np.float32] | None:
        """float32[labels]: how certain the model is of each label of the path, in [0, 1]; None if not requested.

        The path's labels are what it reads, repeats and blanks taken out. The confidence of a label is made of those of
        the frames that read it, as ``confidence_aggregation`` says.
        """
        of_frames = self.frame_confidence
        return None if of_frames is None else aggregated(of_frames, *self._spans[1:], self._aggregation)

    @cached_property
    def labels(self) -> list[Label] | None:
        """The labels of the path with their frames and confidences; None unless ``frame_confidence`` was requested."""
        if self.token_confidence is None:
            return None
        tokens, shift = self._results.graph.tokens, self._results.frame_shift
        columns, begins, ends = self._spans
        before, found = self._before.frames, []
        for column, begin, end, confidence in zip(
            *(values.tolist() for values in (columns, begins + before, ends + before, self.token_confidence)),
            strict=True,
        ):
            start, stop = (None, None) if shift is None else (begin * shift, end * shift)
            name = str(column) if tokens is None else tokens.tokens[column]
            found.append(Label(name, begin, end, start, stop, confidence))
        return found

    @cached_property
    def word_confidence(self) -> npt.NDArray[np.float32] | None:
        """float32[words]: how certain the model is of the labels of each word, in [0, 1]; None if not requested.

        It is made of those of the labels that begin within the word's time, as ``confidence_aggregation`` says; 0 for a
        word without any. It depends on the log-probs alone; ``word.confidence`` also takes into account what else could
        have been said.
        """
        if self.token_confidence is None:
            return None
        begins = self._spans[1] + self._before.frames
        return of_words(self.words, begins, self.token_confidence, self._aggregation)

    @property
    def _spans(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """int64[labels] each: the columns of the labels, and their first frames and ends, counted along the path."""
        return self._graph.word_reader.tokens(self.arcs)

    @cached_property
    def lattice(self) -> Lattice | None:
        """The paths within ``lattice_beam`` of this one; None if not requested.

        It is empty if the utterance could not be decoded, and has this path alone if the search died.
        """
        lattices = self._results.lattices
        return None if lattices is None else Lattice(lattices, self._index)

    @cached_property
    def mbr(self) -> MbrWords | None:
        """The words of the fewest expected errors, with times and confidences (Xu, Povey, Mangu & Zhu 2011).

        They may differ from those of the hypothesis; words that both have keep its times. With ``mbr=True`` they were
        found while decoding; with a lattice they are found when they are first read; without either this is None.
        """
        if self._has_mbr:
            results, frames = self._results, self._graph.word_reader.label_frames(self.arcs)
            spelled = Spelled.by(results.graph)
            return mbr_words(self._mbr, self._name, spelled, frames, results.frame_shift, self._before.frames)
        return None if self.lattice is None else self.lattice.mbr

    @cached_property
    def sausage(self) -> Sausage | None:
        """The confusion network: for each position the words that compete there, by falling posterior.

        ``""`` stands for no word. The posteriors of a position sum to 1. It is there when `mbr` is. Where the graph
        writes pieces, it has pieces.
        """
        if self._has_mbr:
            return sausage_of(self._mbr, self._name)
        return None if self.lattice is None else self.lattice.sausage

    def _name(self, word: int) -> str:
        """The word with this number; the number if the graph has no symbols of words."""
        symbols = self._graph.word_symbols
        return "" if not word else str(word) if symbols is None else symbols[word]

    @cached_property
    def _has_mbr(self) -> bool:
        return self._results.outputs.mbr

    @property
    def _mbr(self) -> Mbr:
        found = self._results.mbr(self._index)
        assert found is not None
        return found

    @lists_options()
    def plot(
        self, log_probs: npt.ArrayLike, ax: Any = None, *, start: float | None = None, end: float | None = None
    ) -> Any:
        """Draws the probabilities of labels over time, and the words where they were found.

        Rows are the columns that reach a probability of 0.1, at most 40 of them. ``ax.figure.savefig`` saves it.

        Parameters
        ----------
        log_probs : array [frames, columns]
            What was decoded, in the host's memory.
        ax : matplotlib.axes.Axes, optional
            Where to draw; None makes a figure.
        start, end : float, optional
            The stretch that is drawn: seconds, or frames if the decoder was given no ``frame_shift``.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        ValueError
            Log-probs that are no array of two dimensions; a stretch without frames.
        MissingDependencyError
            matplotlib is missing.
        """
        rows = np.asarray(log_probs)
        if rows.ndim != 2:
            raise ValueError(f"log_probs: expected [frames, columns], as they were decoded, got {rows.shape}")
        if len(rows) < len(self.tokens):
            raise ValueError(
                f"log_probs: expected the {len(self.tokens)} frames that were decoded, or more, got {len(rows)}"
            )
        shift, first = self._frame_shift, self._first_frame
        scale = 1.0 if shift is None else shift
        begin = 0 if start is None else max(round(start / scale) - first, 0)
        stop = len(rows) if end is None else min(round(end / scale) - first, len(rows))
        if begin >= stop:
            raise ValueError(f"start, end: expected a stretch of the {len(rows)} frames, got {start} to {end}")
        return frame_picture.plot(rows, self.words, self._label_names, first, shift, (begin, stop), ax)

    @cached_property
    def _frame_shift(self) -> float | None:
        return self._results.frame_shift

    @cached_property
    def _first_frame(self) -> int:
        """The frames of the stream before this sentence."""
        return self._before.frames

    @cached_property
    def _label_names(self) -> tuple[str, ...] | None:
        """The tokens of the columns; None if the graph has none."""
        tokens = self._results.graph.tokens
        return None if tokens is None else tokens.tokens

    def to_dict(self) -> dict[str, Any]:
        """All attributes as plain Python values for JSON: a score of -inf becomes None, and an error its text.

        It has confidences, entries of an n-best list, minimum Bayes risk and the confusion network if they were
        requested; it has no lattice.
        """
        outputs: dict[str, Any] = {}
        if self.confidence is not None:
            outputs["confidence"] = self.confidence
            outputs["confidence_truncated"] = self.confidence_truncated
        if self.nbest is not None:
            outputs["nbest"] = [entry.to_dict() for entry in self.nbest]
            outputs["nbest_is_all"], outputs["nbest_truncated"] = self.nbest.is_all, self.nbest.truncated
        if self._has_mbr and self.mbr is not None and self.sausage is not None:
            outputs["mbr"] = {**self.mbr._asdict(), "words": as_dicts(self.mbr.words)}
            outputs["sausage"] = [[list(rival) for rival in rivals] for rivals in self.sausage]
        if self.frame_confidence is not None and self.labels is not None:
            outputs["labels"] = [label._asdict() for label in self.labels]
            outputs["frame_confidence"] = self.frame_confidence.tolist()
        return {
            "text": self.text,
            "words": as_dicts(self.words, self.word_confidence),
            "score": finite(self.score),
            "partial_score": finite(self.partial_score),
            "acoustic_score": finite(self.acoustic_score),
            "graph_score": finite(self.graph_score),
            "rescoring_score": finite(self.rescoring_score),
            "boost_score": finite(self.boost_score),
            "reached_final": self.reached_final,
            "complete": self.complete,
            "error": None if self.error is None else str(self.error),
            "boosts": [boosted._asdict() for boosted in self.boosts],
            "tokens": self.tokens.tolist(),
            "word_ids": self.word_ids.tolist(),
            "arcs": self.arcs.tolist(),
            **outputs,
        }

    def __getstate__(self) -> dict[str, Any]:
        for name in (*DERIVED, "mbr", "sausage") if self._has_mbr else DERIVED:
            getattr(self, name)
        return {name: value for name, value in self.__dict__.items() if name not in ("_results", "_index")}

    def __str__(self) -> str:
        return self.text

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
