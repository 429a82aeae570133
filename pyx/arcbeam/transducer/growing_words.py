"""The words of a sentence that grows: a word is put together once, when a space of a settled token closes it.

A word lasts from the first token that adds a letter to it to the last one; a token may belong to two words.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from arcbeam.core._confidence import aggregated
from arcbeam.transducer.text import Pieces, letters
from arcbeam.words import Word

Tokens = npt.NDArray[np.int32]


class Written(NamedTuple):
    """Tokens as a `TransducerHypothesis` has them, and how their words get seconds and confidences."""

    tokens: Tokens
    frames: npt.NDArray[np.int64]
    durations: npt.NDArray[np.int32] | None
    confidence: npt.NDArray[np.float32] | None
    frame_shift: float | None
    confidence_aggregation: str
    settled: int | None = None  # as `GrowingWords.text` takes it


class _Open(NamedTuple):
    """A word to which letters may be added: UTF-8, and its first and last token; b"" if none has begun."""

    letters: bytes = b""
    first: int = 0
    last: int = 0

    def grown(self, part: bytes, at: int) -> _Open:
        return _Open(self.letters + part, self.first if self.letters else at, at) if part else self


class _Taken(NamedTuple):
    """What has been put together of the tokens up to some place: so many closed words, their text, and the open one."""

    tokens: int = 0
    closed: int = 0
    text: str = ""
    open: _Open = _Open()


class GrowingWords:
    """The words of the tokens of a sentence; a stream's results share one, and any thread may read it."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces, self._lock = pieces, threading.Lock()
        self._taken = _Taken()
        # Of closed words; what is after those of `_taken` counts for nothing.
        self._ends: list[int] = []  # of each of them in the text
        self._spans: list[tuple[int, int]] = []  # its first and last token
        self._closed_by: list[int] = []
        self._words: list[Word] = []  # those that have been read

    def num_closed(self, settled: Tokens) -> int:
        """How many words stay whatever tokens follow."""
        return self._up_to(settled)[0]

    def closed_text(self, settled: Tokens) -> str:
        """The text of the words that stay whatever tokens follow."""
        return self._text_of(self._up_to(settled)[0])

    def text(self, tokens: Tokens, settled: int | None = None) -> str:
        """The words, with a space between them; so many tokens, from the first, are never changed, None for all."""
        closed, others = self._words_of(tokens, settled)
        return " ".join(filter(None, (self._text_of(closed), *(letters(one.letters) for one in others))))

    def words(self, found: Written) -> list[Word]:
        """The words with their times, and with confidences if its tokens have them."""
        closed, others = self._words_of(found.tokens, found.settled)
        with self._lock:
            made = len(self._words)
            if made < closed:
                text, ends = self._taken.text, self._ends
                texts = [text[ends[i - 1] + 1 if i else 0 : ends[i]] for i in range(made, closed)]
                self._words += _timed(texts, self._spans[made:closed], found)
        words = self._words[:closed]
        if not others:
            return words
        return words + _timed([letters(one.letters) for one in others], [one[1:] for one in others], found)

    def _words_of(self, tokens: Tokens, settled: int | None) -> tuple[int, list[_Open]]:
        """The number of words that settled tokens close, and the words after these."""
        settled = len(tokens) if settled is None else settled
        closed, open_ = self._up_to(tokens[:settled])
        others = []
        for at, token in enumerate(tokens[settled:].tolist(), settled):
            for place, part in enumerate(self._pieces.parts[token]):
                if place and open_.letters:
                    others.append(open_)
                    open_ = _Open()
                open_ = open_.grown(part, at)
        return closed, [*others, open_] if open_.letters else others

    def _text_of(self, closed: int) -> str:
        return self._taken.text[: self._ends[closed - 1]] if closed else ""

    def _up_to(self, tokens: Tokens) -> tuple[int, _Open]:
        """The number of closed words, and the open one."""
        with self._lock:
            if len(tokens) > self._taken.tokens:
                self._take(tokens)
            taken = self._taken
            closed = bisect_left(self._closed_by, len(tokens), hi=taken.closed)
            return closed, taken.open if len(tokens) == taken.tokens else self._opened(tokens, closed)

    def _take(self, tokens: Tokens) -> None:
        """Goes on with the tokens that are new, which count once all is done: Ctrl-C leaves what was there."""
        taken, closed, text, open_ = self._taken
        parts, ends, spans, closed_by = self._pieces.parts, [], [], []
        for at, token in enumerate(tokens[taken:].tolist(), taken):
            for place, part in enumerate(parts[token]):
                if place and open_.letters:  # a space stands before this part
                    text += (" " if text else "") + letters(open_.letters)
                    ends.append(len(text))
                    spans.append((open_.first, open_.last))
                    closed_by.append(at)
                    open_ = _Open()
                open_ = open_.grown(part, at)
        self._ends[closed:] = ends
        self._spans[closed:] = spans
        self._closed_by[closed:] = closed_by
        self._taken = _Taken(len(tokens), closed + len(ends), text, open_)

    def _opened(self, tokens: Tokens, closed: int) -> _Open:
        """The open word of a result that is not the latest."""
        parts, open_, begin = self._pieces.parts, _Open(), 0
        if closed:
            begin = self._closed_by[closed - 1]
            open_ = open_.grown(parts[int(tokens[begin])][-1], begin)
            begin += 1
        for at, token in enumerate(tokens[begin:].tolist(), begin):
            for part in parts[token]:  # one of them at most is no ""
                open_ = open_.grown(part, at)
        return open_


def _timed(texts: list[str], spans: list[tuple[int, int]], found: Written) -> list[Word]:
    """Words of the tokens from the first to the last of each span."""
    first, last = np.array(spans, np.int64).T.copy()
    lasting = 1 if found.durations is None else np.maximum(found.durations[last], 1)
    begins, ends = found.frames[first].tolist(), (found.frames[last] + lasting).tolist()
    confidences: list[float | None] = [None] * len(texts)
    if found.confidence is not None:
        confidences = aggregated(found.confidence, first, last + 1, found.confidence_aggregation).tolist()
    shift = found.frame_shift
    return [
        Word(
            text, begin, end, None if shift is None else begin * shift, None if shift is None else end * shift,
            confidence,
        )
        for text, begin, end, confidence in zip(texts, begins, ends, confidences, strict=True)
    ]  # fmt: skip
