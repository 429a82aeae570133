"""What streams of both decoders have in common: chunks are decoded for them, and sentences follow each other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt

from arcbeam.arrays.bad_values import check_errors
from arcbeam.arrays.engine import Engine
from arcbeam.arrays.intake import KeptChunk
from arcbeam.core.calls import lists_options
from arcbeam.core.errors import Fault
from arcbeam.core.warn import warn
from arcbeam.streams._any_stream import AnyStream, true_places
from arcbeam.streams.endpoints import Endpoint
from arcbeam.streams.group import StreamGroup, members_of
from arcbeam.streams.partials import HasText, Partials, check_last, check_streams
from arcbeam.streams.waiting import Waiting

AFTER_THE_LAST = (
    "expected no chunk after the last; stream.reset() begins the next sentence, decoder.stream() another stream"
)
warns_of_waiting = ContextVar("warns_of_waiting", default=True)
"""Whether calls in this thread warn of frames that wait after the last chunk; False if something resets the stream."""

Result = TypeVar("Result", bound=HasText)
Kind = TypeVar("Kind", bound=AnyStream)


class Chunks(NamedTuple):
    """A call of ``decode_chunks`` for streams that have been checked."""

    chunks: Any
    last: list[bool]
    lengths: Any = None
    cuda_stream: Any = None
    errors: str = "raise"
    wrong: Mapping[int, Fault] = MappingProxyType({})  # what is wrong with streams, by their places
    have_waited: bool = False  # the only chunk's frames, which are as engines read them: of logits the log-probs
    confidences: npt.NDArray[np.float32] | None = None  # of these


class ChunkDecoder(ABC, Generic[Kind, Result]):
    """Decodes the chunks of a decoder's streams, which refer to this and not to the decoder."""

    kind: type[Kind]
    engine: Engine[..., Any]
    columns: int  # of the frames that wait

    def decoding_lock(self) -> AbstractContextManager[Any]:
        """The lock under which streams are decoded; a thread that holds it may take it again."""
        return self.engine.decoding_lock()

    @abstractmethod
    def keep(self, chunk: Any, cuda_stream: Any, max_frames: int) -> KeptChunk:
        """A chunk, checked, that will be decoded later, in pieces if it has more frames than that."""

    @abstractmethod
    def decode_next(self, streams: list[Kind], call: Chunks) -> Partials[Result]:
        """Decodes the next chunk of each of these streams."""

    def decode(
        self, streams: Any, chunks: Any, lengths: Any, last: Any, cuda_stream: Any, errors: str
    ) -> Partials[Result]:
        """Decodes the next chunk of each of some streams, as ``decode_chunks`` of the decoders says."""
        check_errors(errors)
        members: list[Any]
        if isinstance(streams, StreamGroup):
            members, wrong = members_of(streams, self, errors)
        else:
            members, wrong = check_streams(self, streams, self.kind, errors)
        ends = check_last(last, len(members))
        ending = true_places(ends) or () if last is not None and warns_of_waiting.get() else ()
        stopped = [members[at] for at in ending if members[at]._is_stopped]
        found = self.decode_next(members, Chunks(chunks, ends, lengths, cuda_stream, errors, wrong))
        for stream in stopped:
            _warn_of_waiting(stream)
        return found

    def decode_one(self, stream: Any, chunk: Any, last: bool) -> Result:
        """Decodes the next chunk of one stream."""
        return self.decode([stream], [chunk], None, last, None, "raise")[0]

    def no_frames(self) -> np.ndarray:
        """A chunk without frames."""
        return np.empty((0, self.columns), np.float32)

    def rows_of(self, waiting: Iterable[Waiting]) -> np.ndarray:
        """All frames that wait, in one array."""
        return np.concatenate([self.no_frames(), *(frames.rows for frames in waiting)])


class HasStreams:
    """A decoder with streams: `_chunks` decodes their chunks, so that no stream refers to the decoder."""

    _chunks: ChunkDecoder[Any, Any]

    @lists_options()
    def group(self, streams: Any) -> StreamGroup[Any]:
        """Makes a group of streams that get their chunks in the same call, as a server's do in every round.

        ``decode_chunks`` takes it in place of a list. What the streams are is checked here, once.

        Parameters
        ----------
        streams : sequence of Stream or TransducerStream
            Of this decoder, each once; in a round of the group every stream has a chunk, which may have no frames.

        Returns
        -------
        StreamGroup

        Raises
        ------
        TypeError, InputError
            As of ``decode_chunks``: something that is no stream, one of another decoder, one that is listed twice, or
            one whose chunks wait in a :class:`Batcher`.
        UnsupportedError
            The decoder has no streams.

        Examples
        --------
        >>> group = decoder.group([decoder.stream() for _ in range(256)])
        >>> for chunks in batches:  # arrays [256, frames, columns]
        ...     texts = decoder.decode_chunks(group, chunks).texts()
        """
        return StreamGroup(chunk_decoder_of(self, "group"), streams)

    def _check_streams(self, what: str) -> None:
        """Raises an UnsupportedError that names `what` if the decoder's search has no streams."""


def chunk_decoder_of(decoder: HasStreams, what: str) -> ChunkDecoder[Any, Any]:
    """What decodes the chunks of a decoder's streams, which `what` needs."""
    decoder._check_streams(what)
    return decoder._chunks


class SpeechStream(AnyStream, Generic[Result]):
    """Speech in chunks, by sentence: a subclass changes its sentence and waiting frames in one uninterrupted step."""

    _decoder: ChunkDecoder[Any, Any]
    _endpoint: Endpoint | None
    _waiting: Any  # a sequence of Waiting
    _last_came: bool

    @property
    def num_frames(self) -> int:
        """Frames of the stream that have been decoded so far."""
        raise NotImplementedError

    @property
    def partial(self) -> Result:
        """The last result."""
        raise NotImplementedError

    @property
    def num_waiting(self) -> int:
        """Frames after an endpoint, which wait until `reset` begins the next sentence."""
        return sum(len(frames.rows) for frames in self._waiting)

    @property
    def endpoint(self) -> Endpoint | None:
        """The rules that end sentences."""
        return self._endpoint

    @property
    def is_finished(self) -> bool:
        """Whether the stream has had its last chunk, and no frame of it waits."""
        return self._last_came and not self._waiting

    @property
    def _is_stopped(self) -> bool:
        """Whether the sentence has ended at an endpoint."""
        partial: Any = self.partial
        return partial.endpoint is not None

    @lists_options(finish="takes no chunk: decode_chunk(chunk, last=True) decodes the last one")
    def finish(self) -> Result:
        """Ends the speech, and returns the final result of the sentence.

        If the sentence has ended at an endpoint before, and frames wait, it is that result once more; call
        :meth:`reset`, which decodes them, until ``is_finished``.

        Raises
        ------
        ValueError
            The stream was finished before.

        Warns
        -----
        UserWarning
            Frames wait after an endpoint: they are not in the result.
        """
        return self._decoder.decode_one(self, self._decoder.no_frames(), True)

    def _fault(self) -> str | None:
        """Why the stream cannot take another chunk; None if it can."""
        return AFTER_THE_LAST if self._last_came else None

    def _go_on(self, fresh: Self) -> Result:
        """Continues as `fresh`, once that has decoded the frames that wait; until then this stream is as it was."""
        decoder = self._decoder
        pieces = deque(piece for frames in self._waiting for piece in frames.pieces())
        ended, wrong = bool(pieces) and self._last_came, []
        while pieces and not fresh._is_stopped:
            rows, confidences = pieces.popleft()
            call = Chunks([rows], [False], errors="return", have_waited=True, confidences=confidences)
            [found] = decoder.decode_next([fresh], call)
            if found is not fresh.partial:
                wrong.append(found.error)
        if ended and not pieces:
            nothing = None if confidences is None else confidences[:0]
            decoder.decode_next([fresh], Chunks([rows[:0]], [True], have_waited=True, confidences=nothing))
        self._become(fresh, list(pieces), ended)
        if wrong:
            raise wrong[0]
        return self.partial

    def _become(self, fresh: Self, waiting: list[Waiting], last_came: bool) -> None:
        """Has what the other stream has, in one step; these frames wait, too, and the last chunk may have come."""
        raise NotImplementedError

    def __repr__(self) -> str:
        waiting = f", {self.num_waiting} more wait" if self._waiting else ""
        return f"{type(self).__name__}({self.num_frames} frames{waiting}, {self.partial!r})"


def _warn_of_waiting(stream: SpeechStream[Any]) -> None:
    """A warning about frames after an endpoint, if the last chunk has come and they wait for `reset`."""
    if stream._last_came and (waiting := stream.num_waiting):
        warn(
            f"stream: the last chunk came after the sentence had ended at an endpoint, in frame "
            f"{stream.num_frames:,}; the result is that sentence, and {waiting:,} frames after it wait: call "
            "stream.reset() after each endpoint, and now until stream.is_finished"
        )


def fault_of(stream: SpeechStream[Any]) -> str | None:
    """Why a stream cannot take another chunk; None if it can."""
    return stream._fault()
