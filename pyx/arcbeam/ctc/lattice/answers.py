"""What lattices answer, as arrays. Costs are in nats, posteriors and confidences in [0, 1], words are label ids."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class LatticeAnswers:
    """N-best lists and word confidences of a batch. An utterance that could not be decoded has neither.

    Attributes
    ----------
    first_entry : int64[utterances + 1]
        The entries of utterance i are ``[first_entry[i], first_entry[i + 1])``; the first is the hypothesis.
    costs : float64[entries]
    posteriors : float64[entries]
        Of the word sequence, over all its alignments in the lattice.
    first_arc : int64[entries + 1]
    arcs : uint32
        Of the best alignment of entry k, epsilon arcs included: ``[first_arc[k], first_arc[k + 1])``.
    nbest_truncated : bool[utterances]
        The search for entries came to its limit: better ones may be missing, and posteriors may be lower bounds.
    first_word : int64[utterances + 1]
    confidences : float64
        Of the words of the hypothesis of utterance i: ``[first_word[i], first_word[i + 1])``, if requested.
    confidence_truncated : bool[utterances]
        Edit distances were computed in bands, because the lattice was too large for all of them.
    labels : EntryLabels or None
        What the entries write, with times, if requested.
    mbr : MbrBatch or None
        Minimum Bayes risk and confusion networks, if requested.
    """

    first_entry: npt.NDArray[np.int64]
    costs: npt.NDArray[np.float64]
    posteriors: npt.NDArray[np.float64]
    first_arc: npt.NDArray[np.int64]
    arcs: npt.NDArray[np.uint32]
    nbest_truncated: npt.NDArray[np.bool_]
    first_word: npt.NDArray[np.int64]
    confidences: npt.NDArray[np.float64]
    confidence_truncated: npt.NDArray[np.bool_]
    labels: EntryLabels | None = None
    mbr: MbrBatch | None = None


@dataclass(frozen=True)
class EntryLabels:
    """The output labels of all entries of n-best lists, with the frames that each spans.

    A label is a word, or a piece of one where the graph has pieces. Frames are counted from the beginning of the path.

    Attributes
    ----------
    first_label : int64[entries + 1]
        The labels of entry k are ``[first_label[k], first_label[k + 1])``.
    labels : uint32
    starts, ends : int64[labels]
        Frames ``[starts[i], ends[i])``.
    """

    first_label: npt.NDArray[np.int64]
    labels: npt.NDArray[np.uint32]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    def labels_of(self, entry: int) -> npt.NDArray[np.uint32]:
        """The labels of one entry."""
        return self.labels[self.first_label.item(entry) : self.first_label.item(entry + 1)]

    def of(self, entry: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Those of one entry: labels, and the frames where each begins and ends."""
        place = slice(*self.first_label[entry : entry + 2].tolist())
        return self.labels[place], self.starts[place], self.ends[place]


@dataclass(frozen=True)
class MbrBatch:
    """Minimum Bayes risk of a batch: the arrays of `Mbr`, one utterance after another.

    Attributes
    ----------
    first_word : int64[utterances + 1]
        The words of utterance i are ``[first_word[i], first_word[i + 1])``.
    words : uint32
    confidences, begins, ends : float64[words]
    same_as : uint32[words]
    errors : float64[utterances]
    first_position : int64[utterances + 1]
        The positions of utterance i are ``[first_position[i], first_position[i + 1])``.
    first_rival : int64[positions + 1]
    rivals : uint32
    posteriors : float64[rivals]
    truncated : bool[utterances]
    """

    first_word: npt.NDArray[np.int64]
    words: npt.NDArray[np.uint32]
    confidences: npt.NDArray[np.float64]
    begins: npt.NDArray[np.float64]
    ends: npt.NDArray[np.float64]
    same_as: npt.NDArray[np.uint32]
    errors: npt.NDArray[np.float64]
    first_position: npt.NDArray[np.int64]
    first_rival: npt.NDArray[np.int64]
    rivals: npt.NDArray[np.uint32]
    posteriors: npt.NDArray[np.float64]
    truncated: npt.NDArray[np.bool_]

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
    """Posteriors of links.

    Attributes
    ----------
    links : float64[links]
    log_total : float
        Logarithm of the sum over all paths, where the best path counts 1; in nats, at least 0.
    """

    links: npt.NDArray[np.float64]
    log_total: float


@dataclass(frozen=True)
class Nbest:
    """The best distinct word sequences of one lattice.

    Attributes
    ----------
    costs : float64[entries]
    posteriors : float64[entries]
    first_link : uint32[entries + 1]
    links : uint32
        Of the best alignment of entry k: ``[first_link[k], first_link[k + 1])``.
    truncated : bool
    """

    costs: npt.NDArray[np.float64]
    posteriors: npt.NDArray[np.float64]
    first_link: npt.NDArray[np.uint32]
    links: npt.NDArray[np.uint32]
    truncated: bool


@dataclass(frozen=True)
class Mbr:
    """Minimum Bayes risk: the words of the fewest expected errors, and the confusion network.

    Attributes
    ----------
    words : uint32[words]
    confidences : float64[words]
    begins, ends : float64[words]
        Frames: expected begin and end of the link that writes the word.
    same_as : uint32[words]
        The number of the hypothesis' word if that is the word of the slot; 0xffffffff if another, or none, is.
    errors : float
        Expected number of word errors of `words`.
    first_rival : uint32[positions + 1]
    rivals : uint32
        The words that compete at position p, 0 for none, by falling posterior:
        ``[first_rival[p], first_rival[p + 1])``.
    posteriors : float64[rivals]
    truncated : bool
        Edit distances were computed in bands around the hypothesis, and the words are the hypothesis'.
    """

    words: npt.NDArray[np.uint32]
    confidences: npt.NDArray[np.float64]
    begins: npt.NDArray[np.float64]
    ends: npt.NDArray[np.float64]
    same_as: npt.NDArray[np.uint32]
    errors: float
    first_rival: npt.NDArray[np.uint32]
    rivals: npt.NDArray[np.uint32]
    posteriors: npt.NDArray[np.float64]
    truncated: bool

    def sausage(self) -> list[list[tuple[int, float]]]:
        """The confusion network: for each position the words and their posteriors."""
        pairs = list(zip(self.rivals.tolist(), self.posteriors.tolist(), strict=True))
        return [pairs[begin:end] for begin, end in pairwise(self.first_rival.tolist())]


@dataclass(frozen=True)
class Oracle:
    """The path that differs least from a reference.

    Attributes
    ----------
    errors : int
        Insertions, deletions and substitutions of words.
    links : uint32
        Of the path.
    """

    errors: int
    links: npt.NDArray[np.uint32]
