"""SentencePiece models, which the package sentencepiece reads."""

from __future__ import annotations

import os
from typing import Any

from arcbeam.core.errors import FormatError
from arcbeam.core.packages import require
from arcbeam.files.kinds import kind_of, known_kind
from arcbeam.files.lines import read_text
from arcbeam.files.reading import check_is_file

EXPECTED = "a SentencePiece model"


def load_model(path: str | os.PathLike[str]) -> Any:
    """A ``SentencePieceProcessor`` whose pieces are all text."""
    check_is_file(path)
    return model_of(read_text(path), os.fsdecode(path))


def model_of(content: bytes, name: str) -> Any:
    """The same, of a serialised model; messages call it `name`."""
    sentencepiece = require("sentencepiece", EXPECTED)
    try:
        if not content:  # which the package takes for no model yet
            raise ValueError("no bytes")
        model = sentencepiece.SentencePieceProcessor(model_proto=content)
        for i in range(model.get_piece_size()):
            model.id_to_piece(i)  # fails if a piece is not UTF-8
    except (RuntimeError, ValueError) as error:  # whose texts name lines of the library's source
        got = known_kind(content[:512]) or "one that is damaged or cut short, or another file"
        raise FormatError(f"{name}: expected {EXPECTED}, got {got if content else kind_of(content)}") from error
    return model
