"""An utterance whose frames come in parts, and what is known after them: the search that all decoders here share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from arcbeam.compat.kaldi_decoder.decodable import DecodableCtc
from arcbeam.compat.kaldi_decoder.graphs import graph_of
from arcbeam.compat.kaldi_decoder.lattices import Arc
from arcbeam.compat.kaldi_decoder.options import NO_LIMIT
from arcbeam.ctc.decoder import CtcDecoder
from arcbeam.graph.openfst import EPSILON_COLUMN, input_labels

if TYPE_CHECKING:
    import numpy.typing as npt

    from arcbeam.ctc.hypothesis import Hypothesis
    from arcbeam.ctc.streams.stream import Stream

NOT_BEGUN = -1  # in place of a number of frames


class UtteranceSearch:
    """The search in the graph of an FST, one utterance at a time, on one core."""

    def __init__(self, fst: Any, beam: float, *, max_active: int = NO_LIMIT, lattice_beam: float | None = None) -> None:
        self._graph, self._lattice_beam = graph_of(fst), lattice_beam
        self._stream: Stream | None = None
        self._end: Hypothesis | None = None
        self.num_frames = NOT_BEGUN
        self.set_beam(beam, max_active)

    def set_beam(self, beam: float, max_active: int) -> None:
        """Sets the pruning of utterances that are begun from now on."""
        lattice_beam = 0.0 if self._lattice_beam is None else self._lattice_beam
        self._decoder = CtcDecoder(
            self._graph,
            beam=beam,
            max_active=None if max_active == NO_LIMIT else max_active,
            lattice_beam=lattice_beam,
            device="cpu",
            threads=1,
        )

    def begin(self) -> None:
        """Begins an utterance."""
        self._decoder_of_stream = self._decoder
        self._stream = self._decoder.stream(lattice=self._lattice_beam is not None)
        self._end, self.num_frames = None, 0
        self._chunks: list[npt.NDArray[np.float32]] = []

    def advance(self, decodable: DecodableCtc, max_num_frames: int = -1) -> None:
        """Decodes the frames that are ready, no more than `max_num_frames` of them unless that is below 0."""
        if not isinstance(decodable, DecodableCtc):
            kind = type(decodable).__name__
            raise TypeError(f"decodable: expected a DecodableCtc of arcbeam.compat.kaldi_decoder, got {kind}")
        if self._stream is None:
            raise RuntimeError("advance_decoding: expected a call of init_decoding before it, got none")
        ready = decodable.num_frames_ready()
        if ready < self.num_frames:
            raise ValueError(
                f"decodable: expected at least the {self.num_frames} frames that have been decoded, got {ready}; "
                "offset= is the number of frames before a chunk"
            )
        end = ready if max_num_frames < 0 else min(ready, self.num_frames + max_num_frames)
        if end > self.num_frames:
            frames = decodable.frames(self.num_frames, end)
            self._stream.decode_chunk(frames)
            self._chunks.append(frames)
            self._end, self.num_frames = None, end

    @property
    def best(self) -> Hypothesis | None:
        """The best path if the utterance ended here; None if no token is alive, or no utterance was begun."""
        if self._stream is None:
            return None
        if self._end is None:  # of a copy, because more frames may follow
            self._end = self._decoder_of_stream.restore(self._stream.save()).finish()
        return self._end if self._end.complete else None

    def path(self) -> list[Arc]:
        """The arcs of the best path, epsilon arcs included; none if no token is alive."""
        if (best := self.best) is None:
            return []
        columns = self._graph.columns[best.arcs]
        reads = np.flatnonzero(columns != EPSILON_COLUMN)
        costs = np.zeros(len(columns), np.float32)
        if len(reads):
            costs[reads] = 0.0 - np.concatenate(self._chunks)[np.arange(len(reads)), columns[reads]]
        labels = input_labels(columns)
        arrays = labels, self._graph.words[best.arcs], self._graph.targets["weight"][best.arcs], costs
        return [Arc(*arc) for arc in zip(*(values.tolist() for values in arrays), strict=True)]

    @property
    def final_cost(self) -> float:
        """The cost of the final state in which the best path ends; 0 if no final state is alive."""
        if (best := self.best) is None or not best.reached_final:
            return 0.0
        state = self._graph.targets["next_state"][best.arcs[-1]] if len(best.arcs) else self._graph.start
        return float(self._graph.finals[state])

    @property
    def reached_final(self) -> bool:
        """Whether a final state is alive."""
        best = self.best
        return best is not None and best.reached_final

    @property
    def final_relative_cost(self) -> float:
        """The cost of the best final state above that of the best token; inf if none is alive."""
        best = self.best
        if best is None or not best.reached_final or self._stream is None:
            return math.inf
        return max(0.0, self._stream.partial.partial_score - best.score)
