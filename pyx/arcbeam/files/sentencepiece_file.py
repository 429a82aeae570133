"""SentencePiece models, which the package sentencepiece reads."""

from __future__ import annotations

import os
from typing import Any

from arcbeam.core.packages import require
from arcbeam.files.reading import check_is_file, reading


def load_model(path: str | os.PathLike[str]) -> Any:
    """A ``SentencePieceProcessor`` whose pieces are all text."""
    check_is_file(path)
    sentencepiece = require("sentencepiece", "a SentencePiece model")
    with reading(path, "a SentencePiece model"):
        model = sentencepiece.SentencePieceProcessor(model_file=os.fspath(path))
        for i in range(model.get_piece_size()):
            model.id_to_piece(i)  # fails if a piece is not UTF-8
    return model
