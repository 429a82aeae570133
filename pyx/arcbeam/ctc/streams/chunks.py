"""How chunks of streams are decoded: one search, what is read from lattices, and then each stream takes its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from arcbeam.arrays.intake import KeptChunk
from arcbeam.ctc.confidence.frame_confidences import ChunkConfidences
from arcbeam.ctc.results import Outputs, Paths, Results
from arcbeam.ctc.search import BeamSearch
from arcbeam.ctc.streams._rounds import Round, Sentence, SentenceStream, taking
from arcbeam.ctc.streams.partial import CtcPartials, Partial
from arcbeam.ctc.streams.sentences import LmContext, SavedSearch, SentenceStart
from arcbeam.streams.partials import Partials, fault_of_stream
from arcbeam.streams.stream import ChunkDecoder, Chunks

if TYPE_CHECKING:
    from arcbeam.ctc.boost.boost import Boost
    from arcbeam.ctc.streams._rounds import SearchState
    from arcbeam.ctc.streams.endpoint import EndpointRules

NO_PATH = Paths(
    np.empty(0, np.uint32), np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1), np.zeros(1, np.bool_),
    np.ones(1, np.bool_),
)  # fmt: skip
REFUSED = NO_PATH._replace(complete=np.zeros(1, np.bool_))


class CtcChunkDecoder(ChunkDecoder[SentenceStream, Partial]):
    """Decodes the chunks of the streams of a `CtcDecoder`."""

    kind = SentenceStream

    def __init__(self, search: BeamSearch) -> None:
        self.search, self.engine, self.columns = search, search.engine, search.columns
        self.nothing = search.results(NO_PATH, {})  # of sentences that begin
        self.open_reader = lambda: search.graph.word_reader

    def keep(self, chunk: Any, cuda_stream: Any, max_frames: int) -> KeptChunk:
        """A chunk, checked, that will be decoded later, in pieces if it has more frames than that."""
        return self.search.intake.keep(chunk, cuda_stream, max_frames)

    def new_sentence(
        self,
        boost: Boost | None,
        rules: EndpointRules | None,
        lm_context: LmContext,
        saved: SavedSearch | None,
        outputs: Outputs | None,
    ) -> SearchState:
        """The search of a sentence of a stream, from its beginning or from a saved state."""
        search = self.search
        compiled = None if boost is None else boost.compiled(search.graph)
        links = {} if outputs is None else {"lattice_beam": search.options.lattice_beam}
        return search.engine.new_stream(compiled, rules, lm_context, saved, **links)

    def decode_next(self, streams: list[SentenceStream], call: Chunks) -> Partials[Partial]:
        """Decodes the next chunk of each of these streams."""
        search = self.search
        search.check_files()
        with self.decoding_lock():  # until what was found is with the streams
            states, sentences, stopped, has_outputs, methods, logits = taking(streams)
            wrong = {at: fault_of_stream(at, streams, said) for at, said in stopped.items()} | dict(call.wrong)
            if call.errors == "raise" and wrong:
                raise wrong[min(wrong)]
            if call.have_waited:
                logits = []
            inputs, unusable = search.intake.take_chunks(
                call.chunks, call.lengths, len(streams), call.errors, call.cuda_stream, logits
            )
            wrong = unusable | wrong
            known = None
            if call.confidences is not None:
                known = ChunkConfidences(call.confidences, np.zeros(1, np.int64))
            elif methods:
                known, unmeasured = search.measurer.of_chunks(inputs, methods, call.errors)
                wrong = unmeasured | wrong
            for at in wrong:
                states[at] = search.engine.new_stream()
            paths, work, refused = search.paths(inputs, "return", has_outputs, streams=states, last=call.last)
            wrong = {**refused, **wrong}
            nothing = {
                at: Partial(search.results(REFUSED, {0: error}), 0, sentences[at], 0, streams[at].num_frames, False)
                for at, error in wrong.items()
            }
            groups = by_outputs(paths, sentences)
            later = {at for places in groups.values() for at in places}
            results = search.results(paths._replace(lattices=None), wrong)
            round_ = Round(
                streams,
                sentences,
                Partial,
                results,
                later,
                paths.lattices,
                nothing,
                call.last,
                inputs,
                self.columns,
                known,
            )
            with_lattices = replace(results, paths=paths) if groups else results
            round_.take_later(self.outputs(with_lattices, groups, sentences))
            search.of_thread.stats = work
            search.intake.warn()
            search.check_files()
        if call.errors == "raise" and wrong:
            raise wrong[min(wrong)]
        return CtcPartials(round_)

    def outputs(
        self, results: Results, groups: Mapping[Outputs, list[int]], sentences: Sequence[Sentence]
    ) -> dict[int, Results]:
        """The results of groups of `by_outputs`, shared within a group unless memory is too short for all outputs."""
        found: dict[int, Results] = {}
        for outputs, places in groups.items():
            boosts: list[Boost | None] = [None] * len(sentences)
            for at in places:
                boosts[at] = sentences[at].boost
            before = {at: SentenceStart(sentences[at].first_frame, sentences[at].lm_context) for at in places}
            group = replace(_taken(results, places), outputs=outputs, boosts=boosts, before=before)
            try:
                found |= dict.fromkeys(places, self.search.reader.answered(group))
            except MemoryError:
                found |= {at: self._outputs_alone(_taken(group, [at])) for at in places}
        return found

    def _outputs_alone(self, results: Results) -> Results:
        """Those of one chunk; where memory is too short, they raise that error when they are read."""
        try:
            return self.search.reader.answered(results)
        except MemoryError as error:
            return results.with_answers(error)


def _taken(results: Results, places: list[int]) -> Results:
    """The results with the lattices at these places, which leave those of the others."""
    assert results.paths.lattices is not None
    return replace(results, paths=results.paths._replace(lattices=results.paths.lattices.take(places)))


def by_outputs(paths: Paths, sentences: Sequence[Sentence]) -> dict[Outputs, list[int]]:
    """The chunks that have a lattice, by the outputs of their streams."""
    found: dict[Outputs, list[int]] = {}
    for at in [] if paths.lattices is None else paths.lattices.places():
        if (outputs := sentences[at].outputs) is not None:
            found.setdefault(outputs, []).append(at)
    return found
