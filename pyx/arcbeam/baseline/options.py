"""Options of the baseline's decoders, each validated here and nowhere else."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from arcbeam.core.calls import explains, lists_fields
from arcbeam.core.checks import (
    as_float,
    check_float32,
    check_frame_shift,
    check_threads,
    is_bool,
    keep_plain_values,
    shown,
)


class LexiconFreeKeywords(TypedDict, total=False):
    """Keywords of `LexiconFreeOptions`, for checks of types and for editors."""

    beam_size: int
    beam_size_token: int | None
    beam_threshold: float
    lm_weight: float
    sil_score: float
    log_add: bool
    criterion: str
    nbest: int
    frame_shift: float | None
    threads: int | None


class LexiconKeywords(LexiconFreeKeywords, total=False):
    """Keywords of `LexiconOptions`, for checks of types and for editors."""

    word_score: float
    unk_score: float
    smearing: str
    repeat_last_token: bool
    final_separator: bool


@lists_fields
@dataclass(frozen=True, kw_only=True)
class LexiconFreeOptions:
    """Options of :class:`LexiconFreeDecoder`, by Flashlight's names. Scores: larger is better.

    Parameters
    ----------
    beam_size : int
        Hypotheses kept after each frame.
    beam_size_token : int or None
        The number of best tokens of a frame that may extend hypotheses; None for all tokens.
    beam_threshold : float
        A hypothesis that scores this much less than the best is dropped; ``math.inf`` drops none.
    lm_weight : float
        Factor on the language model's log10 probabilities; 2.3 would weigh them like natural logs.
    sil_score : float
        Added in every frame that reads the silence token.
    log_add : bool
        Sum the probabilities of the paths to one hypothesis, instead of taking the best.
    criterion : str
        Only ``"ctc"``.
    nbest : int
        The most answers for each utterance.
    frame_shift : float or None
        Seconds from one frame of the log-probs to the next; needed for times in seconds only.
    threads : int or None
        CPU threads, one utterance each; None for one per usable core.
    """

    beam_size: int = 500
    beam_size_token: int | None = None
    beam_threshold: float = 50.0
    lm_weight: float = 2.0
    sil_score: float = 0.0
    log_add: bool = False
    criterion: str = "ctc"
    nbest: int = 1
    frame_shift: float | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        self._check()
        keep_plain_values(self)

    def _check(self) -> None:
        for name in ("beam_size", "nbest"):
            _whole(name, getattr(self, name))
        if self.beam_size_token is not None:
            _whole("beam_size_token", self.beam_size_token)
        if self.threads is not None:
            check_threads(self.threads)
        _number("beam_threshold", self.beam_threshold, "of at least 0", lowest=0.0, infinite=math.inf)
        _number("lm_weight", self.lm_weight, "of at least 0", lowest=0.0)
        _number("sil_score", self.sil_score, "that is finite")
        check_frame_shift(self.frame_shift)
        _one_of("criterion", self.criterion, ("ctc",))
        _flag("log_add", self.log_add)


@lists_fields
@explains(LexiconFreeOptions)
@dataclass(frozen=True, kw_only=True)
class LexiconOptions(LexiconFreeOptions):
    """Options of :class:`LexiconDecoder`: those of :class:`LexiconFreeOptions`, and some for words.

    Parameters
    ----------
    word_score : float
        Added for every word.
    unk_score : float
        Added for every word that the lexicon does not have; ``-math.inf`` allows none.
    smearing : str
        The score that a word in progress already has: ``"max"``, that of the best word below its trie node;
        ``"logadd"``, their sum; ``"none"``, 0. The scores are the language model's at the beginning of a sentence.
    repeat_last_token : bool
        CTC's rule for the last token of a word: it may last several frames, and follows an equal token only after a
        blank. False does as Flashlight, where neither is so.
    final_separator : bool
        Whether the separator that ends a spelling has to be read after the last word, too, as in Flashlight. The
        separator is the lexicon's, or else the silence token.
    **options
        Those of :class:`LexiconFreeOptions`, by keyword.
    """

    word_score: float = 0.0
    unk_score: float = -math.inf
    smearing: str = "max"
    repeat_last_token: bool = False
    final_separator: bool = True

    def _check(self) -> None:
        super()._check()
        _number("word_score", self.word_score, "that is finite")
        _number("unk_score", self.unk_score, "below infinity", infinite=-math.inf)
        _one_of("smearing", self.smearing, ("none", "max", "logadd"))
        _flag("repeat_last_token", self.repeat_last_token)
        _flag("final_separator", self.final_separator)


def _whole(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name}: expected a whole number of at least 1, got {type(value).__name__}")
    if not 1 <= int(value) < 2**31:
        raise ValueError(f"{name}: expected a whole number of at least 1, got {shown(value)}")


def _number(name: str, value: object, rule: str, *, lowest: float = -math.inf, infinite: float | None = None) -> None:
    number = as_float(name, value, rule)
    if not number >= lowest or (math.isinf(number) and number != infinite):  # NaN compares false
        raise ValueError(f"{name}: expected a number {rule}, got {value!r}")
    if math.isfinite(number) and infinite != math.inf:
        check_float32(name, number)


def _one_of(name: str, value: object, known: Sequence[str]) -> None:
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name}: expected one of {', '.join(known)}, got {value!r}")


def _flag(name: str, value: object) -> None:
    if not is_bool(value):
        raise TypeError(f"{name}: expected True or False, got {type(value).__name__}")
