"""Options of the decoders, by position or by name as in flashlight-text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class CriterionType(Enum):
    """The criterion of the acoustic model; the decoders take CTC only."""

    ASG = 0
    CTC = 1
    S2S = 2


class SmearingMode(Enum):
    """The score that a word in progress already has: none, that of the best word that begins so, or their sum."""

    NONE = 0
    MAX = 1
    LOGADD = 2


@dataclass
class LexiconFreeDecoderOptions:
    """Options of :class:`LexiconFreeDecoder`; they mean what those of `baseline.LexiconFreeOptions` mean."""

    beam_size: int
    beam_size_token: int
    beam_threshold: float
    lm_weight: float
    sil_score: float
    log_add: bool
    criterion_type: CriterionType


@dataclass
class LexiconDecoderOptions:
    """Options of :class:`LexiconDecoder`; they mean what those of `baseline.LexiconOptions` mean."""

    beam_size: int
    beam_size_token: int
    beam_threshold: float
    lm_weight: float
    word_score: float
    unk_score: float
    sil_score: float
    log_add: bool
    criterion_type: CriterionType
