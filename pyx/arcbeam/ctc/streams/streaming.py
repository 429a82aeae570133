"""The streams of a decoder: how they begin, continue where they were saved, and are decoded together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from arcbeam.core.calls import lists_options
from arcbeam.core.checks import check_bool
from arcbeam.core.confidence import ConfidenceMethod, measure
from arcbeam.ctc.boost.boost import Boost
from arcbeam.ctc.boost.boosts import check_boost
from arcbeam.ctc.results import outputs_of
from arcbeam.ctc.search import BeamSearch
from arcbeam.ctc.streams.chunks import CtcChunkDecoder
from arcbeam.ctc.streams.partial import Partial
from arcbeam.ctc.streams.stream import Stream
from arcbeam.streams.endpoints import Endpoint, check_endpoint
from arcbeam.streams.partials import Partials
from arcbeam.streams.stream import HasStreams


class StreamingDecoder(HasStreams):
    """Decodes streams with what a subclass has made."""

    _search: BeamSearch
    _chunks: CtcChunkDecoder

    @lists_options()
    def stream(
        self,
        *,
        boost: Boost | None = None,
        endpoint: Endpoint | None = None,
        nbest: int | None = None,
        confidence: bool = False,
        lattice: bool = False,
        mbr: bool = False,
        interim_answers: bool = False,
        posteriors: bool = False,
        frame_confidence: str | ConfidenceMethod | None = None,
        logits: bool = False,
    ) -> Stream:
        """Begins a stream of speech, which arrives in chunks.

        Parameters
        ----------
        boost : Boost, optional
            Words and phrases that are made likelier.
        endpoint : Endpoint, optional
            Rules that end sentences. Where one holds, the result is final and names it, and the frames after it wait
            for :meth:`Stream.reset`. They need ``frame_shift``. By default a sentence ends with the last chunk alone.
        nbest : int, optional
            How many of the best distinct word sequences of each sentence to return: ``partial.nbest`` of its final
            result, with the bytes that :meth:`decode` gives for its frames; times count from the beginning of the
            stream. With this or any of the next three, the stream keeps the sentence's lattice so far.
        confidence, lattice, mbr : bool
            As of :meth:`decode`, for the final result of each sentence.
        interim_answers : bool
            Whether results before the end of a sentence have these four outputs, too, for the frames so far. Each
            chunk then costs more the longer its sentence has become; :attr:`Stream.interim_answers` changes it between
            chunks.
        posteriors : bool
            Whether each result has ``partial.posteriors``: how likely its words are, by the paths that are alive. Each
            round then copies these paths.
        frame_confidence : str, ConfidenceMethod or None
            ``"max_prob"``, ``"entropy"`` or a :class:`arcbeam.ConfidenceMethod`: how to measure how certain the model
            is of each frame, ``partial.frame_confidence`` of each result, and of the labels and words so far. The
            stream then keeps a float32 for each frame of its sentence. The CPU computes them before the chunk is
            decoded, and copies a chunk on a GPU to the host for this.
        logits : bool
            Whether the stream's chunks are logits, of which log-probs are made as by :meth:`decode`. Streams of logits
            and of log-probs may be decoded together.

        Raises
        ------
        UnsupportedError
            On a GPU: :meth:`decode` does not take the boost there.
        ValueError
            An `endpoint`, but the decoder was given no ``frame_shift``, or the graph does not name its blank;
            `interim_answers` without any of the outputs that it concerns; or a `frame_confidence` that is no method,
            cannot be computed for so many columns, or needs a blank that the graph does not name.
        TypeError, GraphError
            As of :meth:`decode`.

        Warns
        -----
        UserWarning
            As :meth:`decode` does of a `boost`.
        """
        check_boost(boost)
        check_endpoint(endpoint)
        check_bool("posteriors", posteriors)
        check_bool("logits", logits)
        self._search.check_beam(boost)
        outputs, method = outputs_of(nbest, confidence, lattice, mbr), self._search.method(frame_confidence)
        self._search.check_outputs(outputs)
        if method is not None:
            measure(method, self._search.columns)
        kept = outputs if outputs.needs_lattices else None
        return Stream(self._chunks, boost, endpoint, kept, posteriors, interim_answers, method, bool(logits))

    @lists_options()
    def restore(self, data: bytes, *, boost: Boost | None = None, posteriors: bool = False) -> Stream:
        """Continues a stream that :meth:`Stream.save` has saved, here or anywhere else.

        All later results have the bytes that the saved stream would have given, and the same outputs; later chunks are
        logits if its chunks were.

        Parameters
        ----------
        data : bytes
        boost : Boost, optional
            The list that the stream was saved with, if it had one.
        posteriors : bool
            As of :meth:`stream`, whatever the saved stream had.

        Raises
        ------
        FormatError
            The bytes are no saved stream, or one that is damaged, cut short or of another version.
        ValueError
            The stream was decoded with another graph, language model, option or boost: the message names it.
        UnsupportedError, TypeError, GraphError, MemoryError, CapacityError
            As of :meth:`stream` and :meth:`decode_chunks`.

        Examples
        --------
        >>> data = stream.save()
        >>> stream = other_decoder.restore(data)
        """
        check_boost(boost)
        check_bool("posteriors", posteriors)
        self._search.check_files()
        return Stream.restored(self._chunks, data, boost, posteriors)

    @lists_options(logits="is an option of decoder.stream()")
    def decode_chunks(
        self,
        streams: Sequence[Stream],
        log_probs: Any,
        lengths: Any = None,
        *,
        last: bool | Sequence[bool] | None = None,
        cuda_stream: Any = None,
        errors: str = "raise",
    ) -> Partials[Partial]:
        """Decodes the next chunk of each of some streams.

        Any streams of this decoder may be decoded together, with chunks of any lengths, 0 included: results do not
        depend on it. A stream whose sentence has ended at an endpoint keeps its chunk for :meth:`Stream.reset`, and has
        the same result again.

        Parameters
        ----------
        streams : sequence of Stream
            Each once; a :class:`StreamGroup` where the same streams have chunks in every round.
        log_probs : array [streams, frames, columns], or sequence of arrays [frames, columns]
            The chunks, as :meth:`decode` takes utterances: logits for streams that were begun with ``logits=True``.
        lengths : sequence or array of int [streams], optional
            Frames of each chunk; the frames beyond are not read.
        last : bool, or sequence of bool [streams]; optional
            Whether this is the last chunk: of all, or of each. Its result is the final one, unless the sentence has
            ended at an endpoint before.
        cuda_stream : int, or a stream of torch, CuPy or cuda.core; optional
            As of :meth:`decode`.
        errors : "raise" or "return"
            What happens to a chunk that is refused, which leaves its stream as it was: a chunk with NaN or +inf, after
            the last one, of another decoder's stream, of a stream that is listed twice (the second time), an array of
            a list with a wrong type, shape or place, and one with more columns than its stream's `frame_confidence` can
            be computed for. "raise": an :class:`InputError` for values and streams, or else a ValueError or TypeError.
            For NaN or +inf the other streams have taken their chunks, and have the results as ``partial``; anything
            else is found before any chunk is decoded. "return": its place has a result without words, whose ``error``
            is that exception; the other results do not change.

        Returns
        -------
        Partials
            A sequence of :class:`Partial`, in the order of the streams.

        Raises
        ------
        TypeError, ValueError, FormatError, MemoryError, CapacityError
            As of :meth:`decode`; and what `errors` says. After a MemoryError, a CapacityError or an interrupt, streams
            whose chunks were decoded in part, or did not get their results, cannot go on and say so, until
            :meth:`Stream.reset` begins another sentence; the others have their chunks, or are as before. Where memory
            is too short for a chunk's n-best list, confidences or minimum Bayes risk, reading these raises a
            MemoryError.

        Warns
        -----
        InputWarning
            As of :meth:`decode`; streams have their chunks, also if it is made an error.
        UserWarning
            A last chunk came for a sentence that had ended at an endpoint: its frames wait, and are not in the result.

        Examples
        --------
        >>> stream = decoder.stream()
        >>> for chunk in np.array_split(log_probs, 10):
        ...     [partial] = decoder.decode_chunks([stream], [chunk])
        ...     print(partial.stable_text, "|", partial.text)
        >>> hypothesis = stream.finish()
        """
        return self._chunks.decode(streams, log_probs, lengths, last, cuda_stream, errors)
