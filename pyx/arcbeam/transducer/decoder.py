"""The transducer decoder: greedy RNN-T and TDT."""

from __future__ import annotations

import copy
import functools
import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from arcbeam.arrays.bad_values import check_errors, encoder_output_errors
from arcbeam.arrays.batches import as_utterances
from arcbeam.arrays.on_device import as_device_utterances, is_on_device, refuse_capture
from arcbeam.errors import CapacityError
from arcbeam.threads import usable_cores
from arcbeam.transducer._transducer import CpuEngine, Network
from arcbeam.transducer.confidence import ConfidenceMethod, measure
from arcbeam.transducer.device import TransducerMemory, cuda_engine, ordinal_of
from arcbeam.transducer.hypothesis import HypothesisForm, TransducerHypothesis, TransducerState
from arcbeam.transducer.network import Joint, LstmPrediction, StatelessPrediction, check_shape, from_mapping, named_as
from arcbeam.transducer.options import TransducerOptions
from arcbeam.transducer.precision import rounded
from arcbeam.transducer.states import states_of
from arcbeam.transducer.text import detokenizer


class TransducerDecoder:
    """Greedy decoding of RNN-T and TDT models from their encoder's output (Bataev et al. 2024, *Label-Looping*).

    The prediction network runs after labels only, the projections into the joint network are computed once, several
    frames are tested for blanks at a time, and utterances share products of matrices. In ``float32`` the arithmetic
    is written down to the order of each sum (``docs/design/transducers.md``), so the same input gives the
    same bytes whatever
    the threads, the batch, its order, the chunks or the machine. In ``bfloat16`` that holds on CPUs, and on each GPU.

    Parameters
    ----------
    prediction : LstmPrediction or StatelessPrediction
    joint : Joint
    blank_id : int
    durations : sequence of int, optional
        Frames that the duration outputs of a TDT stand for; None for an RNN-T.
    max_symbols, precision, device, threads, frame_shift, confidence, algorithm
        See :class:`arcbeam.TransducerOptions`.
    tokenizer : path, list of str or function, optional
        Where text comes from: a SentencePiece model, the pieces by token, or a function of a list of tokens.

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

    A decoder is pickled with its weights, its options and what makes its text, and made anew where it is unpickled.
    A function as the tokenizer then has to be one that can be pickled, too. For that it keeps the weights as it got
    them, in the host's memory, which :meth:`memory` does not count; copies share them.
    """

    def __init__(
        self,
        prediction: LstmPrediction | StatelessPrediction,
        joint: Joint,
        blank_id: int,
        *,
        durations: Sequence[int] | None = None,
        max_symbols: int = 10,
        precision: str = "float32",
        device: str = "auto",
        threads: int | None = None,
        frame_shift: float | None = None,
        tokenizer: Any = None,
        confidence: str | ConfidenceMethod | None = None,
        algorithm: str = "label-looping",
    ) -> None:
        if not isinstance(prediction, (LstmPrediction, StatelessPrediction)):
            got = type(prediction).__name__
            raise TypeError(f"prediction: expected an arcbeam.LstmPrediction or StatelessPrediction, got {got}")
        if not isinstance(joint, Joint):
            raise TypeError(f"joint: expected an arcbeam.Joint, got {type(joint).__name__}")
        self._options = options = TransducerOptions(
            blank_id=blank_id,
            durations=durations,  # type: ignore[arg-type]  # made a tuple there
            max_symbols=max_symbols,
            precision=precision,
            device=device,
            threads=threads,
            frame_shift=frame_shift,
            confidence=confidence,
            algorithm=algorithm,
        )
        tokens, outputs = prediction.tokens, prediction.tokens + len(options.durations or ())
        if not 0 <= options.blank_id < tokens:
            raise ValueError(f"blank_id: expected one of {tokens} tokens, 0 to {tokens - 1}, got {blank_id}")
        check_shape("prediction_weight", joint.prediction_weight, (len(joint.prediction_weight), prediction.units))
        if len(joint.output_weight) != outputs:
            made_of = f"{tokens} tokens" + (f" and {len(options.durations)} durations" if options.durations else "")
            raise ValueError(
                f"output_weight: expected shape {[outputs, joint.output_weight.shape[1]]} for {made_of}, "
                f"got {list(joint.output_weight.shape)}"
            )
        detokenize = None if tokenizer is None else detokenizer(tokenizer, tokens)
        self._networks = prediction, joint
        self._tokens = tokens
        self._features = joint.encoder_weight.shape[1]
        layers = len(prediction.layers) if isinstance(prediction, LstmPrediction) else 0
        self._state_shapes = {
            "hidden": (layers, prediction.units),
            "cell": (layers, prediction.units),
            "context": (0 if layers else prediction.context,),  # type: ignore[union-attr]
        }
        self._form = HypothesisForm(
            options.durations is not None, options.confidence is not None, self._state_shapes, options.frame_shift,
            detokenize,
        )  # fmt: skip
        method = options.confidence
        assert not isinstance(method, str)
        sure = None if method is None else measure(method, tokens)
        self._ordinal = ordinal_of(options, prediction)
        if options.precision == "bfloat16":
            prediction, joint = rounded(prediction, joint)
        if self._ordinal is not None:
            self._engine: Any = cuda_engine(prediction, joint, options, sure, self._ordinal)
            return
        self._network = _pack(prediction, joint, rounds=options.precision == "bfloat16")
        threads = options.threads or usable_cores()
        try:
            self._engine = CpuEngine(
                self._network,
                blank=options.blank_id,
                max_symbols=options.max_symbols,
                durations=options.durations or (),
                frame_looping=options.algorithm == "frame-looping",
                confidence=sure,
                threads=threads,
            )
        except RuntimeError as error:  # std::system_error: the machine gives no more
            raise CapacityError(f"threads: {threads} of them cannot be started ({error})") from None

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
        """What makes this decoder of its networks."""
        return functools.partial(type(self), tokenizer=self._form.detokenize, **vars(self._options))

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, Any],
        blank_id: int,
        *,
        activation: str = "tanh",
        relu: bool = False,
        **options: Any,
    ) -> TransducerDecoder:
        """A decoder of named weights, as ``numpy.load("weights.npz")`` holds them.

        Parameters
        ----------
        arrays : mapping of str to array
            ``embedding``; for an LSTM ``weight_ih_l0``, ``weight_hh_l0`` and if there are any ``bias_ih_l0``,
            ``bias_hh_l0``, and so on for each layer; for a stateless network ``convolution`` and ``convolution_bias``,
            if there are any; ``encoder_weight``, ``prediction_weight``, ``output_weight``, and if there are any
            ``encoder_bias``, ``prediction_bias``, ``output_bias``. Shapes as in :class:`arcbeam.LstmPrediction`,
            :class:`arcbeam.StatelessPrediction` and :class:`arcbeam.Joint`.
        blank_id : int
        activation : str
            Of the joint network: ``"tanh"``, ``"relu"`` or ``"sigmoid"``.
        relu : bool
            Whether a stateless network ends with a ReLU.
        **options
            As the decoder itself takes them.
        """
        prediction, joint = from_mapping(arrays, activation, relu)
        return cls(prediction, joint, blank_id, **options)

    @classmethod
    def from_nemo(
        cls,
        source: str | os.PathLike[str] | Mapping[str, Any],
        *,
        activation: str | None = None,
        durations: Sequence[int] | None = None,
        max_bytes: int | str | None = None,
        **options: Any,
    ) -> TransducerDecoder:
        """A decoder of an RNN-T or TDT model of NeMo (``RNNTDecoder`` or ``StatelessTransducerDecoder``).

        Parameters
        ----------
        source : path of a ``.nemo`` archive or a safetensors file, or state dict
            An archive also tells the joint network's activation, the durations, ``max_symbols``, ``frame_shift`` and
            the pieces of ``tokenizer``, where its configuration has them; it needs the package pyyaml, and not torch.
            A safetensors file is a state dict, and needs the package safetensors.
        activation : str, optional
            By default that of the configuration, for a state dict ``"relu"``.
        durations : sequence of int, optional
            Of a TDT; needed with a state dict.
        max_bytes : int, str or None
            Bytes, or a size such as ``"20GiB"``, that a file may come to: its decompressed content, its tensors, and
            the tables that decoding makes of them, each. None: 20 times its size, and 32 MiB at least.
        **options
            As the decoder itself takes them; they override the configuration.

        Raises
        ------
        FormatError
            A file that is none of these, damaged, or comes to more than `max_bytes`; a layer that is not supported:
            the message names it.
        ValueError
            A configuration without a limit of tokens a frame, which ``max_symbols`` must then give.
        OSError
            The file cannot be read.
        MissingDependencyError
            An archive without pyyaml, or safetensors without that package.
        """
        from arcbeam.transducer.checkpoints.nemo import read_nemo

        model = read_nemo(source, activation, durations, options, max_bytes)
        with named_as(model.source.name, model.keys, model.source.error):
            return cls(model.prediction, model.joint, **model.options_with(options))

    @classmethod
    def from_icefall(
        cls,
        source: str | os.PathLike[str] | Mapping[str, Any],
        *,
        blank_id: int = 0,
        relu: bool | None = None,
        max_symbols: int = 1,
        max_bytes: int | str | None = None,
        **options: Any,
    ) -> TransducerDecoder:
        """A decoder of a transducer of icefall with a stateless prediction network.

        Parameters
        ----------
        source : path of a checkpoint (``pretrained.pt``, ``epoch-30.pt``) or a safetensors file, or state dict
        blank_id : int
        relu : bool, optional
            Whether the prediction network ends with a ReLU; by default if it has a convolution.
        max_symbols : int
            Tokens a frame; 1, as icefall's batched greedy search has it.
        max_bytes : int, str or None
            As in `from_nemo`.
        **options
            As the decoder itself takes them.

        Raises
        ------
        FormatError
            A file that is none of these, damaged, or comes to more than `max_bytes`; a layer that is not supported:
            the message names it.
        OSError
            The file cannot be read.
        MissingDependencyError
            safetensors without the package of that name.
        """
        from arcbeam.transducer.checkpoints.icefall import KEYS, read_icefall

        made_of, prediction, joint = read_icefall(source, relu, max_bytes)
        with named_as(made_of.name, KEYS, made_of.error):
            return cls(prediction, joint, blank_id, max_symbols=max_symbols, **options)

    @property
    def options(self) -> TransducerOptions:
        """The options, as validated."""
        return self._options

    @property
    def device(self) -> str:
        """The device that decodes: ``"cpu"`` or ``"cuda:N"``."""
        return "cpu" if self._ordinal is None else f"cuda:{self._ordinal}"

    @property
    def has_text(self) -> bool:
        """Whether its hypotheses have text, for there is a tokenizer."""
        return self._form.detokenize is not None

    @property
    def features(self) -> int:
        """Size of a frame of the encoder output."""
        return int(self._features)

    @property
    def nbytes(self) -> int:
        """Bytes of the packed weights, and of the tables of what depends on a token alone."""
        return self.memory().weights

    def memory(self) -> TransducerMemory:
        """What the decoder holds on its device, without the weights that it would be pickled with."""
        if self._ordinal is None:
            return TransducerMemory(weights=int(self._network.nbytes))
        return TransducerMemory(**self._engine.memory())

    def release(self) -> None:
        """Gives back the memory that grows with batches; the decoder can be used, and grows it again.

        On a GPU: encoder output, hypotheses and states of the batch, and pinned memory; the weights stay. On a CPU: the
        threads and what they keep. Waits for a batch that is being decoded.

        Raises
        ------
        CudaError
            In a process forked from one that used CUDA, or after the device was lost.
        """
        self._engine.release()

    def decode(
        self,
        encoder_output: Any,
        lengths: Any = None,
        state: Sequence[TransducerState | None] | None = None,
        *,
        stream: Any = None,
        errors: str = "raise",
    ) -> list[TransducerHypothesis]:
        """Decodes a batch of utterances, or of chunks of streams.

        Parameters
        ----------
        encoder_output : array [batch, frames, features], or sequence of arrays [frames, features]
            float32 or float16 in CPU memory, from numpy or anything with DLPack; copied only if a frame's features lie
            apart. NeMo's encoders return [batch, features, frames], to be transposed first. A decoder on a GPU also
            takes arrays there, of anything with DLPack or ``__cuda_array_interface__``, and copies none.
        lengths : sequence or array of int [batch], optional
            Frames of each utterance; the frames beyond are not read.
        state : sequence of TransducerState or None, one for each utterance, optional
            The ``state`` of the hypotheses of the chunks before; None at the start of a stream. Chunks of any size
            give the same bytes as one piece.
        stream : int, or a stream of torch, CuPy or cuda.core; optional
            Where arrays on a GPU are being written. By default their library is asked.
        errors : "raise" or "return"
            What becomes of an utterance whose values are not finite. "raise": a ValueError, and nothing of the batch.
            "return": in its place stands a hypothesis without tokens, whose ``error`` is that ValueError and whose
            ``state`` is the one it was to go on from; the others are what they are without it.

        Returns
        -------
        list of TransducerHypothesis, in the order of the batch

        Raises
        ------
        TypeError
            Values that are not float32 or float16, lengths that are not integers, states that are none.
        ValueError
            NaN or an infinity among the frames, or computed from them, unless `errors` is "return"; wrong dimensions or
            features; a length that is negative or beyond the frames; a state of another network; on a GPU an array that
            is misaligned or not in one allocation of the device, and a stream of another device.
        MemoryError, CudaOutOfMemoryError
            The batch does not fit; the decoder can still be used.
        CudaError
            A call of the driver failed; or the thread captures a CUDA graph, of which a decode cannot be a part.
        """
        check_errors(errors)
        wanted: Any = {
            "columns": self._features,
            "exact": True,
            "name": "encoder_output",
            "axis": "features",
            "values": "values",
        }
        on_device = self._ordinal is not None and is_on_device(encoder_output)
        if stream is not None and not on_device:
            raise ValueError("stream: expected None, since the encoder output or the decoder are not on a GPU")
        if on_device:
            reader = self._engine.stream
            utterances = as_device_utterances(encoder_output, lengths, **wanted, reader=reader, stream=stream)
        else:
            if self._ordinal is not None:
                refuse_capture(self._engine.stream)
            utterances = as_utterances(encoder_output, lengths, **wanted)
        states = states_of(state, len(utterances.table), self._state_shapes, self._tokens)
        where = () if self._ordinal is None else (not on_device,)
        results, bad = self._engine.decode(utterances.table, states, *where)
        errors_found = encoder_output_errors(bad, utterances.arrays, errors)
        if errors_found:  # as if they had no frames: then their states are what they were
            empty = utterances.table[list(errors_found)]
            empty[:, 2] = 0
            untouched, _ = self._engine.decode(empty, [states[i] for i in errors_found], *where)
            for i, result in zip(errors_found, untouched, strict=True):
                results[i] = result
        return [
            TransducerHypothesis(take, place, self._form, errors_found.get(i))
            for i, (take, place) in enumerate(results)
        ]


def _pack(
    prediction: LstmPrediction | StatelessPrediction, joint: Joint, *, rounds: bool = False, kernels: str | None = None
) -> Network:
    arrays: dict[str, Any] = {"embedding": prediction.embedding, "layers": 0}
    if isinstance(prediction, LstmPrediction):
        arrays["layers"] = len(prediction.layers)
        for i, layer in enumerate(prediction.layers):
            arrays |= {f"{name}_l{i}": value for name, value in vars(layer).items()}
        shape = {"relu": False, "groups": 1, "context": 0}
    else:
        arrays |= {"convolution": prediction.convolution, "convolution_bias": prediction.convolution_bias}
        shape = {"relu": prediction.relu, "groups": prediction.groups, "context": prediction.context}
    arrays |= {name: value for name, value in vars(joint).items() if name != "activation"}
    return Network(arrays, activation=joint.activation, units=prediction.units, rounds=rounds, kernels=kernels, **shape)
