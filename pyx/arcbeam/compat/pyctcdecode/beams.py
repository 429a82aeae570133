"""The answers of the decoder: tuples with names."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from arcbeam.compat.pyctcdecode.language_model import LanguageModel, LMState

WordFrames: TypeAlias = tuple[str, tuple[int, int]]


class OutputBeam(NamedTuple):
    """An answer of :meth:`BeamSearchDecoderCTC.decode_beams`.

    Attributes
    ----------
    text : str
    last_lm_state : LMState or None
        The language model's state after the last word, for `lm_start_state`.
    text_frames : list of (str, (int, int))
        Words with their first frame and the frame after their last.
    logit_score : float
        Natural log of the sum of the probabilities of the paths that the search has kept.
    lm_score : float
        The same with the scores of the language model and the hotwords; answers are sorted by it.
    """

    text: str
    last_lm_state: LMState | None
    text_frames: list[WordFrames]
    logit_score: float
    lm_score: float


class OutputBeamMPSafe(NamedTuple):
    """An answer of :meth:`BeamSearchDecoderCTC.decode_beams_batch`: an `OutputBeam` without the state.

    Attributes
    ----------
    text : str
    text_frames : list of (str, (int, int))
    logit_score, lm_score : float
        As those of an `OutputBeam`.
    """

    text: str
    text_frames: list[WordFrames]
    logit_score: float
    lm_score: float


def beam_of(
    model: LanguageModel | None,
    text: str,
    frames: list[tuple[int, int]],
    acoustic: float,
    score: float,
    state: bytes,
) -> OutputBeam:
    """The beam of an answer of the engine."""
    words = text.split()
    timed = list(zip(words, frames, strict=False))  # a label may have a space in it
    return OutputBeam(" ".join(words), None if model is None else model.state(state), timed, acoustic, score)
