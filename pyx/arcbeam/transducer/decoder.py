"""The transducer decoder: greedy RNN-T and TDT."""

from __future__ import annotations

import copy
import functools
import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, Unpack, overload

from arcbeam.arrays.bad_values import check_errors
from arcbeam.arrays.batches import InputSpec, one_or_many
from arcbeam.arrays.input_warnings import TimeFirstCheck
from arcbeam.arrays.intake import take_batch
from arcbeam.core.calls import explains, lists_options
from arcbeam.core.fixed import Fixed
from arcbeam.core.show import changed, shown_as
from arcbeam.core.threads import usable_cores
from arcbeam.streams.endpoints import Endpoint, check_endpoint
from arcbeam.streams.partials import Partials
from arcbeam.transducer.boosting_tree import BoostingTree
from arcbeam.transducer.device import TransducerMemory, ordinal_of
from arcbeam.transducer.engines import make_engine
from arcbeam.transducer.fusion import Boosts
from arcbeam.transducer.hypothesis import HypothesisForm, TransducerHypothesis, TransducerState
from arcbeam.transducer.network import Joint, LstmPrediction, StatelessPrediction, WeightsError, check_shape, named_as
from arcbeam.transducer.ngram_lm import NgramLm, token_automaton
from arcbeam.transducer.options import TransducerKeywords, TransducerOptions
from arcbeam.transducer.search import GreedySearch
from arcbeam.transducer.streams.chunks import TransducerChunkDecoder
from arcbeam.transducer.streams.partial import TransducerPartial
from arcbeam.transducer.streams.stream import TransducerStream
from arcbeam.transducer.text import detokenizer

Tokenizer: TypeAlias = str | os.PathLike[str] | Sequence[str] | Callable[[list[int]], str]


@explains(TransducerOptions)
class TransducerDecoder(Fixed):
    """Greedy decoding of RNN-T and TDT models from their encoder's output (Bataev et al. 2024, *Label-Looping*).

    The prediction network runs after labels only, the projections into the joint network are computed once, several
    frames are tested for blanks at a time, and utterances share products of matrices. In ``float32`` the arithmetic
    is specified down to the order of each sum (``docs/design/transducers.md``), so the same input gives the same bytes
    whatever the threads, the batch, its order, the chunks or the machine. In ``bfloat16`` that holds on CPUs, and on
    each GPU.

    Parameters
    ----------
    prediction : LstmPrediction or StatelessPrediction
    joint : Joint
    blank_id : int
        The blank's token.
    tokenizer : path, list of str or function, optional
        The source of text: a SentencePiece model, the pieces by token, or a function of a list of tokens.
    ngram_lm_model : path, LanguageModel, KenLM or None
        An n-gram model of tokens, which scores labels: an ARPA, packed or not, a KenLM binary, or a file of
        `LanguageModel.save`.
    ngram_lm_tokens : sequence of str or None, optional
        The model's word for each token, None for tokens that it has not; by default NeMo's, the character 100 + token.
        A model with fewer than half of these words is refused.
    **options
        Those of :class:`arcbeam.TransducerOptions`, by keyword.

    Raises
    ------
    TypeError, ValueError
        An option out of its range, weights that are not finite, or shapes that do not fit each other.
    MissingDependencyError, CudaError
        A GPU is named as the device and cannot decode: the message says why.
    CudaOutOfMemoryError, CapacityError
        The weights do not fit the GPU; or the machine does not give that many threads.

    Notes
    -----
    A decoder may be used from several Python threads, which then take turns; for parallel work give it ``threads``,
    which decode without the GIL.

    A decoder is pickled with its weights, its options and its tokenizer, and is made anew where it is unpickled. If the
    tokenizer is a function, it has to be one that can be pickled, too. For pickling, the decoder keeps the weights as
    it got them in the host's memory, which :meth:`memory` does not count; copies share them.
    """

    _frame_looping = False

    @lists_options(TransducerOptions)
    def __init__(
        self,
        prediction: LstmPrediction | StatelessPrediction,
        joint: Joint,
        blank_id: int,
        *,
        durations: Sequence[int] | None = None,
        max_symbols: int = 10,
        frame_shift: float | None = None,
        tokenizer: Tokenizer | None = None,
        ngram_lm_model: NgramLm | None = None,
        ngram_lm_tokens: Sequence[str | None] | None = None,
        **options: Unpack[TransducerKeywords],
    ) -> None:
        if not isinstance(prediction, (LstmPrediction, StatelessPrediction)):
            got = type(prediction).__name__
            raise TypeError(
                f"prediction: expected an arcbeam.transducer.LstmPrediction or StatelessPrediction, got {got}"
            )
        if not isinstance(joint, Joint):
            raise TypeError(f"joint: expected an arcbeam.transducer.Joint, got {type(joint).__name__}")
        self._given = chosen = TransducerOptions(
            blank_id=blank_id,
            durations=durations,  # type: ignore[arg-type]  # made a tuple there
            max_symbols=max_symbols,
            frame_shift=frame_shift,
            **options,
        )
        tokens, outputs = prediction.tokens, prediction.tokens + len(chosen.durations or ())
        if not 0 <= chosen.blank_id < tokens:
            raise ValueError(f"blank_id: expected one of {tokens} tokens, 0 to {tokens - 1}, got {blank_id}")
        check_shape("prediction_weight", joint.prediction_weight, (len(joint.prediction_weight), prediction.units))
        if len(joint.output_weight) != outputs:
            made_of = f"{tokens} tokens" + (f" and {len(chosen.durations)} durations" if chosen.durations else "")
            raise WeightsError(
                "output_weight",
                f"expected shape {[outputs, joint.output_weight.shape[1]]} for {made_of}, got "
                f"{list(joint.output_weight.shape)}",
            )
        detokenize = None if tokenizer is None else detokenizer(tokenizer, tokens)
        self._ngram_lm = (
            None
            if ngram_lm_model is None
            else token_automaton(ngram_lm_model, ngram_lm_tokens, tokens, chosen.blank_id)
        )
        self._networks = prediction, joint
        self._tokens = tokens
        self._features = int(joint.encoder_weight.shape[1])
        layers = len(prediction.layers) if isinstance(prediction, LstmPrediction) else 0
        shapes = {
            "hidden": (layers, prediction.units),
            "cell": (layers, prediction.units),
            "context": (0 if layers else prediction.context,),  # type: ignore[union-attr]
        }
        self._form = HypothesisForm(
            chosen.durations is not None, chosen.confidence is not None, shapes, chosen.frame_shift, detokenize,
            chosen.confidence_aggregation,
        )  # fmt: skip
        self._ordinal = ordinal_of(chosen, prediction)
        self._options = chosen = chosen.resolved(usable_cores() if self._ordinal is None else None)
        self._engine = make_engine(prediction, joint, chosen, self._ordinal, frame_looping=self._frame_looping)
        spec = InputSpec(self._features, True, "encoder_output", "features", "values")
        self._check_axes = TimeFirstCheck(spec.name, spec.axis)
        self._search = GreedySearch(self._engine, chosen, self._networks, tokens, spec, self._form, self._ngram_lm)
        self._chunks = TransducerChunkDecoder(self._search)

    def __repr__(self) -> str:
        kind = "an RNN-T" if self._options.durations is None else "a TDT"
        what = f"TransducerDecoder of {kind} with {self._tokens:,} tokens, {self._features:,} features on {self.device}"
        return shown_as(what, f"blank_id={self._options.blank_id}", *changed(self._given, "device"))

    def __reduce__(self) -> Any:
        tokenizer = self._form.detokenize
        try:
            pickle.dumps(tokenizer)
        except Exception as error:  # a function of the user's may raise anything
            raise TypeError(
                f"tokenizer: expected one that can be pickled, such as a function of a module, got {tokenizer!r} "
                f"({error}); the decoder is pickled with it"
            ) from None
        return self._maker(), self._networks

    def __copy__(self) -> TransducerDecoder:
        return self._maker()(*self._networks)

    def __deepcopy__(self, _: Any) -> TransducerDecoder:
        return copy.copy(self)

    def _maker(self) -> Callable[..., TransducerDecoder]:
        """The callable that makes this decoder from its networks."""
        return functools.partial(
            type(self), tokenizer=self._form.detokenize, ngram_lm_model=self._ngram_lm, **vars(self._given)
        )

    @classmethod
    @lists_options(TransducerOptions)
    def from_arrays(
        cls,
        arrays: str | os.PathLike[str] | Mapping[str, Any],
        blank_id: int | None = None,
        *,
        activation: str | None = None,
        relu: bool | None = None,
        max_bytes: int | str | None = None,
        durations: Sequence[int] | None = None,
        max_symbols: int | None = None,
        frame_shift: float | Literal["auto"] | None = "auto",
        tokenizer: Tokenizer | None = "auto",
        ngram_lm_model: NgramLm | None = None,
        ngram_lm_tokens: Sequence[str | None] | None = None,
        **options: Unpack[TransducerKeywords],
    ) -> TransducerDecoder:
        """A decoder from named weights: an ``.npz`` file as :func:`numpy.savez` writes it, or a mapping.

        Parameters
        ----------
        arrays : path of an ``.npz`` file, or mapping of str to array
            ``embedding``; for an LSTM ``weight_ih_l0``, ``weight_hh_l0`` and, if there are any, ``bias_ih_l0``,
            ``bias_hh_l0``, and so on for each layer; for a stateless network ``convolution`` and ``convolution_bias``,
            if there are any; ``encoder_weight``, ``prediction_weight``, ``output_weight`` and, if there are any,
            ``encoder_bias``, ``prediction_bias``, ``output_bias``. The shapes are those of
            :class:`arcbeam.transducer.LstmPrediction`, :class:`arcbeam.transducer.StatelessPrediction` and
            :class:`arcbeam.transducer.Joint`; values are float16, float32 or float64. Options may be among the arrays,
            by their names: ``blank_id`` and ``max_symbols``, integers []; ``durations``, integers [durations];
            ``frame_shift``, a number []; ``activation``, text []; ``relu``, a boolean []; ``tokenizer``, the pieces as
            text [tokens]. Python objects are refused, and nothing in the file is run.
        blank_id : int, optional
            The blank's token; needed unless it is among the arrays.
        activation : str, optional
            The joint network's activation: ``"tanh"``, ``"relu"`` or ``"sigmoid"``; by default that among the arrays,
            or ``"tanh"`` if there is none.
        relu : bool, optional
            Whether a stateless network ends with a ReLU; by default what the arrays say, or False.
        max_bytes : int, str or None
            As in `from_nemo`.
        durations, max_symbols : optional
            As the decoder itself takes them; None for those among the arrays, or else the decoder's defaults.
        frame_shift, tokenizer : optional
            As the decoder itself takes them; "auto" for those among the arrays, or None if there is none.
        precision, device, threads, confidence, confidence_aggregation, boosting_tree_alpha, \
ngram_lm_model, ngram_lm_alpha, ngram_lm_tokens
            As the decoder itself takes them.

        Raises
        ------
        FormatError
            A file that is no such archive, is damaged, exceeds `max_bytes`, lacks an array or has an unknown one, or
            whose arrays do not fit each other: the message names the array.
        ValueError
            The same of a mapping.
        OSError
            The file cannot be read.

        Examples
        --------
        >>> numpy.savez("weights.npz", **weights, blank_id=1024, activation="relu", tokenizer=pieces)
        >>> decoder = TransducerDecoder.from_arrays("weights.npz")
        """
        from arcbeam.transducer.checkpoints.named_arrays import named_file, read_arrays

        given = _given(
            blank_id=blank_id,
            activation=activation,
            relu=relu,
            durations=durations,
            max_symbols=max_symbols,
            frame_shift=frame_shift,
            tokenizer=tokenizer,
        )
        model = read_arrays(arrays, given, max_bytes)
        with named_file(model.source, model.names):
            return cls(
                model.prediction,
                model.joint,
                **model.options,
                ngram_lm_model=ngram_lm_model,
                ngram_lm_tokens=ngram_lm_tokens,
                **options,
            )

    @classmethod
    @lists_options(TransducerOptions)
    def from_nemo(
        cls,
        source: Any,
        *,
        activation: str | None = None,
        durations: Sequence[int] | None = None,
        max_bytes: int | str | None = None,
        blank_id: int | None = None,
        max_symbols: int | None = None,
        frame_shift: float | Literal["auto"] | None = "auto",
        tokenizer: Tokenizer | None = "auto",
        ngram_lm_model: NgramLm | None = None,
        ngram_lm_tokens: Sequence[str | None] | None = None,
        **options: Unpack[TransducerKeywords],
    ) -> TransducerDecoder:
        """A decoder from an RNN-T or TDT model of NeMo (``RNNTDecoder`` or ``StatelessTransducerDecoder``).

        Parameters
        ----------
        source : path of a ``.nemo`` archive or a safetensors file, model object of NeMo, or state dict
            The configuration in an archive or of an object also gives the joint network's activation, the durations,
            ``max_symbols``, ``frame_shift`` and the pieces of ``tokenizer``, if it has them; reading an archive needs
            the package pyyaml, but not torch. A safetensors file is a state dict, and needs the package safetensors.
        activation : str, optional
            By default that of the configuration; for a state dict ``"relu"``.
        durations : sequence of int, optional
            The durations of a TDT; needed with a state dict.
        max_bytes : int, str or None
            A limit in bytes, or a size such as ``"20GiB"``, for each of these: the decompressed content of a file, its
            tensors, and the tables that decoding makes of them. None: 20 times its size, but at least 32 MiB.
        blank_id, max_symbols : int, optional
            As the decoder itself takes them; None for the values in the model and its configuration.
        frame_shift : float, None or "auto"
            Seconds per frame, or None for no times; "auto" is the configuration's value, or None if it has none.
        tokenizer : path, list of str, function, None or "auto"
            As the decoder itself takes it; "auto" means the pieces of the configuration, or None if it has none.
        precision, device, threads, confidence, confidence_aggregation, boosting_tree_alpha, \
ngram_lm_model, ngram_lm_alpha, ngram_lm_tokens
            As the decoder itself takes them.

        Raises
        ------
        FormatError
            A file that is none of these, is damaged, or exceeds `max_bytes`; or a layer that is not supported: the
            message names it.
        ValueError
            The configuration has no limit of tokens per frame; then ``max_symbols`` must give it.
        OSError
            The file cannot be read.
        MissingDependencyError
            The package pyyaml is missing for an archive, or safetensors for a file of that kind.
        """
        from arcbeam.transducer.checkpoints.nemo import read_nemo

        given = _given(blank_id=blank_id, max_symbols=max_symbols, frame_shift=frame_shift, tokenizer=tokenizer)
        model = read_nemo(source, activation, durations, given, max_bytes)
        with named_as(model.source.name, model.keys, model.source.error):
            return cls(
                model.prediction,
                model.joint,
                **model.options_with(given),
                ngram_lm_model=ngram_lm_model,
                ngram_lm_tokens=ngram_lm_tokens,
                **options,
            )

    @classmethod
    @lists_options(TransducerOptions)
    def from_icefall(
        cls,
        source: str | os.PathLike[str] | Mapping[str, Any],
        *,
        blank_id: int = 0,
        relu: bool | None = None,
        max_symbols: int = 1,
        max_bytes: int | str | None = None,
        durations: Sequence[int] | None = None,
        frame_shift: float | None = None,
        tokenizer: Tokenizer | None = None,
        ngram_lm_model: NgramLm | None = None,
        ngram_lm_tokens: Sequence[str | None] | None = None,
        **options: Unpack[TransducerKeywords],
    ) -> TransducerDecoder:
        """A decoder from a transducer of icefall with a stateless prediction network.

        Parameters
        ----------
        source : path of a checkpoint (``pretrained.pt``, ``epoch-30.pt``) or a safetensors file, or state dict
        blank_id : int
        relu : bool, optional
            Whether the prediction network ends with a ReLU; by default it does if it has a convolution.
        max_symbols : int
            Tokens per frame; 1 by default, as in icefall's batched greedy search.
        max_bytes : int, str or None
            As in `from_nemo`.
        durations, precision, device, threads, frame_shift, tokenizer, confidence, confidence_aggregation, \
boosting_tree_alpha, ngram_lm_model, ngram_lm_alpha, ngram_lm_tokens
            As the decoder itself takes them.

        Raises
        ------
        FormatError
            A file that is none of these, is damaged, or exceeds `max_bytes`; or a layer that is not supported: the
            message names it.
        OSError
            The file cannot be read.
        MissingDependencyError
            The package safetensors is missing for a file of that kind.
        """
        from arcbeam.transducer.checkpoints.icefall import KEYS, read_icefall

        made_of, prediction, joint = read_icefall(source, relu, max_bytes)
        with named_as(made_of.name, KEYS, made_of.error):
            return cls(
                prediction,
                joint,
                blank_id,
                durations=durations,
                max_symbols=max_symbols,
                frame_shift=frame_shift,
                tokenizer=tokenizer,
                ngram_lm_model=ngram_lm_model,
                ngram_lm_tokens=ngram_lm_tokens,
                **options,
            )

    @property
    def options(self) -> TransducerOptions:
        """The options, as validated; `threads` of a CPU is a number, also if None was given."""
        return self._options

    @property
    def device(self) -> str:
        """The device that decodes: ``"cpu"`` or ``"cuda:N"``."""
        return "cpu" if self._ordinal is None else f"cuda:{self._ordinal}"

    @property
    def has_text(self) -> bool:
        """Whether its hypotheses have text, because there is a tokenizer."""
        return self._form.detokenize is not None

    @property
    def pieces(self) -> tuple[str, ...] | None:
        """The pieces by token, where the tokenizer is a list of them; None otherwise."""
        pieces = getattr(self._form.detokenize, "pieces", None)
        return None if pieces is None else tuple(pieces)

    @property
    def features(self) -> int:
        """Size of a frame of the encoder output."""
        return self._features

    @property
    def nbytes(self) -> int:
        """Bytes of the packed weights, and of the tables of everything that depends on a token alone."""
        return self.memory().weights

    def finished(self) -> int:
        """How many utterances of the batch that is being decoded are finished, for a progress bar of another thread.

        It is 0 between batches, and on a GPU, which decodes the utterances of a batch together.
        """
        return self._engine.finished()

    def memory(self) -> TransducerMemory:
        """The memory that the decoder holds on its device, without the weights that are kept for pickling."""
        return TransducerMemory(**self._engine.memory())

    def release(self) -> None:
        """Gives back the memory that grows with batches; the decoder can still be used, and grows it again.

        On a GPU: encoder output, hypotheses and states of the batch, and pinned memory; the weights stay. On a CPU: the
        threads and what they keep. Waits for a batch that is being decoded.

        Raises
        ------
        CudaError
            In a process forked from one that used CUDA, or after the device was lost.
        """
        self._engine.release()

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
    ) -> list[TransducerHypothesis]: ...

    @overload
    def decode(
        self,
        encoder_output: Any,
        lengths: Any = None,
        state: Sequence[TransducerState | None] | None = None,
        *,
        boost: Boosts = None,
        cuda_stream: Any = None,
        errors: str = "raise",
    ) -> TransducerHypothesis | list[TransducerHypothesis]: ...

    @lists_options()
    def decode(
        self,
        encoder_output: Any,
        lengths: Any = None,
        state: Sequence[TransducerState | None] | None = None,
        *,
        boost: Boosts = None,
        cuda_stream: Any = None,
        errors: str = "raise",
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
        state : sequence of TransducerState or None, one for each utterance, optional
            The ``state`` of the hypotheses of the chunks before; None at the start of a stream. Chunks of any size
            give the same bytes as one piece.
        boost : BoostingTree, or sequence of BoostingTree or None, one for each utterance, optional
            Phrases that are made likelier. A stream keeps the tree that it began with.
        cuda_stream : int, or a stream of torch, CuPy or cuda.core; optional
            The stream that writes arrays on a GPU. By default it is the one that their library reports.
        errors : "raise" or "return"
            What happens to an utterance whose values are not finite. "raise": an :class:`InputError`, which is a
            ValueError, and no result for the batch. "return": its place has a hypothesis without tokens, whose
            ``error`` is that InputError and whose ``state`` is the one that was passed; the other results do not
            change.

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
            is misaligned or not in one allocation of the device, and a stream of another device.
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
        encoder_output, lengths, is_one = one_or_many(encoder_output, lengths)
        utterances, on_host = take_batch(encoder_output, lengths, self._search.spec, self._engine, cuda_stream)
        self._check_axes(utterances.arrays, lengths)
        found = self._search.decode(utterances, on_host, state, boost, errors)
        return found[0] if is_one else found

    @lists_options()
    def stream(self, *, boost: BoostingTree | None = None, endpoint: Endpoint | None = None) -> TransducerStream:
        """Begins a stream of speech, whose encoder output arrives in chunks.

        Parameters
        ----------
        boost : BoostingTree, optional
            Phrases that are made likelier.
        endpoint : Endpoint, optional
            Rules that end sentences, such as ``arcbeam.Endpoint.sherpa()``; then :meth:`TransducerStream.reset` begins
            the next one. None: the speech is one sentence, unless `reset` is called.

        Raises
        ------
        TypeError, ValueError
            Something else than a tree, or a tree of another vocabulary; something else than an `Endpoint`, one with a
            rule of ``max_relative_cost``, or any if the decoder was given no ``frame_shift``.
        """
        check_endpoint(endpoint)
        return TransducerStream(self._chunks, self._search.tree(boost), endpoint)

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
        TypeError
            Not bytes, or something else than a tree.

        Examples
        --------
        >>> data = stream.save()
        >>> stream = other_decoder.restore(data)
        """
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


class FrameLoopingDecoder(TransducerDecoder):
    """A decoder by Algorithm 2 of Bataev et al. (2024), for comparison with label-looping: the same bytes, later."""

    _frame_looping = True


def _given(*, frame_shift: Any, tokenizer: Any, **others: Any) -> dict[str, Any]:
    """The options that a caller gives, as far as a model may have its own."""
    given = {name: value for name, value in others.items() if value is not None}
    may_be_none = {"frame_shift": frame_shift, "tokenizer": tokenizer}
    return given | {n: value for n, value in may_be_none.items() if not (isinstance(value, str) and value == "auto")}
