"""The part that both decoders of the baseline share: tokens, silence, the engine, and how a batch becomes results."""

from __future__ import annotations

import functools
import math
import numbers
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np

from arcbeam.arrays.bad_values import check_errors
from arcbeam.arrays.batches import one_or_many
from arcbeam.arrays.input_warnings import named
from arcbeam.arrays.intake import LogProbEngine, LogProbIntake
from arcbeam.baseline._baseline import BaselineEngine
from arcbeam.baseline.lexicon import Spellings
from arcbeam.baseline.options import LexiconFreeOptions
from arcbeam.baseline.results import Hypothesis, Result, undecoded
from arcbeam.core.calls import lists_options
from arcbeam.core.checks import check_bool, shown
from arcbeam.core.fixed import Fixed
from arcbeam.core.show import changed, shown_as
from arcbeam.core.threads import usable_cores
from arcbeam.core.warn import warn
from arcbeam.graph.token_table import TokenTable
from arcbeam.lm.kenlm import KenLM, case_hint
from arcbeam.words import Word

if TYPE_CHECKING:
    import numpy.typing as npt


NO_TOKEN = 0xFFFF
# Entries of a log of back-pointers (12 bytes each) or of word histories (about 70 bytes) that a worker gathers before
# it first drops those that no hypothesis needs.
COLLECT_ABOVE = 1 << 17
SHOWN = 5  # words that a warning names

StrPath: TypeAlias = str | os.PathLike[str]


class BaselineDecoder(Fixed):
    """The part that both decoders share: tokens, options, the engine."""

    _options: LexiconFreeOptions
    _blank: int
    _engine: LogProbEngine[tuple[bool, list[Any]]]

    def __init__(self, tokens: TokenTable | Sequence[str] | StrPath, blank: str | int | None) -> None:
        if isinstance(tokens, str | os.PathLike):
            tokens = TokenTable.read(tokens, blank)
        elif not isinstance(tokens, TokenTable):
            tokens = TokenTable.from_list(tokens, blank)
        elif blank is not None:
            tokens = TokenTable.from_list(tokens.tokens, blank)
        if tokens.blank is None:
            raise ValueError("blank: expected a token with a usual name of the blank, got none; name the blank")
        if len(tokens) >= NO_TOKEN:
            raise ValueError(f"tokens: expected fewer than {NO_TOKEN} tokens, got {len(tokens)}")
        self._tokens, self._blank = tokens, tokens.blank

    @property
    def tokens(self) -> TokenTable:
        """The tokens of the columns."""
        return self._tokens

    def _shown(self, what: str) -> str:
        lm = () if self._lm is None else (f"lm={self._lm!r}",)
        return shown_as(what, *lm, *changed(self._options))

    def _space(self) -> int | None:
        """The column of the space between words, for models of letters: a lexicon file does not name it."""
        from arcbeam.recipe.separators import WORD_START, find_separator

        found = find_separator(self.tokens)
        return None if found is None or found == WORD_START else self.tokens.column(found)

    def _silence(self, sil: str | int | None, default: int | None) -> int:
        """The silence column, or NO_TOKEN."""
        column = default if isinstance(sil, str) and sil == "auto" else sil
        if column is None:
            return NO_TOKEN
        if isinstance(column, str):
            if column not in self.tokens:
                raise ValueError(f"sil: expected one of the {len(self.tokens)} tokens, got {column!r}")
            column = self.tokens.column(column)
        if isinstance(column, bool) or not isinstance(column, numbers.Integral):
            raise TypeError(f"sil: expected a token, its column, or None, got {type(column).__name__}")
        if not 0 <= column < len(self.tokens):
            raise ValueError(f"sil: expected a column from 0 to {len(self.tokens) - 1}, or None, got {shown(column)}")
        if column == self.tokens.blank:
            raise ValueError(f"sil: expected a column other than the blank's, or None, got {column}")
        return int(column)

    def _start(
        self, silence: int, separator: int, lm: KenLM | None, words: Sequence[str], spellings: Spellings | None
    ) -> None:
        options = self._options
        self._lm, self._sil = lm, None if silence == NO_TOKEN else silence
        threads = options.threads or usable_cores()
        indices = np.zeros(len(words), np.uint32) if lm is None else lm.indices(words)
        lexicon = None
        if spellings is not None:
            scores = np.zeros(len(words), np.float32) if lm is None else lm.model.first_scores(indices)
            lexicon = (spellings.columns, spellings.offsets, spellings.word_index, scores[spellings.word_index])
        if lm is not None:
            spoken = [i for i in range(len(words)) if i != (self.tokens.blank if lexicon is None else len(words) - 1)]
            _warn_of_unknown(lm, [words[i] for i in spoken], indices[spoken], "tokens" if lexicon is None else "words")
        self._engine = BaselineEngine(
            options, lexicon=lexicon, lm=None if lm is None else lm.model, words=indices, blank=self._blank,
            silence=silence, separator=separator, collect_above=COLLECT_ABOVE, threads=threads,
        )  # fmt: skip
        token = functools.partial(named, self.tokens)
        self._intake = LogProbIntake(self._engine, len(self.tokens), True, self.tokens.blank, token)

    def _made_by(self) -> Any:
        """The callable and arguments that make an equal decoder, for pickles."""
        make: Any = type(self)
        return functools.partial(make, sil=self._sil, **vars(self._options))

    @overload
    def decode(
        self,
        log_probs: list[Any] | tuple[Any, ...],
        lengths: Any = None,
        *,
        errors: str = "raise",
        logits: bool = False,
    ) -> list[Result]: ...

    @overload
    def decode(
        self, log_probs: Any, lengths: Any = None, *, errors: str = "raise", logits: bool = False
    ) -> Result | list[Result]: ...

    @lists_options()
    def decode(
        self, log_probs: Any, lengths: Any = None, *, errors: str = "raise", logits: bool = False
    ) -> Result | list[Result]:
        """Decodes an utterance, or a batch of them.

        Parameters
        ----------
        log_probs : array [frames, columns] or [batch, frames, columns], or sequence of arrays [frames, columns]
            Natural-log probabilities, float32 or float16, one column per token, from numpy or anything with DLPack in
            CPU memory. They are not copied unless the columns of a frame lie apart. float64 and bfloat16 are rounded to
            float32, by the library that the array comes from. ``-inf`` means never.
        lengths : int, sequence or array of int [batch], or mask [batch, frames]; optional
            Frames of each utterance; the frames beyond are not read. A mask is 1 for these and 0 for those after them.
        errors : "raise" or "return"
            What happens to an utterance with NaN or +inf among the frames that the search reads. "raise": an
            :class:`arcbeam.InputError`, which is a ValueError, and no result for the batch. "return": its place has a
            result of one hypothesis without words, whose ``error`` is that InputError; the other results do not change.

        logits : bool
            As of :meth:`arcbeam.CtcDecoder.decode`.

        Returns
        -------
        Result, or a list of them in the order of the batch
            One for one array [frames, columns].

        Raises
        ------
        TypeError
            Values that are not float32 or float16, arrays in another place, lengths that are not integers.
        ValueError
            NaN or +inf among the frames, unless `errors` is "return"; wrong dimensions or width, a length that is
            negative or beyond the frames.
        MemoryError
            The search does not fit; the decoder can still be used.

        Warns
        -----
        InputWarning
            Once for each decoder and kind, as in :meth:`arcbeam.CtcDecoder.decode`: values that are not
            log-probs, or a blank that is hardly ever the best column.
        """
        check_bool("logits", logits)
        log_probs, lengths, is_one = one_or_many(log_probs, lengths)
        check_errors(errors)
        inputs = self._intake.take(log_probs, lengths, logits=logits)
        found, _, refused = self._intake.decode(inputs, errors)
        self._intake.warn()
        results = [
            undecoded(refused[i])
            if i in refused
            else Result([self._hypothesis(frames, *answer) for answer in answers], complete)
            for i, (frames, (complete, answers)) in enumerate(zip(inputs.table[:, 2].tolist(), found, strict=True))
        ]
        return results[0] if is_one else results

    def _hypothesis(self, frames: int, score: float, am: float, lm: float, words: Any, tokens: Any) -> Hypothesis:
        tokens = tokens.astype(np.int32)
        shift = self._options.frame_shift
        timed = [
            Word(word, start, end, None if shift is None else start * shift, None if shift is None else end * shift)
            for word, start, end in self._timed(words, tokens)
        ]
        total = score if len(tokens) == frames else -math.inf
        silence = self._blank if self._sil is None else self._sil
        return Hypothesis(timed, tokens, total, am, lm, score, self._blank, silence)

    def _timed(self, words: Any, tokens: npt.NDArray[np.int32]) -> list[tuple[str, int, int]]:
        raise NotImplementedError


def _warn_of_unknown(lm: KenLM, words: Sequence[str], indices: npt.NDArray[np.uint32], what: str) -> None:
    """Warns if most words are not in the language model: usually they are written differently there."""
    unknown = [words[i] for i in np.flatnonzero(indices == 0).tolist()]
    if 2 * len(unknown) <= len(words):
        return
    some = ", ".join(map(repr, unknown[:SHOWN])) + ", ..." * (len(unknown) > SHOWN)
    warn(
        f"lm: it lacks {len(unknown):,} of the {len(words):,} {what} ({some}), which score as its unknown word"
        + case_hint(unknown, lm)
    )
