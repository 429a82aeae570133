"""The labels of a model's columns, by pyctcdecode's rules."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from arcbeam.core.errors import FormatError
from arcbeam.core.warn import warn

MARK = "▁"  # begins the pieces that begin words
BLANK = re.compile(r"[<\[]pad[>\]]", re.IGNORECASE)
UNKNOWN = re.compile(r"[<\[]unk[>\]]", re.IGNORECASE)
SPECIAL = re.compile(r"[<\[].+[>\]]")
UNKNOWN_LETTER, UNKNOWN_PIECE = "⁇", "▁⁇▁"
MOST_UNCOVERED = 0.2  # share of the letters of words that labels may lack without a warning

Symbol = tuple[int, str, bytes, bytes, bool]


class Alphabet:
    """The labels of the columns of logits, after pyctcdecode's rules: ``""`` is the blank, ``" "`` ends words.

    Parameters
    ----------
    labels : sequence of str
        As :meth:`build_alphabet` returns them.
    is_bpe : bool
        Whether they are pieces, of which ``▁`` begins words; otherwise they are letters, and ``" "`` ends words.
    """

    def __init__(self, labels: Sequence[str], is_bpe: bool) -> None:
        self._labels, self._is_bpe = list(labels), is_bpe

    @property
    def labels(self) -> list[str]:
        """A copy of the labels."""
        return list(self._labels)

    @property
    def is_bpe(self) -> bool:
        """Whether the labels are pieces of words."""
        return self._is_bpe

    @classmethod
    def build_alphabet(cls, labels: Sequence[str]) -> Alphabet:
        """Puts the labels of a model into the form of the decoder.

        Labels are pieces if one begins with ``##`` or ``▁``. ``[PAD]`` and ``<pad>`` in any case are the blank; of
        letters, ``_`` is the blank and ``|`` the space if no label is that already. Without a blank, one is added as
        the last column.

        Parameters
        ----------
        labels : sequence of str
            One a column of the logits.

        Raises
        ------
        TypeError
            It is no sequence of str.
        ValueError
            A label occurs twice, or pieces have a space in them.
        """
        if isinstance(labels, (str, bytes, Mapping, set, frozenset)) or not isinstance(labels, Iterable):
            hint = "; write sorted(labels, key=labels.get)" if isinstance(labels, Mapping) else ""
            raise TypeError(f"labels: expected a list of str, one for each column, got {type(labels).__name__}{hint}")
        given = list(labels)
        for label in given:
            if not isinstance(label, str):
                raise TypeError(f"labels: expected str, got {type(label).__name__} ({label!r})")
        if len(set(given)) < len(given):
            twice = next(label for i, label in enumerate(given) if label in given[:i])
            raise ValueError(f"labels: expected each label once, got {twice!r} twice")
        is_bpe = any(label.startswith(("##", MARK)) for label in given)
        if is_bpe and (spaced := [label for label in given if " " in label]):
            raise ValueError(
                f"labels: expected pieces without spaces, because some begin with ## or ▁, got {spaced[0]!r}"
            )
        return cls(_pieces(given) if is_bpe else _letters(given), is_bpe)

    def dumps(self) -> str:
        """The alphabet as JSON, for :meth:`loads`."""
        return json.dumps({"labels": self._labels, "is_bpe": self._is_bpe})

    @classmethod
    def loads(cls, s: str) -> Alphabet:
        """An alphabet from JSON.

        Raises
        ------
        FormatError
            It is not an object of ``labels`` and ``is_bpe``; FormatError is a ValueError.
        """
        try:
            found: Any = json.loads(s)
        except ValueError as error:
            raise FormatError(f"alphabet: expected JSON, got {error}") from None
        keys = sorted(found) if isinstance(found, dict) else type(found).__name__
        if keys != ["is_bpe", "labels"]:
            raise FormatError(f"alphabet: expected the keys is_bpe and labels, got {keys}")
        labels = found["labels"]
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            raise FormatError("alphabet: expected labels as a list of str, got others")
        return cls(labels, bool(found["is_bpe"]))

    def __repr__(self) -> str:
        return f"Alphabet of {len(self._labels)} {'pieces' if self._is_bpe else 'letters'}"

    def symbols(self) -> list[Symbol]:
        """The labels as the engine takes them; columns with one label have one number."""
        first: dict[str, int] = {}
        return [(first.setdefault(label, i), *self._symbol(label)) for i, label in enumerate(self._labels)]

    def _symbol(self, label: str) -> tuple[str, bytes, bytes, bool]:
        """Kind, the text that it appends to a word, that with which it begins one, and whether it ends that one."""
        ends = self._is_bpe and label.endswith(MARK) and label != MARK
        starts = self._is_bpe and label.startswith(MARK)
        fresh = label[starts:].removesuffix(MARK) if ends else label[starts:]
        kind = "blank" if not label else "start" if starts else "inside"
        if label == " " and not self._is_bpe:
            kind = "space"
        return kind, label.encode(), fresh.encode(), ends


def check_coverage(alphabet: Alphabet, words: Collection[str]) -> None:
    """Warns if labels lack more than a fifth of the letters of words, which then cannot be found."""
    letters, covered = set("".join(words)), set("".join(alphabet.labels))
    missing = sorted(letters - covered)
    if len(missing) <= MOST_UNCOVERED * len(letters):
        return
    hint = ""
    for case, written in (("lower", str.lower), ("upper", str.upper)):
        if 2 * sum(written(letter) in covered for letter in missing) > len(missing):
            hint = f"; they have them in {case} case: write the words and the language model in that case"
    some = ", ".join(map(repr, missing[:5])) + ", ..." * (len(missing) > 5)
    warn(f"unigrams: the labels lack {len(missing):,} of their {len(letters):,} letters ({some}){hint}")


def _letters(labels: list[str]) -> list[str]:
    found = ["" if BLANK.fullmatch(label) else label for label in labels]
    for name, meaning in (("|", " "), ("_", "")):
        if name in found and meaning not in found:
            found[found.index(name)] = meaning
    if " " not in found:
        warn("labels: expected a label ' ' or '|' that ends words, got none: each utterance is one word")
    return _with_blank([UNKNOWN_LETTER if UNKNOWN.fullmatch(label) else label for label in found])


def _pieces(labels: list[str]) -> list[str]:
    if any(label.startswith("##") for label in labels):
        labels = [_with_mark(label) for label in labels]
    found = ["" if BLANK.fullmatch(label) else label for label in labels]
    return _with_blank([UNKNOWN_PIECE if UNKNOWN.fullmatch(label) else label for label in found])


def _with_mark(piece: str) -> str:
    """A piece of the style in which ## marks those that continue a word, in the style in which ▁ begins one."""
    if piece.startswith("##"):
        return piece[2:]
    return piece if SPECIAL.fullmatch(piece) or piece in ("", MARK, UNKNOWN_PIECE) else MARK + piece


def _with_blank(labels: list[str]) -> list[str]:
    return labels if "" in labels else [*labels, ""]
