"""Tokens of CTC models of NeMo: the vocabulary of an archive or a model object, and the tokenizer that came with it."""

from __future__ import annotations

import os
from typing import Any

from arcbeam.core.errors import FormatError, UnsupportedError
from arcbeam.files.nemo_archive import ARCHIVE, CONFIG, EXPECTED, config_in, frame_shift_of, get
from arcbeam.files.reading import reading
from arcbeam.files.tar_file import read_members
from arcbeam.tokens.model_tokens import Cutter, ModelTokens
from arcbeam.tokens.sentencepiece import cutter_of

MODELS = "*.model"  # SentencePiece's, in one pass with the configuration: an archive may have gigabytes
VOCABULARIES = ("aux_ctc.decoder.vocabulary", "decoder.vocabulary", "labels")
CLASSES = ("aux_ctc.decoder.num_classes", "decoder.num_classes")  # the columns but the blank's


def read_nemo(path: str | os.PathLike[str]) -> ModelTokens:
    """The labels of a CTC decoder, of hybrid models, too; the blank is the column after the last of them."""
    name = os.fsdecode(path)
    content = read_members(path, (CONFIG, MODELS), ARCHIVE)
    config = config_in(content, name)
    labels = next((found for place in VOCABULARIES if (found := get(config, place))), None)
    if not isinstance(labels, list) or not all(type(label) is str for label in labels):
        got = "none" if labels is None else "other values"
        raise FormatError(
            f"{name}: {CONFIG}: expected the labels of a CTC decoder as {' or '.join(VOCABULARIES)}, got {got} (a "
            "transducer is for TransducerDecoder.from_nemo)"
        )
    classes = next((found for place in CLASSES if (found := get(config, place))), None)
    if type(classes) is int and 0 < classes != len(labels):
        raise FormatError(
            f"{name}: {CONFIG}: expected {classes} labels, as many as num_classes of the CTC decoder, got {len(labels)}"
        )
    with reading(f"{name}: {CONFIG}", EXPECTED):
        shift = frame_shift_of(config)
    cutter = None
    if get(config, "tokenizer.type") == "bpe":
        member = _member(get(config, "tokenizer.model_path"))
        model = content.get(member)
        cutter = None if model is None else cutter_of(model, f"{name}: {member}")
    return _tokens(tuple(labels), name, cutter, shift)


def of_model(model: Any) -> ModelTokens:
    """The same of a model object of NeMo, whose vocabulary is that of its CTC decoder."""
    name, head = type(model).__name__, ctc_head(model)
    labels, columns = tuple(head.vocabulary), getattr(head, "num_classes_with_blank", None)
    if columns is not None and columns != len(labels) + 1:
        raise ValueError(
            f"{name}: expected {columns - 1} labels in the vocabulary of the CTC decoder, as many as it has columns "
            f"without the blank, got {len(labels)}"
        )
    factor, stride = getattr(model.encoder, "subsampling_factor", None), get(model.cfg, "preprocessor.window_stride")
    shift = frame_shift_of(model.cfg) if factor is None or stride is None else float(stride * factor)
    return _tokens(labels, name, _cutter_of(model, name), shift)


def _tokens(labels: tuple[str, ...], name: str, cutter: Cutter | None, shift: float | None) -> ModelTokens:
    """The tokens, the blank last; UnsupportedError for an aggregate tokenizer, whose languages share pieces."""
    if len({*labels}) < len(labels):
        twice = next(label for i, label in enumerate(labels) if label in labels[:i])
        raise UnsupportedError(
            f"{name}: expected a vocabulary of distinct labels, got {twice!r} twice, as where each of several "
            "languages has a tokenizer of its own"
        )
    return ModelTokens(labels, name, len(labels), cutter=cutter, frame_shift=shift)


def ctc_head(model: Any) -> Any:
    """The CTC decoder of a model object, of a hybrid, too; UnsupportedError if there is none."""
    for place in ("ctc_decoder", "decoder"):
        head = getattr(model, place, None)
        if getattr(head, "vocabulary", None):
            return head
    raise UnsupportedError(
        f"model: expected a model with a CTC decoder, which has a vocabulary, got {type(model).__name__}; for an RNN-T "
        "or TDT use TransducerDecoder.from_nemo"
    )


def _cutter_of(model: Any, name: str) -> Cutter | None:
    """The cutter of a model's SentencePiece tokenizer, if it has one."""
    pieces: Any = getattr(getattr(model, "tokenizer", None), "tokenizer", None)
    if not hasattr(pieces, "serialized_model_proto"):
        return None
    return cutter_of(pieces.serialized_model_proto(), f"{name}.tokenizer", pieces)


def _member(place: Any) -> str:
    """The name of a file of the archive, which a configuration writes after ``nemo:``."""
    return str(place or "tokenizer.model").removeprefix("nemo:").rpartition("/")[2]
