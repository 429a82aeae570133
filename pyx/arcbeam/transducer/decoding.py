"""What a transducer decoder does: it decodes batches, and the chunks of streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from arcbeam.arrays.bad_values import check_errors
from arcbeam.arrays.batches import one_or_many
from arcbeam.arrays.input_warnings import TimeFirstCheck
from arcbeam.arrays.intake import take_batch
from arcbeam.core.calls import lists_options
from arcbeam.streams.endpoints import Endpoint, check_endpoint
from arcbeam.streams.partials import Partials
from arcbeam.streams.stream import HasStreams
from arcbeam.transducer.beam.search import check_confidence, check_lattice, check_state, check_streams
from arcbeam.transducer.boosting_tree import BoostingTree
from arcbeam.transducer.device import TransducerMemory
from arcbeam.transducer.fusion import Boosts
from arcbeam.transducer.hypothesis import TransducerHypothesis, TransducerState
from arcbeam.transducer.options import TransducerOptions, check_nbest
from arcbeam.transducer.search import TransducerSearch
from arcbeam.transducer.streams.chunks import TransducerChunkDecoder
from arcbeam.transducer.streams.partial import TransducerPartial
from arcbeam.transducer.streams.stream import TransducerStream


class SearchingDecoder(HasStreams):
    """Decodes with its search, greedily or with a beam; a subclass makes the search."""

    _search: TransducerSearch
    _chunks: TransducerChunkDecoder
    _check_axes: TimeFirstCheck
    _ordinal: int | None  # of the GPU; None for the CPU

    @property
    def options(self) -> TransducerOptions:
        """The options, as validated; `threads` of a CPU is a number, also if None was given."""
        return self._search.options

    @property
    def device(self) -> str:
        """The device that decodes: ``"cpu"`` or ``"cuda:N"``."""
        return "cpu" if self._ordinal is None else f"cuda:{self._ordinal}"

    @property
    def has_text(self) -> bool:
        """Whether its hypotheses have text, because there is a tokenizer."""
        return self._search.form.detokenize is not None

    @property
    def pieces(self) -> tuple[str, ...] | None:
        """The pieces by token, where the tokenizer is a list of them; None otherwise."""
        pieces = getattr(self._search.form.detokenize, "pieces", None)
        return None if pieces is None else tuple(pieces)

    @property
    def features(self) -> int:
        """Size of a frame of the encoder output."""
        return self._search.spec.columns

    @property
    def nbytes(self) -> int:
        """Bytes of the packed weights, and of the tables of everything that depends on a token alone."""
        return self.memory().weights

    def finished(self) -> int:
        """How many utterances of the batch that is being decoded are finished, for a progress bar of another thread.

        It is 0 between batches, and on a GPU, which decodes the utterances of a batch together.
        """
        return self._search.engine.finished()

    def memory(self) -> TransducerMemory:
        """The memory that the decoder holds on its device, without the weights that are kept for pickling."""
        return TransducerMemory(**self._search.engine.memory())

    def release(self) -> None:
        """Gives back the memory that grows with batches; the decoder can still be used, and grows it again.

        On a GPU: encoder output, hypotheses and states of the batch, and pinned memory; the weights stay. On a CPU: the
        threads and what they keep. Waits for a batch that is being decoded.

        Raises
        ------
        CudaError
            In a process forked from one that used CUDA, or after the device was lost.
        """
        self._search.engine.release()

    @overload
    def decode(
        self,
        encoder_output: list[Any] | tuple[Any, ...],
        lengths: Any = None,
        state: Sequence[TransducerState | None] | None = None,
        *,
        boost: Boosts = None,
        cuda_stream: Any = None,
        errors: str = "raise",
        nbest: int | None = None,
        confidence: bool = False,
        lattice: bool = False,
    ) -> list[TransducerHypothesis]: ...

    @overload
    def decode(
        self,
        encoder_output: Any,
        lengths: Any = None,
        state: TransducerState | Sequence[TransducerState | None] | None = None,
        *,
        boost: Boosts = None,
        cuda_stream: Any = None,
        errors: str = "raise",
        nbest: int | None = None,
        confidence: bool = False,
        lattice: bool = False,
    ) -> TransducerHypothesis | list[TransducerHypothesis]: ...

    @lists_options()
    def decode(
        self,
        encoder_output: Any,
        lengths: Any = None,
        state: TransducerState | Sequence[TransducerState | None] | None = None,
        *,
        boost: Boosts = None,
        cuda_stream: Any = None,
        errors: str = "raise",
        nbest: int | None = None,
        confidence: bool = False,
        lattice: bool = False,
    ) -> TransducerHypothesis | list[TransducerHypothesis]:
        """Decodes an utterance, or a batch of utterances or of chunks of streams.

        Parameters
        ----------
        encoder_output : array [frames, features] or [batch, frames, features], or sequence of arrays [frames, features]
            float32 or float16 in CPU memory, from numpy or anything with DLPack; copied only if a frame's features lie
            apart. float64 and bfloat16 are rounded to float32, by the library that the array comes from. NeMo's
            encoders return [batch, features, frames], to be transposed first. A decoder on a GPU also takes arrays
            there, of anything with DLPack or ``__cuda_array_interface__``, and copies none.
        lengths : int, sequence or array of int [batch], or mask [batch, frames]; optional
            Frames of each utterance; the frames beyond are not read. A mask is 1 for these and 0 for those after them.
        state : TransducerState, or sequence of TransducerState or None, one for each utterance; optional
            The ``state`` of the hypotheses of the chunks before; None at the start of a stream. Chunks of any size
            give the same bytes as one piece. One state goes with one array [frames, features].
        boost : BoostingTree, or sequence of BoostingTree or None, one for each utterance, optional
            Phrases that are made likelier. A stream keeps the tree that it began with.
        cuda_stream : int, or a stream of torch, CuPy or cuda.core; optional
            The stream that writes arrays on a GPU. By default it is the one that their library reports.
        errors : "raise" or "return"
            What happens to an utterance whose values are not finite. "raise": an :class:`InputError`, which is a
            ValueError, and no result for the batch. "return": its place has a hypothesis without tokens, whose
            ``error`` is that InputError and whose ``state`` is the one that was passed; the other results do not
            change.
        nbest : int, optional
            With a beam: how many of the best distinct sequences of tokens to return, ``hypothesis.nbest``; at most
            ``max_hypotheses``, and fewer where the search ends with fewer.
        confidence : bool
            With a beam: whether the confidence of a word in ``hypothesis.words`` is the probability that it is right:
            the sum of the posteriors of the hypotheses that the search ended with and that have the word there, after
            they are aligned with the fewest word errors. Otherwise it is made of the confidences of tokens, where the
            decoder has the option of that name.
        lattice : bool
            With a beam: whether hypotheses have a ``lattice``, an :class:`arcbeam.Lattice` of the paths
            that the search has kept. Its links write tokens, named by the tokenizer, of which
            :meth:`arcbeam.Lattice.whole_words` makes words. With ``merge_context`` it holds more texts than ``nbest``.

        Returns
        -------
        TransducerHypothesis, or a list of them in the order of the batch
            One for one array [frames, features].

        Raises
        ------
        TypeError
            Values that are not float32 or float16, lengths that are not integers, states of another type.
        ValueError
            NaN or an infinity among the frames, or computed from them, unless `errors` is "return"; wrong dimensions or
            features; a length that is negative or beyond the frames; a state of another network, boosting tree or
            n-gram model; trees that are not one for each utterance, or of another vocabulary; on a GPU an array that
            is misaligned or not in one allocation of the device, and a stream of another device; `nbest` without a
            beam, or above ``max_hypotheses``; `confidence` or `lattice` without a beam.
        UnsupportedError
            A state, with a beam: its chunks are decoded as a :meth:`stream`, because later ones may take tokens back.
        MemoryError, CudaOutOfMemoryError
            The batch does not fit; the decoder can still be used.
        CudaError
            A call of the driver failed; or the thread is capturing a CUDA graph, of which a decode cannot be a part.

        Warns
        -----
        UserWarning
            Once for each decoder: an array in host memory seems to be [frames, batch, features].
        """
        check_errors(errors)
        check_nbest(self.options, nbest)
        check_confidence(self.options, confidence)
        check_lattice(self.options, lattice)
        check_state(self.options, state)
        encoder_output, lengths, is_one = one_or_many(encoder_output, lengths)
        states: Any = [state] if is_one and isinstance(state, TransducerState) else state  # which the search checks
        inputs = take_batch(encoder_output, lengths, self._search.spec, self._search.engine, cuda_stream)
        self._check_axes(inputs.arrays, lengths)
        found = self._search.decode(inputs, states, boost, errors, nbest, confidence, lattice)
        return found[0] if is_one else [*found]

    @lists_options()
    def stream(
        self, *, boost: BoostingTree | None = None, endpoint: Endpoint | None = None, nbest: int | None = None
    ) -> TransducerStream:
        """Begins a stream of speech, whose encoder output arrives in chunks.

        Parameters
        ----------
        boost : BoostingTree, optional
            Phrases that are made likelier.
        endpoint : Endpoint, optional
            Rules that end sentences, such as ``arcbeam.Endpoint.sherpa()``; then :meth:`TransducerStream.reset` begins
            the next one. None: the speech is one sentence, unless `reset` is called.
        nbest : int, optional
            With a beam: how many of the best distinct sequences of tokens each result has, as of :meth:`decode`.

        Raises
        ------
        TypeError, ValueError
            Something else than a tree, or a tree of another vocabulary; something else than an `Endpoint`, one with a
            rule of ``max_relative_cost``, or any if the decoder was given no ``frame_shift``; `nbest` without a beam,
            or above ``max_hypotheses``.
        UnsupportedError
            The decoder has ``merge_context``.
        """
        self._check_streams("stream")
        check_endpoint(endpoint)
        check_nbest(self.options, nbest)
        return TransducerStream(self._chunks, self._search.tree(boost), endpoint, nbest)

    @lists_options()
    def restore(self, data: bytes, *, boost: BoostingTree | None = None) -> TransducerStream:
        """Continues a stream that :meth:`TransducerStream.save` has saved.

        In ``float32`` all later results have the bytes that the stream itself would have given, on any device.

        Parameters
        ----------
        data : bytes
        boost : BoostingTree, optional
            The tree that the stream was saved with, if it had one.

        Raises
        ------
        FormatError
            The bytes are no saved stream, or one that is damaged, cut short or of another version.
        ValueError
            The stream was decoded with another network, n-gram model, option or tree: the message names it.
        UnsupportedError
            The decoder has ``merge_context``.
        TypeError
            Not bytes, or something else than a tree.

        Examples
        --------
        >>> data = stream.save()
        >>> stream = other_decoder.restore(data)
        """
        self._check_streams("restore")
        return TransducerStream.restored(self._chunks, data, self._search.tree(boost))

    @lists_options()
    def decode_chunks(
        self,
        streams: Sequence[TransducerStream],
        encoder_output: Any,
        lengths: Any = None,
        *,
        last: bool | Sequence[bool] | None = None,
        cuda_stream: Any = None,
        errors: str = "raise",
    ) -> Partials[TransducerPartial]:
        """Decodes the next chunk of each of some streams.

        Any streams of this decoder may be decoded together, with chunks of any lengths, 0 included: results do not
        depend on it. A stream whose sentence has ended at an endpoint keeps its chunk for
        :meth:`TransducerStream.reset`, and has the result of the sentence again.

        Parameters
        ----------
        streams : sequence of TransducerStream
            Each once.
        encoder_output : array [streams, frames, features], or sequence of arrays [frames, features]
            The chunks, as :meth:`decode` takes utterances.
        lengths, last, cuda_stream, errors
            As of :meth:`CtcDecoder.decode_chunks`; values that are not finite are what NaN and +inf are there.

        Returns
        -------
        Partials
            A sequence of :class:`TransducerPartial`, in the order of the streams.

        Raises
        ------
        TypeError, ValueError, MemoryError, CudaOutOfMemoryError, CudaError
            As of :meth:`decode`; and what `errors` says. After an error that is not one of values, all streams are as
            before.

        Examples
        --------
        >>> stream = decoder.stream()
        >>> for chunk in np.array_split(encoder_output, 10):
        ...     [partial] = decoder.decode_chunks([stream], [chunk])
        ...     print(partial.stable_text, "|", partial.text)
        >>> hypothesis = stream.finish()
        """
        return self._chunks.decode(streams, encoder_output, lengths, last, cuda_stream, errors)

    def _check_streams(self, what: str) -> None:
        """Raises an UnsupportedError if the decoder has ``merge_context``."""
        check_streams(self.options, what)
