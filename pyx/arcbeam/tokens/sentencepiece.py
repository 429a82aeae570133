"""Tokens of SentencePiece models, which the package sentencepiece reads."""

from __future__ import annotations

import os
from typing import Any

from arcbeam.files.lines import read_text
from arcbeam.files.reading import reading
from arcbeam.files.sentencepiece_file import EXPECTED, model_of
from arcbeam.tokens.model_tokens import Cutter, ModelTokens, digest_of


def read_sentencepiece(path: str | os.PathLike[str]) -> ModelTokens:
    """The pieces of a ``.model`` file, by their ids."""
    return pieces_of(read_text(path), os.fsdecode(path))


def pieces_of(content: bytes, name: str) -> ModelTokens:
    """The pieces of a serialised model, by their ids."""
    model = model_of(content, name)
    names = tuple(model.id_to_piece(i) for i in range(model.get_piece_size()))
    return ModelTokens(names, name, cutter=cutter_of(content, name, model))


def cutter_of(content: bytes, name: str, model: Any = None) -> Cutter:
    """The cutter of a serialised model, which is read at the first word unless it is given."""
    models = [] if model is None else [model]

    def cut(word: str) -> list[str]:
        if not models:
            models.append(model_of(content, name))
        with reading(name, EXPECTED):
            pieces: list[str] = models[0].EncodeAsPieces(word)
            return pieces

    return Cutter(cut, digest_of(content))
