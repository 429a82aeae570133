"""What lattices answer, as arrays. Costs are in nats, posteriors and confidences in [0, 1], words are label ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from arcbeam.graph.graph import Graph
    from arcbeam.graph.new_words import OpenGraph

STEP_LIMIT = 1 << 27


@dataclass(frozen=True)
class AnswerRequest:
    """What the lattices of a batch are to answer."""

    graphs: Sequence[Graph | OpenGraph] | None = None  # of utterances with new words; None: there are none
    nbest: int = 1  # word sequences; 0: none
    labels: bool = False  # whether the labels of entries are read
    confidence: bool = False  # of each word of the hypothesis
    mbr: bool = False
    posterior_scale: float = 1.0  # finite, at least 0
    step_limit: int = STEP_LIMIT  # of each search in one lattice
    keeps_lattices: bool = True  # besides the answers


@dataclass(frozen=True)
class LatticeAnswers:
    """N-best lists and word confidences of a batch; an utterance that could not be decoded has neither."""

    first_entry: npt.NDArray[np.int64]  # int64[utterances + 1]: entries of i are [first_entry[i], first_entry[i + 1])
    costs: npt.NDArray[np.float64]  # float64[entries]
    posteriors: npt.NDArray[np.float64]  # float64[entries]: of the word sequence, over all its alignments
    first_arc: npt.NDArray[np.int64]  # int64[entries + 1]
    arcs: npt.NDArray[np.uint32]  # uint32: of the best alignment, with epsilon arcs
    nbest_truncated: npt.NDArray[np.bool_]  # bool[utterances]: at its limit; posteriors are lower bounds
    first_word: npt.NDArray[np.int64]  # int64[utterances + 1]
    confidences: npt.NDArray[np.float64]  # float64: of the words of the hypothesis, if requested
    confidence_truncated: npt.NDArray[np.bool_]  # bool[utterances]: edit distances in bands
    labels: EntryLabels | None = None
    mbr: MbrBatch | None = None


@dataclass(frozen=True)
class EntryLabels:
    """The labels (words or pieces) of all n-best entries and their frames, from the beginning of the path."""

    first_label: npt.NDArray[np.int64]  # int64[entries + 1]: labels of k are [first_label[k], first_label[k + 1])
    labels: npt.NDArray[np.uint32]  # uint32
    starts: npt.NDArray[np.int64]  # int64[labels]: frames [starts[i], ends[i])
    ends: npt.NDArray[np.int64]  # int64[labels]

    def labels_of(self, entry: int) -> npt.NDArray[np.uint32]:
        """The labels of one entry."""
        return self.labels[self.first_label.item(entry) : self.first_label.item(entry + 1)]

    def of(self, entry: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Those of one entry: labels, and the frames where each begins and ends."""
        place = slice(*self.first_label[entry : entry + 2].tolist())
        return self.labels[place], self.starts[place], self.ends[place]


@dataclass(frozen=True)
class MbrBatch:
    """Minimum Bayes risk of a batch: the arrays of `Mbr`, one utterance after another."""

    first_word: npt.NDArray[np.int64]  # int64[utterances + 1]
    words: npt.NDArray[np.uint32]  # uint32
    confidences: npt.NDArray[np.float64]  # float64[words]
    begins: npt.NDArray[np.float64]  # float64[words]
    ends: npt.NDArray[np.float64]  # float64[words]
    same_as: npt.NDArray[np.uint32]  # uint32[words]
    errors: npt.NDArray[np.float64]  # float64[utterances]
    first_position: npt.NDArray[np.int64]  # int64[utterances + 1]
    first_rival: npt.NDArray[np.int64]  # int64[positions + 1]
    rivals: npt.NDArray[np.uint32]  # uint32
    posteriors: npt.NDArray[np.float64]  # float64[rivals]
    truncated: npt.NDArray[np.bool_]  # bool[utterances]

    def of(self, index: int) -> Mbr:
        """That of one utterance; without words if the utterance could not be decoded."""
        words = slice(*self.first_word[index : index + 2].tolist())
        begin, end = self.first_position[index : index + 2].tolist()
        bounds = self.first_rival[begin : end + 1]
        rivals = slice(int(bounds[0]), int(bounds[-1]))
        return Mbr(
            self.words[words],
            self.confidences[words],
            self.begins[words],
            self.ends[words],
            self.same_as[words],
            self.errors.item(index),
            (bounds - bounds[0]).astype(np.uint32),
            self.rivals[rivals],
            self.posteriors[rivals],
            self.truncated.item(index),
        )


@dataclass(frozen=True)
class Posteriors:
    """Posteriors of links."""

    links: npt.NDArray[np.float64]  # float64[links]
    log_total: float  # of the sum over all paths, the best one counting 1; nats, at least 0


@dataclass(frozen=True)
class Nbest:
    """The best distinct word sequences of one lattice."""

    costs: npt.NDArray[np.float64]  # float64[entries]
    posteriors: npt.NDArray[np.float64]  # float64[entries]
    first_link: npt.NDArray[np.uint32]  # uint32[entries + 1]
    links: npt.NDArray[np.uint32]  # uint32: of the best alignment of k, [first_link[k], first_link[k + 1])
    truncated: bool


@dataclass(frozen=True)
class Mbr:
    """Minimum Bayes risk: the words of the fewest expected errors, and the confusion network."""

    words: npt.NDArray[np.uint32]  # uint32[words]
    confidences: npt.NDArray[np.float64]  # float64[words]
    begins: npt.NDArray[np.float64]  # float64[words]: frames, expected begin of the link that writes the word
    ends: npt.NDArray[np.float64]  # float64[words]
    same_as: npt.NDArray[np.uint32]  # uint32[words]: the hypothesis' word where both agree, else 0xffffffff
    errors: float  # expected
    first_rival: npt.NDArray[np.uint32]  # uint32[positions + 1]
    rivals: npt.NDArray[np.uint32]  # uint32: words at p are [first_rival[p], first_rival[p + 1]) by posterior; 0: none
    posteriors: npt.NDArray[np.float64]  # float64[rivals]
    truncated: bool  # distances in bands around the hypothesis, whose words these are

    def sausage(self) -> list[list[tuple[int, float]]]:
        """The confusion network: for each position the words and their posteriors."""
        pairs = list(zip(self.rivals.tolist(), self.posteriors.tolist(), strict=True))
        return [pairs[begin:end] for begin, end in pairwise(self.first_rival.tolist())]


@dataclass(frozen=True)
class Oracle:
    """The path that differs least from a reference."""

    errors: int  # insertions, deletions and substitutions
    links: npt.NDArray[np.uint32]  # uint32: of the path
