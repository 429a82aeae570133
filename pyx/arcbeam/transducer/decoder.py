"""The transducer decoder: RNN-T and TDT, greedily or with a beam, from networks or from files."""

from __future__ import annotations

import copy
import functools
import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, Unpack

from arcbeam.arrays.batches import InputSpec
from arcbeam.arrays.input_warnings import TimeFirstCheck
from arcbeam.core.calls import explains, lists_options
from arcbeam.core.fixed import Fixed
from arcbeam.core.show import changed, shown_as
from arcbeam.core.threads import usable_cores
from arcbeam.transducer.beam.search import BeamSearch
from arcbeam.transducer.decoding import SearchingDecoder
from arcbeam.transducer.device import ordinal_of
from arcbeam.transducer.engines import make_engine
from arcbeam.transducer.fusion import models_of
from arcbeam.transducer.hypothesis import HypothesisForm
from arcbeam.transducer.network import Joint, LstmPrediction, StatelessPrediction, WeightsError, check_shape, named_as
from arcbeam.transducer.ngram_lm import NgramLm
from arcbeam.transducer.options import TransducerKeywords, TransducerOptions
from arcbeam.transducer.search import GreedySearch
from arcbeam.transducer.streams.chunks import TransducerChunkDecoder
from arcbeam.transducer.text import detokenizer

Tokenizer: TypeAlias = str | os.PathLike[str] | Sequence[str] | Callable[[list[int]], str]

ELSEWHERE = {
    "beam_size": "is here max_hypotheses, with a beam in nats",
    "lm": "is here ngram_lm_model, an n-gram model of tokens",
}


@explains(TransducerOptions)
class TransducerDecoder(SearchingDecoder, Fixed):
    """Decoding of RNN-T and TDT models from their encoder's output: greedily (Bataev et al. 2024, *Label-Looping*), or
    with a beam (``docs/design/transducer-beam.md``).

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
        A model with fewer than half of these words is refused. Those of `lodr_model` are the same.
    lodr_model : path, LanguageModel, KenLM or None
        With a beam: an n-gram model of tokens, of the texts that the network was trained on and of a low order such as
        2. It stands for the internal language model, so its scores are multiplied by the negative ``lodr_scale`` (LODR,
        Zheng et al. 2022). It can be what `ngram_lm_model` can be.
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

    @lists_options(TransducerOptions, opened_by="TransducerDecoder.from_arrays, from_nemo or from_icefall", **ELSEWHERE)
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
        lodr_model: NgramLm | None = None,
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
        detokenize = None if tokenizer is None else detokenizer(tokenizer, tokens, chosen.blank_id)
        ngram_lm, lodr = models_of(chosen, ngram_lm_model, lodr_model, ngram_lm_tokens, tokens)
        layers = len(prediction.layers) if isinstance(prediction, LstmPrediction) else 0
        shapes = {
            "hidden": (layers, prediction.units),
            "cell": (layers, prediction.units),
            "context": (0 if layers else prediction.context,),  # type: ignore[union-attr]
        }
        form = HypothesisForm(
            chosen.durations is not None, chosen.confidence is not None, shapes, chosen.frame_shift, detokenize,
            chosen.confidence_aggregation, chosen.beam is not None,
        )  # fmt: skip
        self._ordinal = ordinal_of(chosen, prediction)
        chosen = chosen.resolved(usable_cores() if self._ordinal is None else None)
        engine = make_engine(prediction, joint, chosen, self._ordinal, lodr, frame_looping=self._frame_looping)
        spec = InputSpec(int(joint.encoder_weight.shape[1]), True, "encoder_output", "features", "values")
        search = GreedySearch if chosen.beam is None else BeamSearch
        self._search = search(engine, chosen, (prediction, joint), tokens, spec, form, ngram_lm, lodr)
        self._check_axes = TimeFirstCheck(spec.name, spec.axis)
        self._chunks = TransducerChunkDecoder(self._search)

    def __repr__(self) -> str:
        options, tokens = self.options, self._search.tokens
        kind = "an RNN-T" if options.durations is None else "a TDT"
        what = f"TransducerDecoder of {kind} with {tokens:,} tokens, {self.features:,} features on {self.device}"
        return shown_as(what, f"blank_id={options.blank_id}", *changed(self._given, "device"))

    def __reduce__(self) -> Any:
        tokenizer = self._search.form.detokenize
        try:
            pickle.dumps(tokenizer)
        except Exception as error:  # a function of the user's may raise anything
            raise TypeError(
                f"tokenizer: expected one that can be pickled, such as a function of a module, got {tokenizer!r} "
                f"({error}); the decoder is pickled with it"
            ) from None
        return self._maker(), self._search.networks

    def __copy__(self) -> TransducerDecoder:
        return self._maker()(*self._search.networks)

    def __deepcopy__(self, _: Any) -> TransducerDecoder:
        return copy.copy(self)

    def _maker(self) -> Callable[..., TransducerDecoder]:
        """The callable that makes this decoder from its networks."""
        search = self._search
        return functools.partial(
            type(self),
            tokenizer=search.form.detokenize,
            ngram_lm_model=search.ngram_lm,
            lodr_model=search.lodr,
            **vars(self._given),
        )

    @classmethod
    @lists_options(TransducerOptions, **ELSEWHERE)
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
        lodr_model: NgramLm | None = None,
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
ngram_lm_model, ngram_lm_alpha, ngram_lm_tokens, lodr_model, lodr_scale, ilm_scale, beam, max_hypotheses, \
merge, length_power, settle_frames, merge_context
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
                lodr_model=lodr_model,
                **options,
            )

    @classmethod
    @lists_options(TransducerOptions, **ELSEWHERE)
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
        lodr_model: NgramLm | None = None,
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
ngram_lm_model, ngram_lm_alpha, ngram_lm_tokens, lodr_model, lodr_scale, ilm_scale, beam, max_hypotheses, \
merge, length_power, settle_frames, merge_context
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
                lodr_model=lodr_model,
                **options,
            )

    @classmethod
    @lists_options(TransducerOptions, **ELSEWHERE)
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
        lodr_model: NgramLm | None = None,
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
boosting_tree_alpha, ngram_lm_model, ngram_lm_alpha, ngram_lm_tokens, lodr_model, lodr_scale, ilm_scale, beam, \
max_hypotheses, merge, length_power, settle_frames, merge_context
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
                lodr_model=lodr_model,
                **options,
            )


class FrameLoopingDecoder(TransducerDecoder):
    """A decoder by Algorithm 2 of Bataev et al. (2024), for comparison with label-looping: the same bytes, later."""

    _frame_looping = True


def _given(*, frame_shift: Any, tokenizer: Any, **others: Any) -> dict[str, Any]:
    """The options that a caller gives, as far as a model may have its own."""
    given = {name: value for name, value in others.items() if value is not None}
    may_be_none = {"frame_shift": frame_shift, "tokenizer": tokenizer}
    return given | {n: value for n, value in may_be_none.items() if not (isinstance(value, str) and value == "auto")}
