"""What a decode has found in a batch, as its engines return it; hypotheses read their values from it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from arcbeam.core.checks import check_bool, check_count, keep_plain_values
from arcbeam.ctc.boost.boost import Boost
from arcbeam.ctc.boost.boosts import Boosts, boost_of
from arcbeam.ctc.lattice.alternatives import Alternative, Nbest
from arcbeam.ctc.lattice.arrays import LatticeBatch
from arcbeam.ctc.stats import NOTHING, DecodeStats
from arcbeam.ctc.streams.sentences import STREAM_START, SentenceStart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from arcbeam.core.errors import Fault
    from arcbeam.ctc.confidence.frame_confidences import FrameConfidences
    from arcbeam.ctc.lattice._lattices import Lattices
    from arcbeam.ctc.lattice.answers import LatticeAnswers, Mbr
    from arcbeam.ctc.options import DecoderOptions
    from arcbeam.ctc.rescoring import Rescoring
    from arcbeam.graph.graph import Graph


class Paths(NamedTuple):
    """The paths of a batch, as an engine returns them."""

    arcs: npt.NDArray[np.uint32]  # uint32[sum of lengths]
    begins: npt.NDArray[np.int64]  # int64[batch]: the place of each path among the arcs
    lengths: npt.NDArray[np.int64]  # int64[batch]
    total_costs: npt.NDArray[np.float64]  # float64[batch]
    reached_final: npt.NDArray[np.bool_]  # bool[batch]
    complete: npt.NDArray[np.bool_]  # bool[batch]
    lattices: Lattices | None = None  # where they were requested
    answers: LatticeAnswers | MemoryError | None = None  # that were made meanwhile, or why they could not be


@dataclass(frozen=True)
class Outputs:
    """The outputs besides the best paths that a call requests."""

    nbest: int | None = None
    confidence: bool = False
    lattice: bool = False
    mbr: bool = False

    def __post_init__(self) -> None:
        if self.nbest is not None:
            check_count("nbest", self.nbest)
        for name in ("confidence", "lattice", "mbr"):
            check_bool(name, getattr(self, name))
        keep_plain_values(self)

    def as_facts(self) -> dict[str, int | None]:
        """The fields for JSON: ``Outputs(**facts)`` is equal."""
        return asdict(self)

    @property
    def needs_lattices(self) -> bool:
        """Whether the search has to capture links."""
        return self.lattice or self.needs_answers

    @property
    def needs_answers(self) -> bool:
        """Whether lattices are searched for more than they hold themselves."""
        return self.nbest is not None or self.confidence or self.mbr


NO_OUTPUTS = Outputs()


def outputs_of(nbest: int | None, confidence: bool, lattice: bool, mbr: bool) -> Outputs:
    """These outputs, checked; streams begin by the thousand, most of them without any."""
    if nbest is None and confidence is lattice is mbr is False:
        return NO_OUTPUTS
    return Outputs(nbest, confidence, lattice, mbr)


@dataclass(frozen=True, eq=False)
class Results:
    """What the hypotheses of a batch share."""

    graph: Graph
    options: DecoderOptions
    rescoring: Rescoring | None
    paths: Paths  # with lattices until these have been read, and longer if they are an output
    errors: Mapping[int, Fault]
    outputs: Outputs = NO_OUTPUTS
    boosts: Boosts = None
    before: Mapping[int, SentenceStart] = field(default_factory=dict)  # of sentences of streams
    frames: FrameConfidences | None = None
    stats: DecodeStats = NOTHING  # of a batch
    answers: LatticeAnswers | Exception | None = None  # or why they could not be made
    # Of streams with posteriors: what their search() returned after the chunk, or its error.
    live: dict[int, dict[str, Any] | Exception] = field(default_factory=dict)

    def with_answers(self, answers: LatticeAnswers | Exception | None) -> Results:
        """These with what lattices answer."""
        paths = self.paths if self.outputs.lattice else self.paths._replace(lattices=None)
        return replace(self, paths=paths._replace(answers=None), answers=answers)

    @property
    def frame_shift(self) -> float | None:
        """Seconds a frame."""
        return self.options.frame_shift

    @cached_property
    def lattices(self) -> LatticeBatch | None:
        """What the lattices share; None if they were not requested."""
        if self.paths.lattices is None or not self.outputs.lattice:
            return None
        options = self.options
        return LatticeBatch(
            self.graph, self.paths.lattices, options.frame_shift, self.rescoring, options.acoustic_scale,
            options.scale, options.lattice_beam, boosts=self.boosts, before=self.before,
        )  # fmt: skip

    def boost(self, index: int) -> Boost | None:
        """The boost of an utterance."""
        return boost_of(self.boosts, index)

    def nbest(self, index: int) -> Nbest | None:
        """The n-best list of an utterance; None if none was requested."""
        if self.outputs.nbest is None or (answers := self._made()) is None:
            return None
        complete = self.paths.complete.item(index)
        reached_final, boost = self.paths.reached_final.item(index), self.boost(index)
        before = self.before.get(index, STREAM_START)
        begin, end = answers.first_entry[index : index + 2].tolist()
        bounds = answers.first_arc[begin : end + 1].tolist()
        alternatives = [
            Alternative(
                self,
                answers.arcs[first:last],
                0.0 - cost if complete else -math.inf,
                posterior,
                reached_final,
                boost,
                before,
                answers.labels,
                place,
            )
            for place, first, last, cost, posterior in zip(
                range(begin, end),
                bounds,
                bounds[1:],
                answers.costs[begin:end].tolist(),
                answers.posteriors[begin:end].tolist(),
                strict=False,
            )
        ]
        truncated = answers.nbest_truncated.item(index)
        return Nbest(alternatives, len(alternatives) < self.outputs.nbest and not truncated, truncated)

    def confidence(self, index: int) -> float | None:
        """The probability of the words of a hypothesis; None if no confidence was requested."""
        if not self.outputs.confidence or (answers := self._made()) is None:
            return None
        begin, end = answers.first_entry[index : index + 2].tolist()
        return answers.posteriors.item(begin) if begin != end else 0.0

    def confidence_truncated(self, index: int) -> bool | None:
        """Whether limits have changed the confidences of a hypothesis; None if none were requested."""
        if not self.outputs.confidence or (answers := self._made()) is None:
            return None
        return answers.nbest_truncated.item(index) or answers.confidence_truncated.item(index)

    def word_confidences(self, index: int) -> npt.NDArray[np.float64] | None:
        """float64[output labels of the path]; None if no confidence was requested."""
        if not self.outputs.confidence or (answers := self._made()) is None:
            return None
        begin, end = answers.first_word[index : index + 2].tolist()
        return answers.confidences[begin:end]

    def mbr(self, index: int) -> Mbr | None:
        """The minimum Bayes risk of an utterance; None if it was not requested."""
        answers = self._made()
        return None if answers is None or answers.mbr is None else answers.mbr.of(index)

    def _made(self) -> LatticeAnswers | None:
        """What lattices answer; raises why that could not be made."""
        if isinstance(self.answers, Exception):
            raise self.answers
        return self.answers
