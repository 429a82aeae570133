"""Tokens to text: SentencePiece models, lists of pieces, functions of the user."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from arcbeam.core.checks import check_text
from arcbeam.core.warn import warn
from arcbeam.files.sentencepiece_file import load_model

WORD_START = "\u2581"
OTHER_SHARE = 0.1  # of a model's pieces, which a tokenizer may name otherwise, such as <unk>


def detokenizer(tokenizer: Any, tokens: int, blank: int | None = None) -> Callable[[Sequence[int]], str]:
    """The function from token ids to text: `Pieces` if known; `tokens`: size of the vocabulary with the blank.

    Without `blank` that is the last token.
    """
    if isinstance(tokenizer, (str, os.PathLike)):
        return _sentencepiece(os.fspath(tokenizer), tokens, blank)
    if isinstance(tokenizer, Sequence) and not isinstance(tokenizer, bytes):
        pieces = list(tokenizer)
        wrong = next((piece for piece in pieces if not isinstance(piece, str)), None)
        if wrong is not None:
            raise TypeError(f"tokenizer: expected pieces that are strings, got {type(wrong).__name__}")
        _check_count(len(pieces), tokens, blank)
        for piece in pieces:
            check_text("tokenizer", piece)
        names = tuple(piece.replace(" ", WORD_START) for piece in pieces)
        return Pieces(tuple(map(_surface, pieces)), tokens, names, tuple(pieces))
    if callable(tokenizer):
        return tokenizer
    raise TypeError(
        f"tokenizer: expected the path of a SentencePiece model, a list of pieces or a function, "
        f"got {type(tokenizer).__name__}"
    )


def warn_of_other_pieces(name: str, own: Sequence[str], tokenizer: Any) -> None:
    """Warns if a tokenizer that takes the place of a model's own pieces has others; of a function nothing is known."""
    if isinstance(tokenizer, (str, os.PathLike)):
        model = load_model(os.fspath(tokenizer))
        given = [model.id_to_piece(token) for token in range(model.get_piece_size())]
    elif isinstance(tokenizer, Sequence):
        given = list(tokenizer)
    else:
        return
    others = [at for at, (piece, other) in enumerate(zip(own, given, strict=False)) if piece != other]
    if len(others) > OTHER_SHARE * min(len(own), len(given)):
        at = others[0]
        warn(
            f"tokenizer: {len(others):,} of {len(own):,} pieces differ from those of {name}, such as token {at}, which "
            f"is {given[at]!r} in place of {own[at]!r}: is it the tokenizer of this model? Without one its own "
            "pieces are used"
        )


# A class, not a lambda, because decoders are pickled from process to process.
@dataclass(frozen=True)
class Pieces:
    """What each token adds to a text; a token after `surfaces`, the blank, adds nothing."""

    surfaces: tuple[bytes, ...]  # UTF-8, or a part of a character; words are apart by spaces
    tokens: int
    names: tuple[str, ...]  # with SentencePiece's mark where a word begins; "" for one that adds nothing
    pieces: tuple[str, ...] | None = None  # if given as a list

    @cached_property
    def parts(self) -> list[list[bytes]]:
        """What each token adds, cut at its spaces: to the word before, and at the beginnings of new ones."""
        nothing = (b"",) * (self.tokens - len(self.surfaces))
        return [surface.split(b" ") for surface in (*self.surfaces, *nothing)]

    def __call__(self, ids: Iterable[int]) -> str:
        """The text of some tokens: words with a space between them."""
        size = len(self.surfaces)
        text = letters(b"".join([self.surfaces[i] for i in ids if i < size]))
        return " ".join(filter(None, text.split(" ")))


def letters(text: bytes) -> str:
    """The text of UTF-8; of bytes that are no character, what Unicode has for them."""
    return text.decode(errors="replace")


def _surface(piece: str) -> bytes:
    """Of a piece with SentencePiece's mark of a word's start, or of the piece of a byte."""
    if re.fullmatch(r"<0x[0-9A-Fa-f]{2}>", piece):
        return bytes([int(piece[3:5], 16)])
    return piece.replace(WORD_START, " ").encode()


def _sentencepiece(path: str, tokens: int, blank: int | None) -> Pieces:
    model = load_model(path)
    _check_count(model.get_piece_size(), tokens, blank, f" in {path}")
    surfaces = tuple(_surface_in(model, i) for i in range(model.get_piece_size()))
    names = tuple(_name_in(model, i) if surface else "" for i, surface in enumerate(surfaces))
    return Pieces(surfaces, tokens, names)


def _name_in(model: Any, token: int) -> str:
    if model.is_unknown(token):
        return WORD_START + str(model.decode([token])).strip()
    return str(model.id_to_piece(token))


def _surface_in(model: Any, token: int) -> bytes:
    if model.is_control(token):
        return b""
    return str(model.decode([token])).encode() if model.is_unknown(token) else _surface(model.id_to_piece(token))


def _check_count(count: int, tokens: int, blank: int | None, where: str = "") -> None:
    if count not in (tokens, tokens - 1):  # a blank at the end often has no piece
        raise ValueError(f"tokenizer: expected {tokens} pieces, or {tokens - 1} without the blank, got {count}{where}")
    if count < tokens and blank not in (None, tokens - 1):
        warn(
            f"tokenizer: expected {tokens} pieces, because the blank, token {blank}, is not the last, got "
            f"{count}{where}: token {tokens - 1} has no text; if the pieces lack the blank, put one in its place"
        )
