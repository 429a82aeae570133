"""The decoder of torchaudio: the same calls and answers, on the search of the baseline."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from arcbeam.baseline.decoder import UNKNOWN, LexiconDecoder, LexiconFreeDecoder
from arcbeam.compat.tensors import taken
from arcbeam.compat.torchaudio.tokens import columns_of
from arcbeam.core.errors import InputError
from arcbeam.core.show import shown_as
from arcbeam.core.warn import warn
from arcbeam.graph.token_table import TokenTable
from arcbeam.lm.kenlm import KenLM

if TYPE_CHECKING:
    from arcbeam.baseline.results import Hypothesis

StrPath: TypeAlias = str | os.PathLike[str]


class CTCHypothesis(NamedTuple):
    """An answer to an utterance.

    Attributes
    ----------
    tokens : torch.LongTensor or int64[L]
        Columns without repeats and blanks, with the silence before the first frame and that after the last.
    words : list of str
        Empty without a lexicon.
    score : float
    timesteps : torch.IntTensor or int32[L]
        Where each of `tokens` begins; frame t is 1 + t.
    """

    tokens: Any
    words: list[str]
    score: float
    timesteps: Any


class CTCDecoder:
    """What :func:`ctc_decoder` makes.

    Call it with emissions: ``decoder(emissions, lengths)``.

    Attributes
    ----------
    nbest : int
        The most answers for each utterance.
    tokens : list of str
        The names of the columns.
    blank : int
        The blank's column.
    """

    def __init__(
        self, decoder: LexiconDecoder | LexiconFreeDecoder, columns: Sequence[str], blank: int, unk_word: str
    ) -> None:
        self._decoder, self._unk_word = decoder, unk_word
        self.nbest, self.tokens, self.blank = decoder.options.nbest, list(columns), blank
        self._has_words = isinstance(decoder, LexiconDecoder)
        self._steps: list[Any] = []
        self._is_open = False
        self._final: list[CTCHypothesis] | None = None

    def __call__(self, emissions: Any, lengths: Any = None) -> list[list[CTCHypothesis]]:
        """Decodes a batch.

        Parameters
        ----------
        emissions : torch.Tensor or array [batch, frames, columns]
            Natural-log probabilities, float32, in CPU memory; float64 is rounded to float32.
        lengths : torch.Tensor or array of int [batch], optional
            Frames of each utterance.

        Returns
        -------
        list of list of CTCHypothesis
            Of each utterance, best first. Arrays are of torch if `emissions` is.

        Raises
        ------
        TypeError, ValueError
            Values of another type, on a GPU, NaN or +inf, wrong dimensions or lengths.
        """
        if np.ndim(emissions) != 3:
            got = np.ndim(emissions)
            raise InputError("emissions", f"expected three dimensions, batch, frames and columns, got {got}")
        emissions, as_array = taken(emissions)
        return [
            [self._hypothesis(answer, as_array) for answer in result.nbest]
            for result in self._decoder.decode(emissions, lengths)
        ]

    def decode_begin(self) -> None:
        """Begins an utterance whose frames come in parts."""
        self._steps, self._is_open, self._final = [], True, None

    def decode_step(self, emissions: Any) -> None:
        """Takes the next frames, emissions [frames, columns] as of a call. They are kept until `decode_end`.

        Raises
        ------
        RuntimeError
            `decode_begin` has not been called.
        ValueError
            There are not two dimensions.
        """
        self._check_open("decode_step")
        if np.ndim(emissions) != 2:
            raise InputError("emissions", f"expected two dimensions, frames and columns, got {np.ndim(emissions)}")
        emissions, as_array = taken(emissions)
        self._steps.append((as_array, np.array(emissions)))

    def decode_end(self) -> None:
        """Decodes the frames that `decode_step` has taken; errors as of a call."""
        self._check_open("decode_end")
        parts = [array for _, array in self._steps] or [np.empty((0, len(self.tokens)), np.float32)]
        as_array = self._steps[0][0] if self._steps else np.asarray
        [result] = self._decoder.decode([np.concatenate(parts)])
        self._final = [self._hypothesis(answer, as_array) for answer in result.nbest]
        self._steps, self._is_open = [], False

    def get_final_hypothesis(self) -> list[CTCHypothesis]:
        """The answers to the utterance that `decode_end` has ended, best first; RuntimeError before that."""
        if self._final is None:
            raise RuntimeError("get_final_hypothesis: expected a call of decode_end before it, got none")
        return self._final

    def idxs_to_tokens(self, idxs: Iterable[int]) -> list[str]:
        """The names of columns."""
        return [self.tokens[int(column)] for column in idxs]

    def _check_open(self, call: str) -> None:
        if not self._is_open:
            raise RuntimeError(f"{call}: expected a call of decode_begin before it, got none")

    def _hypothesis(self, found: Hypothesis, as_array: Any) -> CTCHypothesis:
        words = [self._unk_word if word.word == UNKNOWN else word.word for word in found.words]
        tokens = as_array(found.collapsed_tokens.astype(np.int64))
        return CTCHypothesis(tokens, words if self._has_words else [], found.score, as_array(found.timesteps))

    def __repr__(self) -> str:
        return shown_as("CTCDecoder", repr(self._decoder))


def ctc_decoder(
    lexicon: StrPath | None,
    tokens: StrPath | Sequence[str],
    lm: KenLM | StrPath | None = None,
    lm_dict: StrPath | None = None,
    nbest: int = 1,
    beam_size: int = 50,
    beam_size_token: int | None = None,
    beam_threshold: float = 50,
    lm_weight: float = 2,
    word_score: float = 0,
    unk_score: float = -math.inf,
    sil_score: float = 0,
    log_add: bool = False,
    blank_token: str = "-",
    sil_token: str = "|",
    unk_word: str = "<unk>",
    *,
    threads: int | None = None,
) -> CTCDecoder:
    """A decoder with torchaudio's arguments.

    Parameters
    ----------
    lexicon : path or None
        Lines of a word and its tokens. None: no words, only tokens.
    tokens : path or sequence of str
        The names of the columns; in a file, one a line.
    lm : KenLM or path, optional
        ARPA, or KenLM's binary format. None: all words score alike.
    lm_dict : path, optional
        Without a lexicon, a file with the columns' names in the columns' order, as torchaudio needs it to score the
        right tokens; here it is only checked. With a lexicon it changes nothing.
    nbest : int
        The most answers for each utterance.
    beam_size : int
        Hypotheses kept after each frame.
    beam_size_token : int or None
        The number of best tokens of a frame that may extend hypotheses; None for all tokens.
    beam_threshold : float
        A hypothesis that scores this much less than the best is dropped.
    lm_weight : float
        Factor on the language model's log10 probabilities.
    word_score, unk_score, sil_score : float
        Added for every word, for every word that the lexicon does not have, and in every frame of silence.
    log_add : bool
        Sum the probabilities of the paths to one hypothesis, instead of taking the best.
    blank_token, sil_token : str
        The blank, and the silence between words.
    unk_word : str
        The word that stands for unknown ones.
    threads : int or None
        CPU threads, one utterance each; None for one per usable core.

    Raises
    ------
    MissingDependencyError
        The package kenlm is missing.
    FormatError, OSError
        A file is not what it should be, or cannot be read.
    TypeError, ValueError
        An option out of its range, a language model of one's own, a token that does not exist, another `lm_dict` than
        the tokens.
    """
    if lm is not None and not isinstance(lm, (str, os.PathLike, KenLM)):
        raise TypeError(
            f"lm: expected the path of an ARPA or of KenLM's binary format, an arcbeam.KenLM or None, got "
            f"{type(lm).__name__}; your own language models (CTCDecoderLM) are not supported"
        )
    columns = columns_of(tokens)
    for name, token in (("blank_token", blank_token), ("sil_token", sil_token)):
        if token not in columns:
            raise ValueError(f"{name}: expected one of the {len(columns)} tokens, got {token!r}")
    if lm_dict is not None and lexicon is None and columns_of(lm_dict) != columns:
        raise ValueError(
            f"lm_dict: expected the {len(columns)} tokens in their order, got others in {os.fspath(lm_dict)}"
        )
    table = TokenTable.from_list(columns, blank_token)
    options: dict[str, Any] = {
        "sil": sil_token,
        "beam_size": beam_size,
        "beam_size_token": beam_size_token,
        "beam_threshold": beam_threshold,
        "lm_weight": lm_weight,
        "sil_score": sil_score,
        "log_add": log_add,
        "nbest": nbest,
        "threads": threads,
    }
    decoder: LexiconDecoder | LexiconFreeDecoder
    if lexicon is None:
        decoder = LexiconFreeDecoder(table, lm, **options)
    else:
        from arcbeam.recipe.lexicon import Lexicon

        words = Lexicon.from_file(lexicon, table, probabilities=False)
        if columns.index(sil_token) not in words.columns:
            warn(
                f"lexicon: no spelling has the silence {sil_token!r}, with which torchaudio's lexicons end words, as "
                f"in 'hello h e l l o {sil_token}'; words are found without a pause between them"
            )
        decoder = LexiconDecoder(words, table, lm, word_score=word_score, unk_score=unk_score, **options)
    return CTCDecoder(decoder, columns, columns.index(blank_token), unk_word)
