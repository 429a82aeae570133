"""The model's output, chunk by chunk, becomes sentences: a stream of the decoder, which ends them at pauses."""

from __future__ import annotations

from typing import Any

from arcbeam.batching.batcher import Batcher
from arcbeam.batching.sentences import ChunkSentences, follow
from arcbeam.streams.endpoints import Endpoint, EndpointRule
from arcbeam.transcribe.segment import Segment, segment_of

#: Where sentences end, of CTC models and of transducers, which have no relative cost. The second rule keeps sentences
#: short, so that an hour of speech takes no more memory than a minute. The last one, which may hold within a word, is
#: for speech without any pause.
PAUSES = Endpoint(
    {
        "pause": EndpointRule(min_trailing_silence=0.6),
        "short pause": EndpointRule(min_trailing_silence=0.3, min_utterance_length=15.0),
        "nothing said": EndpointRule(must_contain_nonsilence=False, min_trailing_silence=5.0),
        "very long": EndpointRule(must_contain_nonsilence=False, min_trailing_silence=0.0, min_utterance_length=60.0),
    }
)


class Sentences:
    """Feeds a stream of a decoder, and takes its sentences."""

    def __init__(self, stream: Any, batcher: Batcher | None = None) -> None:
        self._stream, self._batcher = stream, batcher

    def add(self, rows: Any, *, last: bool = False) -> list[Segment]:
        """Decodes the next frames, and returns the sentences that have ended with them."""
        stream = self._stream
        if self._batcher is None:
            result = stream.decode_chunk(rows, last=last)
        else:
            result = self._batcher.submit(stream, rows, last=last).result()
        ended = result.sentences if isinstance(result, ChunkSentences) else follow(stream, result)
        found = [as_segment(one) for one in ended]
        return [segment for segment in found if segment is not None]

    @property
    def unfinished(self) -> Any:
        """The result of the sentence that has not ended."""
        return self._stream.partial


def check_batcher(batcher: Batcher | None, decoder: Any) -> None:
    """TypeError or ValueError for something else than a Batcher of this decoder, or None."""
    if batcher is None:
        return
    if not isinstance(batcher, Batcher):
        raise TypeError(f"batcher: expected an arcbeam.Batcher or None, got {type(batcher).__name__}")
    if batcher.decoder is not decoder:
        raise ValueError(
            "batcher: expected one of this transcriber's decoder, arcbeam.Batcher(transcriber.decoder), got one of "
            "another decoder"
        )


def as_segment(partial: Any) -> Segment | None:
    """The words of a result of a stream; None if it has none."""
    words = partial.words
    if not words:
        return None
    return segment_of(words, partial.text, bool(partial.complete))
