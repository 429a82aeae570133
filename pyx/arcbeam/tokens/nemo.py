"""Tokens of CTC models of NeMo: the vocabulary in a ``.nemo`` archive, and the tokenizer that came with it."""

from __future__ import annotations

import os
from typing import Any

from arcbeam.core.errors import FormatError
from arcbeam.files.nemo_archive import ARCHIVE, CONFIG, EXPECTED, frame_shift_of, get, read_config
from arcbeam.files.reading import reading
from arcbeam.files.tar_file import read_members
from arcbeam.tokens.model_tokens import ModelTokens
from arcbeam.tokens.sentencepiece import cutter_of

MODELS = "*.model"  # SentencePiece's, in one pass with the configuration: an archive may have gigabytes
VOCABULARIES = ("aux_ctc.decoder.vocabulary", "decoder.vocabulary", "labels")


def read_nemo(path: str | os.PathLike[str]) -> ModelTokens:
    """The labels of a CTC decoder, of hybrid models, too; the blank is the column after the last of them."""
    name = os.fsdecode(path)
    content = read_members(path, (CONFIG, MODELS), ARCHIVE)
    if CONFIG not in content:
        raise FormatError(f"{name}: expected {CONFIG} in the archive, got none")
    config = read_config(content[CONFIG], f"{name}: {CONFIG}")
    labels = next((found for place in VOCABULARIES if (found := get(config, place))), None)
    if not isinstance(labels, list) or not all(type(label) is str for label in labels):
        got = "none" if labels is None else "other values"
        raise FormatError(
            f"{name}: {CONFIG}: expected the labels of a CTC decoder as {' or '.join(VOCABULARIES)}, got {got} (a "
            "transducer is for TransducerDecoder.from_nemo)"
        )
    with reading(f"{name}: {CONFIG}", EXPECTED):
        shift = frame_shift_of(config)
    cutter = None
    if get(config, "tokenizer.type") == "bpe":
        member = _member(get(config, "tokenizer.model_path"))
        model = content.get(member)
        cutter = None if model is None else cutter_of(model, f"{name}: {member}")
    return ModelTokens(tuple(labels), name, len(labels), cutter=cutter, frame_shift=shift)


def _member(place: Any) -> str:
    """The name of a file of the archive, which a configuration writes after ``nemo:``."""
    return str(place or "tokenizer.model").removeprefix("nemo:").rpartition("/")[2]
