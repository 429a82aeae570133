"""How chunks of streams are decoded: one search, what is read from lattices, and then each stream takes its own."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from arcbeam.arrays.intake import KeptChunk, LogProbIntake
from arcbeam.core.errors import Fault
from arcbeam.ctc.answering import LatticeReader
from arcbeam.ctc.confidence.frame_confidences import ChunkConfidences
from arcbeam.ctc.confidence.frame_measurer import FrameMeasurer
from arcbeam.ctc.engines import SearchEngine
from arcbeam.ctc.options import DecoderOptions
from arcbeam.ctc.results import Outputs, Paths, Results
from arcbeam.ctc.streams._rounds import Round, Sentence, SentenceStream, taking
from arcbeam.ctc.streams.partial import CtcPartials, Partial
from arcbeam.ctc.streams.sentences import LmContext, SavedSearch, SentenceStart
from arcbeam.streams.partials import Partials, fault_of_stream
from arcbeam.streams.stream import ChunkDecoder, Chunks

if TYPE_CHECKING:
    from arcbeam.ctc.boost.boost import Boost
    from arcbeam.ctc.lattice._lattices import Lattices
    from arcbeam.ctc.rescoring import Rescoring
    from arcbeam.ctc.streams._rounds import SearchState
    from arcbeam.ctc.streams.endpoint import EndpointRules
    from arcbeam.graph.graph import Graph

NO_PATH = Paths(
    np.empty(0, np.uint32), np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1), np.zeros(1, np.bool_),
    np.ones(1, np.bool_),
)  # fmt: skip
REFUSED = NO_PATH._replace(complete=np.zeros(1, np.bool_))

Group: TypeAlias = tuple[Results, list[int]]
"""What chunks with the same outputs share, before these are made; and the places of the chunks."""


@dataclass(eq=False)
class CtcChunkDecoder(ChunkDecoder[SentenceStream, Partial]):
    """Decodes the chunks of the streams of a `CtcDecoder`."""

    graph: Graph
    options: DecoderOptions
    rescoring: Rescoring | None
    engine: SearchEngine
    intake: LogProbIntake
    measurer: FrameMeasurer
    reader: LatticeReader
    columns: int
    of_thread: threading.local
    """Its `stats` are those of the thread's last call."""

    kind = SentenceStream

    def keep(self, chunk: Any, cuda_stream: Any, max_frames: int) -> KeptChunk:
        """A chunk, checked, that will be decoded later, in pieces if it has more frames than that."""
        return self.intake.keep(self.engine, chunk, cuda_stream, max_frames)

    def check_files(self) -> None:
        """FormatError if a file that the graph or a model is mapped from has been changed in place."""
        self.graph.check_file()
        if self.rescoring is not None:
            self.rescoring.check_files()

    def new_sentence(
        self,
        boost: Boost | None,
        rules: EndpointRules | None,
        lm_context: LmContext,
        saved: SavedSearch | None,
        outputs: Outputs | None,
    ) -> SearchState:
        """The search of a sentence of a stream, from its beginning or from a saved state."""
        compiled = None if boost is None else boost.compiled(self.graph)
        links = {} if outputs is None else {"lattice_beam": self.options.lattice_beam}
        return self.engine.new_stream(compiled, rules, lm_context, saved, **links)

    def results(self, paths: Paths, errors: Mapping[int, Fault]) -> Results:
        """What results of chunks share; their boosts are those of their sentences."""
        return Results(self.graph, self.options.frame_shift, self.rescoring, paths, errors)

    def decode_next(self, streams: list[SentenceStream], call: Chunks) -> Partials[Partial]:
        """Decodes the next chunk of each of these streams."""
        self.check_files()
        with self.decoding_lock():  # until what was found is with the streams
            states, sentences, stopped, has_outputs, methods = taking(streams)
            wrong = {at: fault_of_stream(at, streams, said) for at, said in stopped.items()} | dict(call.wrong)
            if call.errors == "raise" and wrong:
                raise wrong[min(wrong)]
            count = len(streams)
            taken = self.intake.take_chunks(
                self.engine, call.chunks, call.lengths, count, call.errors, call.cuda_stream
            )
            wrong = taken.faults | wrong
            known = None
            if call.confidences is not None:
                known = ChunkConfidences(call.confidences, np.zeros(1, np.int64))
            elif methods:
                known, unmeasured = self.measurer.of_chunks(taken, self.engine.stream, methods, call.errors)
                wrong = unmeasured | wrong
            for at in wrong:
                states[at] = self.engine.new_stream()
            beam = self.options.lattice_beam if has_outputs else None
            found = self.intake.decode_taken(
                self.engine, taken, "return", lattice_beam=beam, streams=states, last=call.last
            )
            wrong = {**found.errors, **wrong}
            refused = {
                at: Partial(self.results(REFUSED, {0: error}), 0, sentences[at], 0, streams[at].num_frames, False)
                for at, error in wrong.items()
            }
            *paths, lattices = (*found.answers, None) if beam is None else found.answers
            results = self.results(Paths(*paths), wrong)
            groups = [] if lattices is None else by_outputs(results, lattices, sentences)
            later = {at for _, places in groups for at in places}
            round_ = Round(streams, Partial, results, later, lattices, refused, call.last, found, self.columns, known)
            round_.take_later({} if lattices is None else self.outputs(groups, lattices))
            self.of_thread.stats = found.work
            self.intake.warn()
            self.check_files()
        if call.errors == "raise" and wrong:
            raise wrong[min(wrong)]
        return CtcPartials(round_)

    def outputs(self, groups: Sequence[Group], lattices: Lattices) -> dict[int, Results]:
        """The results of groups of `by_outputs`, shared within a group unless memory is too short for all outputs."""
        found: dict[int, Results] = {}
        for results, places in groups:
            group = lattices.take(places)
            try:
                found |= dict.fromkeys(places, self.reader.outputs(results, group, results.outputs))
            except MemoryError:
                found |= {at: self.reader.outputs_alone(results, group.take([at])) for at in places}
        return found


def by_outputs(results: Results, lattices: Lattices, sentences: Sequence[Sentence]) -> list[Group]:
    """The groups of the chunks that have a lattice and whose streams have the same outputs."""
    found: dict[Outputs, list[int]] = {}
    for at in lattices.places():
        if (outputs := sentences[at].outputs) is not None:
            found.setdefault(outputs, []).append(at)
    groups: list[Group] = []
    for outputs, places in found.items():
        boosts: list[Boost | None] = [None] * len(sentences)
        for at in places:
            boosts[at] = sentences[at].boost
        before = {at: SentenceStart(sentences[at].first_frame, sentences[at].lm_context) for at in places}
        groups.append((replace(results, outputs=outputs, boosts=boosts, before=before), places))
    return groups
