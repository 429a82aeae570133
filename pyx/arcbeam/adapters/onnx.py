"""`arcbeam.from_onnx`: decoders for models of NeMo, GigaAM and Kaldi or icefall that were exported to ONNX."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from arcbeam.adapters.onnx_acoustic import open_acoustic
from arcbeam.adapters.onnx_check import check_network
from arcbeam.adapters.onnx_folder import Export, find_export
from arcbeam.adapters.onnx_model import OnnxCtcModel, OnnxTransducerModel
from arcbeam.adapters.onnx_weights import Network, read_network
from arcbeam.adapters.options import check_pieces, refuse_transducer, transducer_options
from arcbeam.core.calls import lists_options
from arcbeam.core.checks import check_path
from arcbeam.core.errors import UnsupportedError
from arcbeam.core.packages import function_of_file, require
from arcbeam.front.ctc_decoder import CtcDecoderKeywords, ctc_decoder
from arcbeam.tokens.formats import read_tokens
from arcbeam.tokens.model_tokens import WORD_START, ModelTokens, table_of
from arcbeam.transducer.decoder import TransducerDecoder

ONNX_ASR = "onnx-asr>=0.12"
BLANK = "<blk>"  # onnx-asr's and sherpa-onnx's; vocabularies may have a <pad>, too
MOST_CONTEXT = 2  # tokens that onnx-asr gives to a stateless prediction network


@lists_options(ctc_decoder)
def from_onnx(
    folder: str | os.PathLike[str],
    lm: Any = None,
    *,
    model_type: str | None = None,
    quantization: str | None = None,
    blank: str | int | None = None,
    transducer: Mapping[str, Any] | None = None,
    preprocessor: str | Callable[..., Any] | None = None,
    providers: Sequence[Any] | None = None,
    sess_options: Any = None,
    **options: Unpack[CtcDecoderKeywords],
) -> OnnxCtcModel | OnnxTransducerModel:
    """Makes a model that goes from audio to words from the folder of an ONNX export.

    The features and the acoustic model are those of the package onnx-asr, which runs them with onnxruntime; what
    decodes is a `CtcDecoder`, or a `TransducerDecoder` with the weights of the prediction and the joint network in the
    files. Of the options of :class:`arcbeam.DecoderOptions`, ``device``, ``threads`` and ``frame_shift`` are for
    transducers, too; ``frame_shift`` is by default that of the model. Those of `ctc_decoder` are for CTC models alone.

    Parameters
    ----------
    folder : path
        A model of NeMo, GigaAM, or Kaldi or icefall, as onnx-asr or sherpa-onnx have it: ``vocab.txt`` or
        ``tokens.txt``; ``config.json`` if there is one, whose ``subsampling_factor`` is measured if it is missing; and
        ``model.onnx``, ``encoder*.onnx`` with ``decoder_joint*.onnx``, or ``encoder*.onnx``, ``decoder*.onnx`` and
        ``joiner*.onnx``.
    lm : path, LanguageModel, KenLM, optional
        For a CTC model: an ARPA over words, as of `ctc_decoder`.
    model_type : str, optional
        onnx-asr's name of the type, such as ``"nemo-conformer-tdt"`` or ``"gigaam-v3-e2e-ctc"``, or ``"kaldi-ctc"``; by
        default that of ``config.json``, or what the files are.
    quantization : str, optional
        The quantisation of the acoustic model, such as ``"int8"``, which is in its file's name. The files of the
        prediction and the joint network without quantisation are used where they are there.
    blank : str or int, optional
        The blank's token or column, by default ``<blk>``; the number of the tokens if they lack it.
    transducer : mapping of str, optional
        For a transducer: options of `TransducerDecoder.from_arrays` by name, such as ``{"confidence": "entropy"}``.
        Durations of a TDT are by default 0, 1, ..., as onnx-asr has them.
    preprocessor : str or function, optional
        The features, if not those of the type: the name that onnx-asr has for some, such as ``"nemo80"``; or a
        function: of float32 [batch, samples] and int64 [batch], the samples of each, it returns float32 features as the
        acoustic model takes them and int64 [batch], their frames. ``"features.py:log_mel"`` is the function ``log_mel``
        of a file, which is run.
    providers, sess_options : optional
        onnxruntime's, as ``onnx_asr.load_model`` takes them, such as ``providers=["CUDAExecutionProvider"]``.
    **options
        Those of `ctc_decoder`.

    Returns
    -------
    OnnxCtcModel or OnnxTransducerModel
        ``transcribe`` goes from audio to words; ``encode`` and ``decoder`` are its two steps.

    Raises
    ------
    UnsupportedError
        A model of another kind, a streaming export, weights of a transducer that are quantised, or features that
        onnx-asr does not have.
    FormatError
        A file is damaged.
    ValueError
        Tokens that do not fit the model, several files for one purpose, or what `ctc_decoder` raises.
    MissingDependencyError
        A package is missing: onnx-asr, onnxruntime, or onnx for a transducer.
    OSError
        There is no such folder, or a file is missing or cannot be read.

    Examples
    --------
    >>> model = arcbeam.from_onnx("parakeet-ctc-0.6b-onnx", lm="3gram.arpa.gz")
    >>> for hypothesis in model.transcribe(["a.flac", "b.wav"]):
    ...     print(hypothesis)
    """
    check_path("folder", folder, "the path of a folder with an ONNX export")
    require("onnxruntime", "an ONNX model")
    require("onnx_asr.loader", "an ONNX model", ONNX_ASR)
    export = find_export(folder, model_type, quantization)
    model, blank = _tokens(export, blank)
    table = table_of(model, blank)
    assert table.blank is not None
    networks = export.networks
    network = read_network(networks) if networks else None
    given: dict[str, Any] = {**options}
    if network is None:
        refuse_transducer(transducer)
    else:
        given = transducer_options({"lm": lm, **options}, transducer)
        _check_context(network)
    is_tdt = network is not None and network.outputs > network.tokens
    if isinstance(preprocessor, str) and ":" in preprocessor:
        preprocessor = function_of_file("preprocessor", preprocessor)
    acoustic = open_acoustic(export, is_tdt, preprocessor, providers, sess_options)
    asr = acoustic.asr
    asr._vocab = {i: name.replace(WORD_START, " ") for i, name in enumerate(table.tokens)}
    asr._vocab_size, asr._blank_idx = len(table), table.blank
    if network is not None:
        check_pieces(model.names, network.tokens, str(export.vocabulary))
        decoder = _transducer(network, asr, table.blank, model.names, given)
        return OnnxTransducerModel(acoustic, str(export.folder), decoder)
    columns = asr._model.get_outputs()[0].shape[-1]
    if isinstance(columns, int) and columns != len(table):
        hint = f"; if the blank is the column after the last token, give blank={columns - 1}"
        raise ValueError(
            f"{export.vocabulary}: expected {columns} tokens, as many as the model's output has columns, got "
            f"{len(table)}{hint if columns - 1 == len(model.names) else ': they are those of another model'}"
        )
    given.setdefault("frame_shift", asr.window_step * asr._subsampling_factor)
    tokens: Any = export.vocabulary
    return OnnxCtcModel(acoustic, str(export.folder), ctc_decoder(tokens, lm, blank=blank, **given))


def _tokens(export: Export, blank: str | int | None) -> tuple[ModelTokens, str | int | None]:
    """The tokens of the file, and their blank: as given, or <blk> if it is there."""
    if blank is not None:
        return read_tokens(export.vocabulary, blank), blank
    model = replace(read_tokens(export.vocabulary, 0), blank=None)
    return model, BLANK if BLANK in model.names else None


def _check_context(network: Network) -> None:
    """UnsupportedError if a stateless network takes more tokens than onnx-asr gives it."""
    convolution = network.arrays.get("convolution")
    if convolution is not None and convolution.shape[2] != MOST_CONTEXT:
        raise UnsupportedError(
            f"{network.name}: expected a prediction network of {MOST_CONTEXT} tokens, as onnx-asr runs it, got one of "
            f"{convolution.shape[2]}"
        )


def _transducer(
    network: Network, asr: Any, blank: int, names: Sequence[str], given: dict[str, Any]
) -> TransducerDecoder:
    """A decoder with the weights of the files, which have been compared with them."""
    check_network(network, asr, blank)
    durations = network.outputs - network.tokens
    of_model: dict[str, Any] = {
        "blank_id": blank,
        "activation": network.activation,
        "relu": network.relu,
        "durations": range(durations) if durations else None,
        "max_symbols": asr._max_tokens_per_step,
        "frame_shift": asr.window_step * asr._subsampling_factor,
        "tokenizer": list(names),
    }
    return TransducerDecoder.from_arrays(network.arrays, **of_model | given)
