"""Beam search over a lexicon or over tokens with a KenLM, as Flashlight's text decoders do it (Kahn et al. 2022).

``docs/guide/baseline.md`` lists the differences.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from arcbeam.baseline.base import NO_TOKEN, BaselineDecoder, StrPath
from arcbeam.baseline.lexicon import Spellings
from arcbeam.baseline.options import LexiconFreeKeywords, LexiconFreeOptions, LexiconKeywords, LexiconOptions
from arcbeam.core.calls import explains, lists_options
from arcbeam.core.pieces import join_pieces
from arcbeam.graph.token_table import TokenTable
from arcbeam.lm.kenlm import KenLM
from arcbeam.lm.loading import as_kenlm

if TYPE_CHECKING:
    import numpy.typing as npt

    from arcbeam.recipe.lexicon import Lexicon

UNKNOWN = "<unk>"


@explains(LexiconOptions)
class LexiconDecoder(BaselineDecoder):
    """Beam search over the words of a lexicon.

    Words are completed along a prefix trie of their spellings; a hypothesis consists of its words so far, its node of
    the trie and its last token. Each frame keeps the ``beam_size`` best hypotheses that are within ``beam_threshold``
    of the best.
    Ties are settled by content, so the same input gives the same bytes whatever the threads or the batch.

    Parameters
    ----------
    lexicon : arcbeam.recipe.lexicon.Lexicon, mapping of str to sequence of str, or path
        Words and their tokens; a path is that of a file that `Lexicon.from_file` reads. Spellings are taken as they
        are: see :func:`with_separator`.
    tokens : TokenTable, sequence of str, or path
        The columns of the log-probs.
    lm : KenLM or path, optional
        ARPA, or KenLM's binary format. Words that it lacks score as its unknown word. None: all words score alike.
    blank, sil : str, int or None
        The blank is by default a token with a usual name. The silence token is by default the lexicon's separator, or
        else the token that stands for the space between words; it may be repeated freely between words. None: there is
        no silence token.
    **options
        Those of :class:`LexiconOptions`, by keyword.

    Raises
    ------
    TypeError, ValueError
        An option out of its range, or a word whose tokens are not in the table; the message names it.

    Warns
    -----
    UserWarning
        The language model lacks most of the words.

    Notes
    -----
    A decoder may be used from several Python threads, which then take turns; for parallel work give it ``threads``,
    which decode without the GIL. Pickled or copied, it is made anew; the language model is pickled by its path.
    """

    @lists_options(LexiconOptions)
    def __init__(
        self,
        lexicon: Lexicon | Mapping[str, Sequence[str]] | StrPath,
        tokens: TokenTable | Sequence[str] | StrPath,
        lm: KenLM | StrPath | None = None,
        *,
        blank: str | int | None = None,
        sil: str | int | None = "auto",
        **options: Unpack[LexiconKeywords],
    ) -> None:
        super().__init__(tokens, blank)
        self._options: LexiconOptions = LexiconOptions(**options)
        self._spellings = Spellings.of(lexicon, self.tokens)
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

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the lexicon, in the order of their labels."""
        return self._spellings.words

    def __repr__(self) -> str:
        return self._shown(f"LexiconDecoder of {len(self.words):,} words, {len(self.tokens):,} tokens")

    def __reduce__(self) -> Any:
        return self._made_by(), (self._spellings, self.tokens, self._lm)

    def _timed(self, words: Any, tokens: npt.NDArray[np.int32]) -> list[tuple[str, int, int]]:
        known = len(self.words)
        return [(self.words[label] if label < known else UNKNOWN, start, end) for label, start, end, _ in words]


@explains(LexiconFreeOptions)
class LexiconFreeDecoder(BaselineDecoder):
    """Beam search over tokens, with a language model over tokens.

    Parameters
    ----------
    tokens : TokenTable, sequence of str, or path
        The columns of the log-probs, by the names that they have in the language model.
    lm : KenLM or path, optional
        A model of sentences whose words are the tokens.
    blank, sil : str, int or None
        As in :class:`LexiconDecoder`; by default silence is the token that stands for the space between words.
    **options
        Those of :class:`LexiconFreeOptions`, by keyword.

    Raises
    ------
    TypeError, ValueError
        An option out of its range.

    Warns
    -----
    UserWarning
        The language model lacks most of the tokens.
    """

    @lists_options(LexiconFreeOptions)
    def __init__(
        self,
        tokens: TokenTable | Sequence[str] | StrPath,
        lm: KenLM | StrPath | None = None,
        *,
        blank: str | int | None = None,
        sil: str | int | None = "auto",
        **options: Unpack[LexiconFreeKeywords],
    ) -> None:
        from arcbeam.recipe.separators import find_separator

        super().__init__(tokens, blank)
        self._options: LexiconFreeOptions = LexiconFreeOptions(**options)
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
        The separator is not a token of its own.
    """
    if lexicon.separator_column is None:
        raise ValueError("lexicon: expected a separator that is a token of its own, got none")
    return dataclasses.replace(
        lexicon,
        columns=np.insert(lexicon.columns, lexicon.offsets[1:].astype(np.int64), lexicon.separator_column),
        offsets=(lexicon.offsets + np.arange(len(lexicon.offsets), dtype=np.uint32)).astype(np.uint32),
    )
