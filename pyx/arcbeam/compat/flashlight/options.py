"""Options of the decoders, by position or by name as in flashlight-text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from arcbeam.core.calls import explains


class CriterionType(Enum):
    """The criterion of the acoustic model.

    Attributes
    ----------
    ASG, S2S : CriterionType
        The decoders refuse these.
    CTC : CriterionType
    """

    ASG = 0
    CTC = 1
    S2S = 2


class SmearingMode(Enum):
    """The score that a word in progress already has.

    Attributes
    ----------
    NONE : SmearingMode
        No score.
    MAX : SmearingMode
        That of the best word that begins so.
    LOGADD : SmearingMode
        That of all words that begin so together.
    """

    NONE = 0
    MAX = 1
    LOGADD = 2


@dataclass
class LexiconFreeDecoderOptions:
    """Options of :class:`LexiconFreeDecoder`. Scores: larger is better.

    Parameters
    ----------
    beam_size : int
        Hypotheses kept after each frame, and the most that are returned.
    beam_size_token : int
        The number of best tokens of a frame that may extend hypotheses.
    beam_threshold : float
        A hypothesis that scores this much less than the best is dropped.
    lm_weight : float
        Factor on the language model's log10 probabilities.
    sil_score : float
        Added in every frame that reads the silence token.
    log_add : bool
        Sum the probabilities of the paths to one hypothesis, instead of taking the best.
    criterion_type : CriterionType
        Only ``CriterionType.CTC``.
    """

    beam_size: int
    beam_size_token: int
    beam_threshold: float
    lm_weight: float
    sil_score: float
    log_add: bool
    criterion_type: CriterionType


@explains(LexiconFreeDecoderOptions)
@dataclass
class LexiconDecoderOptions:
    """Options of :class:`LexiconDecoder`: those of :class:`LexiconFreeDecoderOptions`, and two for words.

    Parameters
    ----------
    word_score : float
        Added for every word.
    unk_score : float
        Added for every word that the trie does not have; ``-math.inf`` allows none.
    **options
        Those of :class:`LexiconFreeDecoderOptions`.
    """

    beam_size: int
    beam_size_token: int
    beam_threshold: float
    lm_weight: float
    word_score: float
    unk_score: float
    sil_score: float
    log_add: bool
    criterion_type: CriterionType
