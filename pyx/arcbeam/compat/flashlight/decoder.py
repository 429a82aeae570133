"""The decoders: flashlight-text's calls on the engine of the baseline."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from arcbeam.baseline._baseline import BaselineEngine
from arcbeam.baseline.base import COLLECT_ABOVE, NO_TOKEN
from arcbeam.baseline.options import LexiconFreeOptions, LexiconOptions
from arcbeam.compat.flashlight.language_model import KenLM, ZeroLM
from arcbeam.compat.flashlight.options import CriterionType, LexiconDecoderOptions, LexiconFreeDecoderOptions
from arcbeam.compat.flashlight.trie import Trie
from arcbeam.core.errors import InputError
from arcbeam.core.warn import warn

NOTHING = -1  # in place of a word
SHARED = ("beam_size", "beam_size_token", "beam_threshold", "lm_weight", "sil_score", "log_add")


@dataclass
class DecodeResult:
    """An answer.

    Attributes
    ----------
    score : float
        What the search maximises.
    emittingModelScore, lmScore : float
        Sum of the emissions; sum of the language model's scores, without their weight.
    words : list of int
        For each timestep the label of the word that is complete there, or -1; frame t is timestep t + 1.
    tokens : list of int
        The column of each timestep; the first and the last are silence.
    """

    score: float
    emittingModelScore: float
    lmScore: float
    words: list[int]
    tokens: list[int]


class _Decoder:
    """What both decoders share: one utterance a call, by the address of its values."""

    def __init__(
        self,
        options: LexiconDecoderOptions | LexiconFreeDecoderOptions,
        lm: ZeroLM,
        sil_token_idx: int,
        blank_token_idx: int,
        transitions: Sequence[float],
        trie: Trie | None,
        unknown: int,
    ) -> None:
        if not isinstance(lm, ZeroLM):
            raise TypeError(
                f"lm: expected a KenLM or a ZeroLM of arcbeam.compat.flashlight, got {type(lm).__name__}; language "
                "models of your own are not supported"
            )
        if options.criterion_type is not CriterionType.CTC or len(transitions):
            got = f"{options.criterion_type} and {len(transitions)} transitions"
            raise ValueError(f"criterion_type: expected CriterionType.CTC and no transitions, got {got}")
        shared: dict[str, Any] = {name: getattr(options, name) for name in SHARED}
        shared |= {"nbest": options.beam_size, "threads": 1}
        self._options = LexiconFreeOptions(**shared)
        if trie is not None and isinstance(options, LexiconDecoderOptions):
            shared |= {"word_score": options.word_score, "unk_score": options.unk_score}
            self._options = LexiconOptions(**shared, smearing=trie.smearing.name.lower())
        self._lm, self._silence, self._blank = lm, int(sil_token_idx), int(blank_token_idx)
        self._trie = trie
        if trie is not None and trie.root_idx == self._blank != self._silence:
            warn(
                f"sil_token_idx: expected {trie.root_idx}, the silence with which the trie was made, got "
                f"{self._silence}, and {self._blank} as blank_token_idx; are they in the other order?"
            )
        self._labels = [] if trie is None else [*trie.labels(), int(unknown)]
        self._engine: BaselineEngine | None = None
        self._columns = 0
        self._steps: list[np.ndarray] | None = None
        self._final: list[DecodeResult] | None = None

    def decode(self, emissions: int, T: int, N: int) -> list[DecodeResult]:
        """Decodes an utterance.

        Parameters
        ----------
        emissions : int
            The address of float32[T, N], natural-log probabilities that lie side by side.
        T, N : int
            Frames and columns.

        Returns
        -------
        list of DecodeResult
            Best first, at most `beam_size`; they differ in their words, without a trie in their tokens.

        Raises
        ------
        ValueError
            NaN or +inf, other columns than before, a silence or blank that is no column.
        MemoryError
            The search does not fit; the decoder can still be used.
        """
        engine = self._engine_of(int(N))
        answers, _, bad = engine.decode(np.array([[emissions, N, T, 0]], np.int64), int(N))
        for _, frame, column in bad:
            raise InputError("emissions", "expected finite values or -inf, got NaN or +inf", frame=frame, column=column)
        return [self._result(*answer) for answer in answers[0][1]]

    def decode_begin(self) -> None:
        """Begins an utterance whose frames come in parts."""
        self._steps, self._final = [], None

    def decode_step(self, emissions: int, T: int, N: int) -> None:
        """Takes the next frames, as of `decode`. They are copied, and kept until `decode_end`."""
        if self._steps is None:
            raise RuntimeError("decode_step: expected a call of decode_begin before it, got none")
        values = ctypes.cast(emissions, ctypes.POINTER(ctypes.c_float))
        self._steps.append(np.ctypeslib.as_array(values, (T, N)).copy() if T else np.empty((0, N), np.float32))

    def decode_end(self) -> None:
        """Decodes the frames that `decode_step` has taken; errors as of `decode`."""
        if not self._steps:
            raise RuntimeError("decode_end: expected a call of decode_step before it, got none")
        frames = np.concatenate(self._steps)
        self._final = self.decode(frames.ctypes.data, *frames.shape)
        self._steps = None

    def get_all_final_hypothesis(self) -> list[DecodeResult]:
        """The answers to the utterance that `decode_end` has ended, best first; RuntimeError before that."""
        if self._final is None:
            raise RuntimeError("get_all_final_hypothesis: expected a call of decode_end before it, got none")
        return self._final

    def get_best_hypothesis(self) -> DecodeResult:
        """The best of them."""
        return self.get_all_final_hypothesis()[0]

    def _engine_of(self, columns: int) -> BaselineEngine:
        """The engine, which is made with the first utterance; ValueError for another number of columns."""
        if self._engine is not None:
            if columns != self._columns:
                raise ValueError(f"N: expected {self._columns} columns, as before, got {columns}")
            return self._engine
        if self._trie is not None and columns < self._trie.max_children:
            raise ValueError(f"N: expected at least {self._trie.max_children} columns, as the trie has, got {columns}")
        if self._trie is not None and columns > self._trie.max_children:
            warn(
                f"N: expected {self._trie.max_children} columns, as the trie has, got {columns}; the order is "
                "decode(emissions, T, N), frames before columns"
            )
        if columns >= NO_TOKEN:
            raise ValueError(f"N: expected fewer than {NO_TOKEN} columns, got {columns}")
        for name, column in (("sil_token_idx", self._silence), ("blank_token_idx", self._blank)):
            if not 0 <= column < columns:
                raise ValueError(f"{name}: expected a column from 0 to {columns - 1}, got {column}")
        lexicon = None
        if self._trie is not None:
            lexicon = self._trie.spellings({label: number for number, label in enumerate(self._labels[:-1])})
        words = self._lm.numbers(list(range(columns)) if self._trie is None else self._labels)
        self._engine, self._columns = (
            BaselineEngine(
                self._options, lexicon=lexicon, lm=self._lm.file.model if isinstance(self._lm, KenLM) else None,
                words=words, blank=self._blank, silence=self._silence, separator=self._silence,
                collect_above=COLLECT_ABOVE, threads=1,
            ),
            columns,
        )  # fmt: skip
        return self._engine

    def _result(self, score: float, am: float, lm: float, words: Any, tokens: Any) -> DecodeResult:
        at = [NOTHING] * (len(tokens) + 2)
        for number, _, _, complete in words:
            at[complete + 1] = self._labels[number]
        return DecodeResult(score, am, lm, at, [self._silence, *tokens.tolist(), self._silence])


class LexiconDecoder(_Decoder):
    """Beam search over the words of a trie.

    Parameters
    ----------
    options : LexiconDecoderOptions
    trie : Trie
        It must not be changed afterwards.
    lm : KenLM or ZeroLM
        A model of words.
    sil_token_idx, blank_token_idx, unk_token_idx : int
        The columns of silence and blank, and the label of unknown words.
    transitions : sequence of float
        Empty.
    is_token_lm : bool
        False.

    Raises
    ------
    TypeError, ValueError
        Another language model or criterion, an empty trie, options out of their range.
    """

    def __init__(
        self,
        options: LexiconDecoderOptions,
        trie: Trie,
        lm: ZeroLM,
        sil_token_idx: int,
        blank_token_idx: int,
        unk_token_idx: int,
        transitions: Sequence[float],
        is_token_lm: bool,
    ) -> None:
        if is_token_lm:
            raise ValueError("is_token_lm: expected False, because the language model scores words, got True")
        if len(trie) == 0:
            raise ValueError("trie: expected spellings, got none; insert words before the decoder is made")
        super().__init__(options, lm, sil_token_idx, blank_token_idx, transitions, trie, unk_token_idx)


class LexiconFreeDecoder(_Decoder):
    """Beam search over tokens.

    Parameters
    ----------
    options : LexiconFreeDecoderOptions
    lm : KenLM or ZeroLM
        A model of tokens, whose dictionary has the columns' names by column.
    sil_token_idx, blank_token_idx : int
        Columns.
    transitions : sequence of float
        Empty.

    Raises
    ------
    TypeError, ValueError
        Another language model or criterion, options out of their range.
    """

    def __init__(
        self,
        options: LexiconFreeDecoderOptions,
        lm: ZeroLM,
        sil_token_idx: int,
        blank_token_idx: int,
        transitions: Sequence[float],
    ) -> None:
        super().__init__(options, lm, sil_token_idx, blank_token_idx, transitions, None, NOTHING)
