"""Tokens to text: SentencePiece models, lists of pieces, functions of the user."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from arcbeam.files.sentencepiece_file import load_model

WORD_START = "\u2581"


def detokenizer(tokenizer: Any, tokens: int) -> Callable[[Sequence[int]], str]:
    """The function that turns token ids into text.

    Parameters
    ----------
    tokenizer : path of a SentencePiece model, list of pieces by token, or function of a list of ids
    tokens : int
        Size of the vocabulary, the blank included.
    """
    if isinstance(tokenizer, (str, os.PathLike)):
        return _sentencepiece(os.fspath(tokenizer), tokens)
    if isinstance(tokenizer, Sequence) and not isinstance(tokenizer, bytes):
        pieces = list(tokenizer)
        wrong = next((piece for piece in pieces if not isinstance(piece, str)), None)
        if wrong is not None:
            raise TypeError(f"tokenizer: expected pieces that are strings, got {type(wrong).__name__}")
        if len(pieces) not in (tokens, tokens - 1):  # a blank at the end often has no piece
            raise ValueError(
                f"tokenizer: expected {tokens} pieces, or {tokens - 1} without the blank, got {len(pieces)}"
            )
        return _Pieces(pieces)
    if callable(tokenizer):
        return tokenizer
    raise TypeError(
        f"tokenizer: expected the path of a SentencePiece model, a list of pieces or a function, "
        f"got {type(tokenizer).__name__}"
    )


# These are classes, not lambdas, because hypotheses hold them and are pickled from process to process.
@dataclass(frozen=True)
class _Pieces:
    pieces: list[str]

    def __call__(self, ids: Sequence[int]) -> str:
        return join_pieces([self.pieces[i] for i in ids if i < len(self.pieces)])


@dataclass(frozen=True)
class _SentencePieces:
    model: Any
    size: int

    def __call__(self, ids: Sequence[int]) -> str:
        return str(self.model.decode([int(i) for i in ids if i < self.size]))


def join_pieces(pieces: Sequence[str]) -> str:
    """The text of SentencePiece pieces: their word starts are spaces, and runs of byte pieces are UTF-8."""
    text = b"".join(
        bytes([int(piece[3:5], 16)]) if re.fullmatch(r"<0x[0-9A-Fa-f]{2}>", piece) else piece.encode()
        for piece in pieces
    )
    return text.decode(errors="replace").replace(WORD_START, " ").strip(" ")


def _sentencepiece(path: str, tokens: int) -> Callable[[Sequence[int]], str]:
    model = load_model(path)
    size = model.get_piece_size()
    if size not in (tokens, tokens - 1):
        raise ValueError(
            f"tokenizer: expected {tokens} pieces, or {tokens - 1} without the blank, got {size} in {path}"
        )
    return _SentencePieces(model, size)
