"""How chunks of a transducer's streams are decoded: as a round, after which each stream advances in one step."""

from __future__ import annotations

from typing import Any

from arcbeam.arrays.bad_values import fault_of_encoder_output
from arcbeam.arrays.intake import KeptChunk, kept_chunk, take_chunks
from arcbeam.streams.partials import Partials, fault_of_stream
from arcbeam.streams.stream import ChunkDecoder, Chunks, fault_of
from arcbeam.transducer.search import TransducerSearch
from arcbeam.transducer.streams.partial import TransducerPartial
from arcbeam.transducer.streams.rounds import Round
from arcbeam.transducer.streams.sentence import SentenceStream, move_on, sentences_of


class TransducerChunkDecoder(ChunkDecoder[SentenceStream, TransducerPartial]):
    """Decodes the chunks of the streams of a `TransducerDecoder`."""

    kind = SentenceStream

    def __init__(self, search: TransducerSearch) -> None:
        self.search, self.engine, self.columns = search, search.engine, search.spec.columns

    def keep(self, chunk: Any, cuda_stream: Any, max_frames: int) -> KeptChunk:
        """A chunk, checked, that will be decoded later, in pieces if it has more frames than that."""
        search = self.search
        return kept_chunk(chunk, search.spec, search.engine, cuda_stream, max_frames, fault_of_encoder_output)

    def decode_next(self, streams: list[SentenceStream], call: Chunks) -> Partials[TransducerPartial]:
        """Decodes the next chunk of each of these streams."""
        search = self.search
        with self.decoding_lock():  # until what was found is with the streams
            faults = {at: fault for at, stream in enumerate(streams) if (fault := fault_of(stream)) is not None}
            refused = {at: fault_of_stream(at, streams, fault) for at, fault in faults.items()} | dict(call.wrong)
            if call.errors == "raise" and refused:
                raise refused[min(refused)]
            inputs, unusable = take_chunks(
                call.chunks, call.lengths, len(streams), search.spec, search.engine, call.cuda_stream, call.errors
            )
            before = sentences_of(streams)
            after, wrong = Round(search, before, inputs).decoded(call.last, unusable | refused)
            partials = [one.refused(wrong[at]) if at in wrong else one.partial for at, one in enumerate(after)]
            for at, stream in enumerate(streams):
                if at not in wrong:
                    move_on(stream, after[at])
        if call.errors == "raise" and wrong:
            raise next(iter(wrong.values()))
        return Partials(partials)
