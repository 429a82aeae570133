"""`arcbeam.from_transformers`: decoders for the CTC models and transducers of Hugging Face Transformers."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from typing import Any, Unpack

import numpy as np

from arcbeam.adapters.options import check_pieces, default_device, refuse_transducer, transducer_options
from arcbeam.core.calls import lists_options
from arcbeam.core.errors import UnsupportedError
from arcbeam.core.fixed import Fixed
from arcbeam.core.packages import require
from arcbeam.ctc.batches import OutputKeywords
from arcbeam.ctc.decoder import CtcDecoder
from arcbeam.ctc.hypothesis import Hypotheses
from arcbeam.front.ctc_decoder import CtcDecoderKeywords, ctc_decoder
from arcbeam.tokens.formats import read_tokens
from arcbeam.transducer.decoder import TransducerDecoder

RATE = 16_000  # samples a second, where no feature extractor says it
HOP = 160  # samples from one frame of features to the next, likewise
STACKED = 2  # frames of features that granite_speech5 joins before its encoder

#: How many samples a frame of the output stands for, by the type of the model; `hop` is that of its features.
CTC: dict[str, Callable[[Any, int], int]] = {
    **dict.fromkeys(
        (
            "wav2vec2", "hubert", "wavlm", "unispeech", "unispeech-sat", "data2vec-audio", "wav2vec2-conformer",
            "wav2vec2-bert", "sew", "sew-d",
        ),
        lambda config, hop: int(config.inputs_to_logits_ratio),
    ),
    "parakeet_ctc": lambda config, hop: hop * config.encoder_config.subsampling_factor,
    "omniasr_ctc": lambda config, hop: math.prod(config.audio_config.conv_stride),
    "granite_speech5_ctc": lambda config, hop: hop * STACKED * 2 ** len(config.encoder_config.subsample_layers),
    "lasr_ctc": lambda config, hop: hop * config.encoder_config.subsampling_conv_stride**2,
}  # fmt: skip
TRANSDUCERS = ("parakeet_tdt", "parakeet_rnnt", "nemotron_asr_streaming", "nemotron3_5_asr")

#: Our names of a transducer's weights by those of its state_dict; those of its LSTM are called alike.
WEIGHTS = {
    "decoder.embedding.weight": "embedding",
    "decoder.decoder_projector.weight": "prediction_weight",
    "decoder.decoder_projector.bias": "prediction_bias",
    "encoder_projector.weight": "encoder_weight",
    "encoder_projector.bias": "encoder_bias",
    "joint.head.weight": "output_weight",
    "joint.head.bias": "output_bias",
}
LSTM = "decoder.lstm."
PROJECTED = ("nemotron3_5_asr",)  # types whose encoder output is projected with its prompt, in `pooler_output`


class TransformersDecoder(Fixed):
    """Decodes the logits of a CTC model of Transformers; made by `from_transformers`."""

    def __init__(self, decoder: CtcDecoder, model: Any) -> None:
        self._decoder = decoder
        self._model = model

    @property
    def decoder(self) -> CtcDecoder:
        """What decodes, with everything that it offers: streams, batches, n-best lists."""
        return self._decoder

    @lists_options(CtcDecoder.decode)
    def decode(
        self,
        logits: Any,
        attention_mask: Any = None,
        *,
        cuda_stream: Any = None,
        **options: Unpack[OutputKeywords],
    ) -> Hypotheses:
        """Decodes ``model(**inputs).logits``.

        Parameters
        ----------
        logits : tensor [batch, frames, columns]
            As the model returns them, in any of its dtypes: on the decoder's GPU, where they stay, or in the host's
            memory.
        attention_mask : tensor [batch, samples or features], optional
            The mask that the model was given, of ones and zeros; without it all frames are decoded, those of padding
            among them.
        cuda_stream : int, or a stream of torch, CuPy or cuda.core; optional
            The stream that writes logits on a GPU. By default it is the one that torch reports.
        **options
            Those of `CtcDecoder.decode`.

        Returns
        -------
        Hypotheses
            One for each utterance.
        """
        lengths = None if attention_mask is None else self.lengths(attention_mask, logits.shape[1])
        found = self.decoder.decode(logits, lengths, logits=True, cuda_stream=cuda_stream, **options)
        return found if isinstance(found, Hypotheses) else Hypotheses([found], self.decoder.stats)

    @lists_options()
    def lengths(self, attention_mask: Any, frames: int) -> np.ndarray[Any, Any]:
        """int64 [batch]: the frames of each utterance, by the mask of the model's input.

        Parameters
        ----------
        attention_mask : tensor [batch, samples or features]
        frames : int
            Those of the logits: the most that a length may be.
        """
        torch = require("torch", "an attention mask")
        mask = torch.as_tensor(attention_mask)
        if mask.ndim != 2:
            raise ValueError(
                f"attention_mask: expected [batch, samples], got shape {list(mask.shape)}; if these are the frames of "
                "each utterance, call decoder.decoder.decode(logits, lengths, logits=True)"
            )
        inputs = mask.sum(-1)
        of_samples = getattr(self._model, "_get_feat_extract_output_lengths", None)
        if of_samples is not None:
            found = of_samples(inputs)
        else:
            found = self._model._get_subsampling_output_length(inputs)
        lengths: np.ndarray[Any, Any] = found.cpu().numpy().astype(np.int64)
        if len(lengths) and mask.shape[1] == frames > lengths.max():
            raise ValueError(
                f"attention_mask: expected that of the model's input, [batch, samples], got {list(mask.shape)}: "
                "as many as the logits have frames; with a mask of these call decoder.decoder.decode(logits, mask, "
                "logits=True)"
            )
        return np.minimum(lengths, frames)

    def __repr__(self) -> str:
        return f"<TransformersDecoder of {self._model.config.model_type}, {self.decoder!r}>"


@lists_options(ctc_decoder)
def from_transformers(
    model: Any,
    processor: Any = None,
    lm: Any = None,
    *,
    blank: str | int | None = None,
    transducer: Mapping[str, Any] | None = None,
    **options: Unpack[CtcDecoderKeywords],
) -> TransformersDecoder | TransducerDecoder:
    """Makes a decoder for a model of Hugging Face Transformers.

    Of the options of :class:`arcbeam.DecoderOptions`, ``device``, ``threads`` and ``frame_shift`` are for transducers,
    too; ``device`` and ``frame_shift`` are by default those of the model. The other options are for CTC models alone.

    Parameters
    ----------
    model : PreTrainedModel, str or path
        A CTC model (wav2vec2 and its family, MMS, parakeet_ctc, omniasr_ctc, granite_speech5_ctc, lasr_ctc) or a
        transducer (Parakeet's TDT and RNN-T, Nemotron's); or the folder or name that ``from_pretrained`` takes. Of a
        model with several languages (MMS) the vocabulary is read now: set the language before.
    processor : ProcessorMixin or tokenizer, optional
        That of the model, which has its tokens; None if `model` is a folder or a name, which has it.
    lm : path, LanguageModel, KenLM, optional
        For a CTC model: an ARPA over words, as of `ctc_decoder`.
    blank : str or int, optional
        For a CTC model: as of `ctc_decoder`, if the model's own is not the right one.
    transducer : mapping of str, optional
        For a transducer: options of `TransducerDecoder.from_arrays` by name, such as ``{"confidence": "entropy"}``.
    **options
        Those of `ctc_decoder`.

    Returns
    -------
    TransformersDecoder
        For a CTC model. It decodes ``model(**inputs).logits`` with ``inputs.attention_mask``.
    TransducerDecoder
        For a transducer, with the model's weights. It decodes ``last_hidden_state`` of
        ``model.get_audio_features(**inputs)`` with its ``attention_mask``; of nemotron3_5_asr it decodes
        ``pooler_output``, which depends on the prompt.

    Raises
    ------
    UnsupportedError
        A model of another type; the message lists the types.
    ValueError
        A processor that does not fit the model, or what `ctc_decoder` raises.
    MissingDependencyError
        transformers or torch is missing, where a folder or a name is given.

    Examples
    --------
    >>> decoder = arcbeam.from_transformers(model, processor, lm="3gram.arpa.gz")
    >>> for hypothesis in decoder.decode(model(**inputs).logits, inputs.attention_mask):
    ...     print(hypothesis)
    """
    if isinstance(model, (str, os.PathLike)):
        model, processor = _loaded(model, processor)
    config: Any = getattr(model, "config", None)
    kind = getattr(config, "model_type", None)
    if kind not in CTC and kind not in TRANSDUCERS:
        got = type(model).__name__ if kind is None else f"one of the type {kind!r}"
        raise UnsupportedError(
            f"model: expected a CTC model or transducer of the types {', '.join((*CTC, *TRANSDUCERS))}, got {got}; "
            "for any other CTC model use arcbeam.ctc_decoder"
        )
    default_device(model, options)
    extractor = getattr(processor, "feature_extractor", None)
    rate, hop = getattr(extractor, "sampling_rate", None) or RATE, getattr(extractor, "hop_length", None) or HOP
    if kind in TRANSDUCERS:
        given = transducer_options({"lm": lm, "blank": blank, **options}, transducer)
        given.setdefault("frame_shift", hop * config.encoder_config.subsampling_factor / rate)
        return _transducer(model, processor, given)
    refuse_transducer(transducer)
    if processor is None:
        raise ValueError("processor: expected the processor or the tokenizer of the model, which has its tokens")
    options.setdefault("frame_shift", CTC[kind](config, hop) / rate)
    if blank is None:
        blank = getattr(config, "blank_token_id", None)
        blank = config.pad_token_id if blank is None else blank
    names, columns = list(read_tokens(processor, blank).names), int(config.vocab_size)
    if len(names) > columns:
        raise ValueError(
            f"processor: expected at most {columns} tokens, as many as the model's logits have columns, got "
            f"{len(names)}: it is that of another model or language"
        )
    tokens: Any = processor if len(names) == columns else _padded(names, columns)
    decoder = ctc_decoder(tokens, lm, blank=blank, **options)
    return TransformersDecoder(decoder, model)


def _padded(names: list[str], columns: int) -> list[str]:
    """The tokens with names for columns that the tokenizer lacks, which no word uses."""
    return [*names, *(f"<column {column}>" for column in range(len(names), columns))]


def _loaded(name: Any, processor: Any) -> tuple[Any, Any]:
    """The model and the processor of a folder or a name; of a CTC model without its weights, which are not needed."""
    transformers, torch = require("transformers", "a model by its name"), require("torch", "a model by its name")
    config = transformers.AutoConfig.from_pretrained(name)
    if processor is None:
        processor = transformers.AutoProcessor.from_pretrained(name)
    if config.model_type not in TRANSDUCERS:
        with torch.device("meta"):
            return transformers.AutoModelForCTC.from_config(config), processor
    kind = transformers.AutoModelForTDT if config.model_type == "parakeet_tdt" else transformers.AutoModelForRNNT
    return kind.from_pretrained(name), processor


def _transducer(model: Any, processor: Any, options: dict[str, Any]) -> TransducerDecoder:
    """A decoder with the weights of the prediction and the joint network."""
    config, arrays = model.config, {}
    for name, tensor in model.state_dict().items():
        ours = WEIGHTS.get(name) or (name.removeprefix(LSTM) if name.startswith(LSTM) else None)
        if ours is not None:
            arrays[ours] = tensor.detach().float().cpu().numpy()
    if config.model_type in PROJECTED:
        units = len(arrays["encoder_weight"])
        arrays["encoder_weight"], arrays["encoder_bias"] = np.eye(units, dtype=np.float32), np.zeros(units, np.float32)
    given: dict[str, Any] = {
        "blank_id": config.blank_token_id,
        "activation": config.hidden_act,
        "durations": getattr(config, "durations", None),
        "max_symbols": config.max_symbols_per_step,
    }
    if processor is not None and "tokenizer" not in options:
        names = list(read_tokens(processor).names)
        check_pieces(names, len(arrays["embedding"]), "processor")
        options["tokenizer"] = names
    return TransducerDecoder.from_arrays(arrays, **given | options)
