"""Beam search over a lexicon or over tokens with a KenLM language model, as Flashlight does it: the baseline.

The search is that of Flashlight's text decoders (Kahn et al. 2022, *Flashlight: Enabling Innovation in Tools for
Machine Learning*), with their option names; ``docs/guide/baseline.md`` lists what differs.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import numbers
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from arcbeam.arrays.input_looks import named
from arcbeam.arrays.intake import LogProbEngine, LogProbIntake
from arcbeam.baseline._baseline import BaselineEngine
from arcbeam.baseline.lexicon import Spellings
from arcbeam.baseline.options import LexiconFreeOptions, LexiconOptions
from arcbeam.baseline.pieces import join_pieces
from arcbeam.baseline.results import Hypothesis, Result, undecoded
from arcbeam.calls import lists_options
from arcbeam.checks import shown
from arcbeam.errors import CapacityError
from arcbeam.graph.symbols import TokenTable
from arcbeam.lm.kenlm import KenLM, case_hint
from arcbeam.lm.loading import as_kenlm
from arcbeam.show import changed, shown_as
from arcbeam.threads import usable_cores
from arcbeam.warn import warn
from arcbeam.words import Word

if TYPE_CHECKING:
    import numpy.typing as npt

    from arcbeam.recipe.lexicon import Lexicon

UNKNOWN = "<unk>"
NO_TOKEN = 0xFFFF
ALL = 2**31 - 1
# Entries of a log of back-pointers (12 bytes each) or of word histories (about 70 bytes) that a worker gathers before
# it first drops what no hypothesis needs.
COLLECT_ABOVE = 1 << 17
SHOWN = 5  # words that a warning names

StrPath: TypeAlias = str | os.PathLike[str]


class _Decoder:
    """What both decoders share: tokens, options, the engine."""

    _options: LexiconFreeOptions
    _engine: LogProbEngine[tuple[bool, list[Any]]]

    def __init__(self, tokens: TokenTable | Sequence[str] | StrPath, blank: str | int | None) -> None:
        if isinstance(tokens, str | os.PathLike):
            tokens = TokenTable.read(tokens, blank)
        elif not isinstance(tokens, TokenTable):
            tokens = TokenTable.from_list(tokens, blank)
        elif blank is not None:
            tokens = TokenTable.from_list(tokens.tokens, blank)
        if tokens.blank is None:
            raise ValueError("blank: none of the tokens looks like the blank; name it")
        if len(tokens) >= NO_TOKEN:
            raise ValueError(f"tokens: expected fewer than {NO_TOKEN}, got {len(tokens)}")
        self.tokens = tokens

    def _shown(self, what: str) -> str:
        lm = () if self._lm is None else (f"lm={self._lm!r}",)
        return shown_as(what, *lm, *changed(self._options))

    def _space(self) -> int | None:
        """The column of the space between words: of models of letters, whose lexicons in files do not name it."""
        from arcbeam.recipe.lexicon import WORD_START, find_separator

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
            raise ValueError(f"sil: expected a column of its own, or None; {column} is the blank's")
        return int(column)

    def _start(
        self, silence: int, separator: int, lm: KenLM | None, words: Sequence[str], spellings: Spellings | None
    ) -> None:
        options = self._options
        self._lm, self._sil = lm, None if silence == NO_TOKEN else silence
        token = functools.partial(named, self.tokens)
        self._intake = LogProbIntake(len(self.tokens), True, self.tokens.blank, token)
        threads = options.threads or usable_cores()
        search = {
            "beam_size": options.beam_size,
            "beam_size_token": options.beam_size_token or ALL,
            "beam_threshold": float(options.beam_threshold),
            "lm_weight": float(options.lm_weight),
            "word_score": float(getattr(options, "word_score", 0.0)),
            "unk_score": float(getattr(options, "unk_score", -math.inf)),
            "sil_score": float(options.sil_score),
            "log_add": options.log_add,
            "repeat_last_token": getattr(options, "repeat_last_token", False),
            "final_separator": getattr(options, "final_separator", True),
            "blank": self.tokens.blank,
            "silence": silence,
            "separator": separator,
            "unknown_label": len(words) - 1,
            "nbest": options.nbest,
            "collect_above": COLLECT_ABOVE,
        }
        indices = np.zeros(len(words), np.uint32) if lm is None else lm.indices(words)
        lexicon = None
        if spellings is not None:
            scores = np.zeros(len(words), np.float32) if lm is None else lm.model.first_scores(indices)
            lexicon = (spellings.columns, spellings.offsets, spellings.word_index, scores[spellings.word_index])
        if lm is not None:
            spoken = [i for i in range(len(words)) if i != (self.tokens.blank if lexicon is None else len(words) - 1)]
            _warn_of_unknown(lm, [words[i] for i in spoken], indices[spoken], "tokens" if lexicon is None else "words")
        smearing = getattr(options, "smearing", "none")
        try:
            self._engine = BaselineEngine(
                lexicon=lexicon, smearing=smearing, lm=None if lm is None else lm.model, words=indices,
                options=search, threads=threads,
            )  # fmt: skip
        except RuntimeError as error:  # std::system_error: the machine gives no more
            raise CapacityError(f"threads: {threads} of them cannot be started ({error})") from None

    def _made_by(self) -> Any:
        """Makes such a decoder from what it decodes with, for pickles."""
        make: Any = type(self)
        return functools.partial(make, sil=self._sil, **vars(self._options))

    @lists_options()
    def decode(self, log_probs: Any, lengths: Any = None, *, errors: str = "raise") -> list[Result]:
        """Decodes a batch of utterances.

        Parameters
        ----------
        log_probs : array [batch, frames, columns], or sequence of arrays [frames, columns]
            Natural-log probabilities, float32 or float16, a column a token; from numpy or anything with DLPack in CPU
            memory. Not copied unless the columns of a frame lie apart. ``-inf`` means never.
        lengths : sequence or array of int [batch], optional
            Frames of each utterance; the frames beyond are not read.
        errors : "raise" or "return"
            What becomes of an utterance with NaN or +inf among the frames that the search reads. "raise": a ValueError,
            and nothing of the batch. "return": in its place stands a result of one hypothesis without words, whose
            ``error`` is that ValueError; the others are what they are without it.

        Returns
        -------
        list of Result, in the order of the batch

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
        UserWarning
            Once a decoder and kind, as in :meth:`arcbeam.CtcDecoder.decode`: log-probs that look like none, or a blank
            that is hardly ever the best column.
        """
        found = self._intake.decode(self._engine, log_probs, lengths, errors)
        return [
            undecoded(found.errors[i])
            if i in found.errors
            else Result([self._hypothesis(frames, *answer) for answer in answers], complete)
            for i, (frames, (complete, answers)) in enumerate(zip(found.frames, found.answers, strict=True))
        ]

    def _hypothesis(self, frames: int, score: float, am: float, lm: float, words: Any, tokens: Any) -> Hypothesis:
        tokens = tokens.astype(np.int32)
        shift = self._options.frame_shift
        timed = [
            Word(word, start, end, None if shift is None else start * shift, None if shift is None else end * shift)
            for word, start, end in self._timed(words, tokens)
        ]
        return Hypothesis(timed, tokens, score if len(tokens) == frames else -math.inf, am, lm, score)

    def _timed(self, words: Any, tokens: npt.NDArray[np.int32]) -> list[tuple[str, int, int]]:
        raise NotImplementedError


class LexiconDecoder(_Decoder):
    """Beam search over the words of a lexicon.

    Words are completed along a prefix trie of their spellings; a hypothesis is its words so far, its node of the trie
    and its last token. Each frame keeps the ``beam_size`` best hypotheses within ``beam_threshold`` of the best.
    Ties are settled by content, so the same input gives the same bytes whatever the threads or the batch.

    Parameters
    ----------
    lexicon : arcbeam.recipe.lexicon.Lexicon, mapping of str to sequence of str, or path
        Words and their tokens; a path is that of a file that `Lexicon.from_file` reads. Spellings are taken as they
        are: see :func:`with_separator`.
    tokens : TokenTable, sequence of str, or path
        The columns of the log-probs.
    lm : KenLM or path, optional
        ARPA, or KenLM's binary format. Words it does not have score as its unknown word. None: all words are alike.
    blank, sil : str, int or None
        The blank, by default a token with a usual name. The silence token, by default the lexicon's separator, or else
        the token that stands for the space between words; it may be repeated freely between words. None: there is no
        silence token.
    beam_size : int
        Hypotheses kept after each frame.
    beam_size_token : int or None
        Tokens of a frame that hypotheses may go on with, the best ones; None for all.
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
        Answers for each utterance, at most.
    frame_shift : float or None
        Seconds from one frame of the log-probs to the next; needed for times in seconds only.
    threads : int or None
        CPU threads, one utterance each; None for one a usable core.
    word_score : float
        Added for every word.
    unk_score : float
        Added for every word that the lexicon does not have; ``-math.inf`` allows none.
    smearing : str
        What a word in progress already scores: ``"max"``, the best word below its trie node; ``"logadd"``, their sum;
        ``"none"``, nothing. By the language model's scores at the beginning of a sentence.
    repeat_last_token : bool
        CTC's rule for the last token of a word: it may last several frames, and follows an equal token only after a
        blank. False does as Flashlight does, where neither holds.
    final_separator : bool
        Whether the separator that ends a spelling has to be heard after the last word, too, as Flashlight has it. It is
        the lexicon's, or else the silence token.

    Raises
    ------
    TypeError, ValueError
        An option out of its range; a word whose tokens are not in the table, which is named.

    Warns
    -----
    UserWarning
        The language model lacks most of the words.

    Notes
    -----
    A decoder may be used from several Python threads, which then take turns; for parallel work give it ``threads``,
    which decode without the GIL. Pickled or copied, it is made anew; the language model is pickled by its path.
    """

    @lists_options()
    def __init__(
        self,
        lexicon: Lexicon | Mapping[str, Sequence[str]] | StrPath,
        tokens: TokenTable | Sequence[str] | StrPath,
        lm: KenLM | StrPath | None = None,
        *,
        blank: str | int | None = None,
        sil: str | int | None = "auto",
        beam_size: int = 500,
        beam_size_token: int | None = None,
        beam_threshold: float = 50.0,
        lm_weight: float = 2.0,
        sil_score: float = 0.0,
        log_add: bool = False,
        criterion: str = "ctc",
        nbest: int = 1,
        frame_shift: float | None = None,
        threads: int | None = None,
        word_score: float = 0.0,
        unk_score: float = -math.inf,
        smearing: str = "max",
        repeat_last_token: bool = False,
        final_separator: bool = True,
    ) -> None:
        super().__init__(tokens, blank)
        self._options: LexiconOptions = LexiconOptions(
            beam_size=beam_size,
            beam_size_token=beam_size_token,
            beam_threshold=beam_threshold,
            lm_weight=lm_weight,
            sil_score=sil_score,
            log_add=log_add,
            criterion=criterion,
            nbest=nbest,
            frame_shift=frame_shift,
            threads=threads,
            word_score=word_score,
            unk_score=unk_score,
            smearing=smearing,
            repeat_last_token=repeat_last_token,
            final_separator=final_separator,
        )
        self._spellings = Spellings.of(lexicon, self.tokens)
        self.words = self._spellings.words
        separator = self._spellings.separator_column
        silence = self._silence(sil, self._space() if separator is None and sil == "auto" else separator)
        model = as_kenlm("lm", lm)
        self._start(
            silence, silence if separator is None else separator, model, [*self.words, UNKNOWN], self._spellings
        )

    @property
    def options(self) -> LexiconOptions:
        """The options, as validated."""
        return self._options

    def __repr__(self) -> str:
        return self._shown(f"LexiconDecoder of {len(self.words):,} words, {len(self.tokens):,} tokens")

    def __reduce__(self) -> Any:
        return self._made_by(), (self._spellings, self.tokens, self._lm)

    def _timed(self, words: Any, tokens: npt.NDArray[np.int32]) -> list[tuple[str, int, int]]:
        known = len(self.words)
        return [(self.words[label] if label < known else UNKNOWN, start, end) for label, start, end in words]


class LexiconFreeDecoder(_Decoder):
    """Beam search over tokens, with a language model over tokens.

    Parameters
    ----------
    tokens : TokenTable, sequence of str, or path
        The columns of the log-probs, by the names that the language model knows them by.
    lm : KenLM or path, optional
        A model of sentences whose words are the tokens.
    blank, sil : str, int or None
        As in :class:`LexiconDecoder`; by default silence is the token that stands for the space between words.
    beam_size : int
        Hypotheses kept after each frame.
    beam_size_token : int or None
        Tokens of a frame that hypotheses may go on with, the best ones; None for all.
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
        Answers for each utterance, at most.
    frame_shift : float or None
        Seconds from one frame of the log-probs to the next; needed for times in seconds only.
    threads : int or None
        CPU threads, one utterance each; None for one a usable core.

    Raises
    ------
    TypeError, ValueError
        An option out of its range.

    Warns
    -----
    UserWarning
        The language model lacks most of the tokens.
    """

    @lists_options()
    def __init__(
        self,
        tokens: TokenTable | Sequence[str] | StrPath,
        lm: KenLM | StrPath | None = None,
        *,
        blank: str | int | None = None,
        sil: str | int | None = "auto",
        beam_size: int = 500,
        beam_size_token: int | None = None,
        beam_threshold: float = 50.0,
        lm_weight: float = 2.0,
        sil_score: float = 0.0,
        log_add: bool = False,
        criterion: str = "ctc",
        nbest: int = 1,
        frame_shift: float | None = None,
        threads: int | None = None,
    ) -> None:
        from arcbeam.recipe.lexicon import find_separator

        super().__init__(tokens, blank)
        self._options: LexiconFreeOptions = LexiconFreeOptions(
            beam_size=beam_size,
            beam_size_token=beam_size_token,
            beam_threshold=beam_threshold,
            lm_weight=lm_weight,
            sil_score=sil_score,
            log_add=log_add,
            criterion=criterion,
            nbest=nbest,
            frame_shift=frame_shift,
            threads=threads,
        )
        self._separator = find_separator(self.tokens)
        own = self._separator is not None and self._separator in self.tokens
        silence = self._silence(sil, self.tokens.column(str(self._separator)) if own else None)
        self._start(silence, NO_TOKEN, as_kenlm("lm", lm), self.tokens.tokens, None)

    @property
    def options(self) -> LexiconFreeOptions:
        """The options, as validated."""
        return self._options

    def __repr__(self) -> str:
        return self._shown(f"LexiconFreeDecoder of {len(self.tokens):,} tokens")

    def __reduce__(self) -> Any:
        return self._made_by(), (self.tokens, self._lm)

    def _timed(self, words: Any, tokens: npt.NDArray[np.int32]) -> list[tuple[str, int, int]]:
        spoken = tokens != self.tokens.blank
        changes = np.flatnonzero(np.diff(tokens, prepend=-1, append=-1))
        runs = [(a, b) for a, b in zip(changes[:-1].tolist(), changes[1:].tolist(), strict=True) if spoken[a]]
        pieces = [self.tokens[int(tokens[start])] for start, _ in runs]
        return [(word, runs[first][0], runs[last][1]) for word, first, last in join_pieces(pieces, self._separator)]


def with_separator(lexicon: Lexicon) -> Lexicon:
    """The lexicon with its separator at the end of every spelling, so that words cannot run together.

    This is how Flashlight's recipes for letters spell words: ``hello h e l l o |``.

    Raises
    ------
    ValueError
        The separator is no token of its own.
    """
    if lexicon.separator_column is None:
        raise ValueError("lexicon: expected a separator that is a token of its own, got none")
    return dataclasses.replace(
        lexicon,
        columns=np.insert(lexicon.columns, lexicon.offsets[1:].astype(np.int64), lexicon.separator_column),
        offsets=(lexicon.offsets + np.arange(len(lexicon.offsets), dtype=np.uint32)).astype(np.uint32),
    )


def _warn_of_unknown(lm: KenLM, words: Sequence[str], indices: npt.NDArray[np.uint32], what: str) -> None:
    """Warns where most words are not in the language model: as a rule they are written otherwise there."""
    unknown = [words[i] for i in np.flatnonzero(indices == 0).tolist()]
    if 2 * len(unknown) <= len(words):
        return
    some = ", ".join(map(repr, unknown[:SHOWN])) + ", ..." * (len(unknown) > SHOWN)
    warn(
        f"lm: it lacks {len(unknown):,} of the {len(words):,} {what} ({some}), which score as its unknown word"
        + case_hint(unknown, lm)
    )
