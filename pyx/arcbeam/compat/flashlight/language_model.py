"""Language models: a KenLM with the words of a dictionary, and none."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from arcbeam.compat.flashlight.dictionary import Dictionary
from arcbeam.lm.kenlm import KenLM as KenLMFile


class LMState(NamedTuple):
    """The words before the next one.

    Attributes
    ----------
    words : tuple of int
        The model's numbers of them.
    begins : bool
        Whether they begin a sentence.
    """

    words: tuple[int, ...]
    begins: bool


class ZeroLM:
    """A language model in which every word scores 0."""

    def start(self, start_with_nothing: bool) -> LMState:
        """The state before the first word."""
        return LMState((), not start_with_nothing)

    def score(self, state: LMState, usr_token_idx: int) -> tuple[LMState, float]:
        """The state after a word, and its score."""
        return state, 0.0

    def finish(self, state: LMState) -> tuple[LMState, float]:
        """The state after the end of the sentence, and its score."""
        return state, 0.0

    def numbers(self, labels: list[int]) -> npt.NDArray[np.uint32]:
        """The model's numbers of labels."""
        return np.zeros(len(labels), np.uint32)


class KenLM(ZeroLM):
    """A KenLM whose words are those of a dictionary.

    Parameters
    ----------
    path : path
        ARPA, or KenLM's binary format.
    usr_token_dict : Dictionary
        The words by label.

    Attributes
    ----------
    file : arcbeam.KenLM
        The model.

    Raises
    ------
    MissingDependencyError
        The package kenlm is missing.
    FormatError, OSError
        The file is no model, or cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str], usr_token_dict: Dictionary) -> None:
        self.file = KenLMFile(path)
        self._words = usr_token_dict

    def score(self, state: LMState, usr_token_idx: int) -> tuple[LMState, float]:
        """The state after a word, and the word's score, log10."""
        after = LMState((*state.words, *self.numbers([usr_token_idx]).tolist()), state.begins)
        return after, self._total(after, False) - self._total(state, False)

    def finish(self, state: LMState) -> tuple[LMState, float]:
        """The state itself, and the score of the sentence's end, log10."""
        return state, self._total(state, True) - self._total(state, False)

    def numbers(self, labels: list[int]) -> npt.NDArray[np.uint32]:
        """The model's numbers of labels; ValueError for a label that the dictionary lacks."""
        return self.file.indices([self._words.get_entry(label) for label in labels])

    def _total(self, state: LMState, ends: bool) -> float:
        return float(self.file.model.score(np.array(state.words, np.uint32), state.begins, ends))
