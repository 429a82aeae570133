"""Phrases to tokens: by SentencePiece, pieces or functions of the user; and other segmentations, drawn at random."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from arcbeam.core.pieces import stuck_at
from arcbeam.core.show import shortened
from arcbeam.files.sentencepiece_file import load_model
from arcbeam.transducer.text import WORD_START

PhraseTokenizer: TypeAlias = str | os.PathLike[str] | Sequence[str] | Callable[[str], Sequence[int]]

TRIES = 5  # for each segmentation, as in NeMo


class TokensOf:
    """Text to tokens; `size` and `model` are None if the tokenizer does not have them."""

    def __init__(self, tokenizer: PhraseTokenizer) -> None:
        self.size: int | None = None
        self.model: Any = None
        self._unknown: int | None = None
        self._function: Callable[[str], Sequence[int]]
        if isinstance(tokenizer, (str, os.PathLike)):
            self.model = load_model(tokenizer)
            self.size = int(self.model.get_piece_size())
            self._unknown = int(self.model.unk_id())
            self._function = self.model.encode
        elif isinstance(tokenizer, Sequence) and not isinstance(tokenizer, bytes):
            self.size = len(tokenizer)
            self._function = _fewest_pieces(tokenizer)
        elif callable(tokenizer):
            self._function = tokenizer
        else:
            raise TypeError(
                "tokenizer: expected the path of a SentencePiece model, a list of pieces or a function from text to "
                f"tokens, got {type(tokenizer).__name__}"
            )

    def __call__(self, phrase: str) -> tuple[int, ...]:
        """The tokens of a phrase. Raises ValueError if the tokenizer does not know its characters."""
        try:
            return self._known(phrase)
        except _UnknownError as error:
            cased = next((one for one in (phrase.lower(), phrase.upper()) if one != phrase and self._knows(one)), None)
            raise ValueError(
                f"phrase {shortened(phrase)} has characters that the tokenizer does not know: {error}"
                + (f"; it knows {shortened(cased)}" if cased else "")
            ) from None

    def _known(self, phrase: str) -> tuple[int, ...]:
        found = tuple(self._function(phrase))
        if self._unknown in found:
            surfaces = zip(found, self.model.encode(phrase, out_type=str), strict=True)
            unknown = (surface.removeprefix(WORD_START) for token, surface in surfaces if token == self._unknown)
            raise _UnknownError(", ".join(map(repr, dict.fromkeys(unknown))))
        return found

    def _knows(self, phrase: str) -> bool:
        try:
            return bool(self._known(phrase))
        except _UnknownError:
            return False


class _UnknownError(Exception):
    """Characters that a tokenizer lacks."""


def _fewest_pieces(pieces: Sequence[str]) -> Callable[[str], Sequence[int]]:
    """Segments text into the fewest pieces, of equally many the longest first."""
    tokens: dict[str, int] = {}
    for token, piece in enumerate(pieces):
        if not isinstance(piece, str):
            raise TypeError(f"tokenizer: expected pieces that are strings, got {type(piece).__name__}")
        tokens.setdefault(piece, token)
    longest = max(map(len, tokens), default=0)

    def segment(phrase: str) -> list[int]:
        text = WORD_START + WORD_START.join(phrase.split())
        # From the end: the number of pieces from here on, and minus the length of the first.
        best: list[tuple[int, int]] = [(0, 0)] * (len(text) + 1)
        for at in reversed(range(len(text))):
            found = [
                (best[at + n][0] + 1, -n)
                for n in range(1, min(longest, len(text) - at) + 1)
                if text[at : at + n] in tokens and (at + n == len(text) or best[at + n][1])
            ]
            best[at] = min(found, default=(0, 0))
        at, result = 0, []
        while at < len(text):
            length = -best[at][1]
            if not length:
                raise _UnknownError(repr(stuck_at(text, tokens, longest, WORD_START)))
            result.append(tokens[text[at : at + length]])
            at += length
        return result

    return segment


class Sampler:
    """Draws segmentations as SentencePiece samples them, but the same in any process."""

    # Unigram model: by the probability of the pieces to the power of `alpha` (Kudo 2018, section 3.2). BPE model: each
    # merge is left out with the probability `alpha` (Provilkov et al. 2020, BPE-Dropout).

    def __init__(self, model: Any, alpha: float, seed: int) -> None:
        self._model, self._alpha, self._seed = model, alpha, seed
        ids = range(model.get_piece_size())
        usable = [i for i in ids if not (model.is_unknown(i) or model.is_control(i) or model.is_byte(i))]
        self._tokens = {model.id_to_piece(i): i for i in usable}
        self._scores = {model.id_to_piece(i): float(model.get_score(i)) for i in usable}
        self._longest = max(map(len, self._tokens), default=0)
        self._merges = all(score == int(score) for score in self._scores.values())  # of BPE they are ranks

    def alternatives(self, phrase: str, tokens: tuple[int, ...], most: int) -> list[tuple[int, ...]]:
        """Up to `most` - 1 others of a phrase, chosen as NeMo chooses: none begins with a bare word start."""
        text = "".join(self._model.id_to_piece(token) for token in tokens)
        draws = self._draws(text, random.Random(f"{self._seed} {phrase}"))
        seen: dict[tuple[int, ...], None] = {}
        for _ in range(TRIES * most):
            drawn = next(draws, None)
            if drawn is None or len(seen) + 1 >= most:
                break
            if drawn[0] != WORD_START:
                seen[tuple(self._tokens[piece] for piece in drawn)] = None
        seen.pop(tokens, None)
        return list(seen)

    def _draws(self, text: str, source: random.Random) -> Iterator[list[str]]:
        if self._merges:
            while True:
                yield self._merged(text, source)
        logs = self._logs(text)
        while logs[0] > -math.inf:  # else it has pieces of bytes
            yield self._walked(text, logs, source)

    def _pieces_at(self, text: str, at: int) -> list[str]:
        found = (text[at : at + n] for n in range(1, min(self._longest, len(text) - at) + 1))
        return [piece for piece in found if piece in self._scores]

    def _logs(self, text: str) -> list[float]:
        """The log of the sum over all segmentations of what follows each place."""
        logs = [-math.inf] * len(text) + [0.0]
        for at in reversed(range(len(text))):
            terms = [self._alpha * self._scores[p] + logs[at + len(p)] for p in self._pieces_at(text, at)]
            largest = max(terms, default=-math.inf)
            if largest > -math.inf:
                logs[at] = largest + math.log(math.fsum(math.exp(term - largest) for term in terms))
        return logs

    def _walked(self, text: str, logs: list[float], source: random.Random) -> list[str]:
        at, result = 0, []
        while at < len(text):
            left = source.random()
            for piece in [p for p in self._pieces_at(text, at) if logs[at + len(p)] > -math.inf]:
                left -= math.exp(self._alpha * self._scores[piece] + logs[at + len(piece)] - logs[at])
                if left < 0.0:
                    break  # else rounding has left something: it is the last one's
            result.append(piece)
            at += len(piece)
        return result

    def _merged(self, text: str, source: random.Random) -> list[str]:
        symbols = list(text)
        places = list(range(len(text)))  # where each symbol begins
        dropped: set[tuple[int, int, int]] = set()
        while True:
            pairs = []
            for i in range(len(symbols) - 1):
                piece = symbols[i] + symbols[i + 1]
                key = (places[i], places[i + 1], len(piece))
                if piece in self._scores and key not in dropped:
                    pairs.append((-self._scores[piece], i, key))
            if not pairs:
                return symbols
            _, i, key = min(pairs)
            if source.random() < self._alpha:
                dropped.add(key)
                continue
            symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]
            del places[i + 1]
