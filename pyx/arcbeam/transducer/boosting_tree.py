"""Phrases that a request makes likelier, as tokens: the boosting tree of a transducer."""

from __future__ import annotations

import copy
import itertools
import numbers
import os
from collections.abc import Iterable, Mapping
from decimal import Context, Decimal
from functools import cached_property, lru_cache
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from arcbeam.core.calls import lists_options
from arcbeam.core.checks import as_float, check_count, check_real, check_text
from arcbeam.core.show import shortened, shown_as
from arcbeam.core.warn import warn
from arcbeam.files.phrase_file import read_phrases
from arcbeam.transducer._boosting_tree import build
from arcbeam.transducer.phrases.calibration import LARGEST_SCORE, Decoder, calibrated
from arcbeam.transducer.phrases.phrase_tokens import PhraseTokenizer, Sampler, TokensOf
from arcbeam.transducer.text import Pieces
from arcbeam.transducer.token_automaton import Digests, Fusion, TokenAutomaton, from_the_start

MOST_STATES = 2**31 - 1
LARGEST_VOCABULARY = 2**24
CHECKED_PHRASES = 100  # at most, whose tokens are compared with the decoder's pieces

Phrase: TypeAlias = str | tuple[int, ...]


class BoostingTree:
    """Phrases whose tokens get a higher score, with the names and the scores of NeMo's boosting tree.

    The blank is decided without it. Where a label is written, each token's logit has ``boosting_tree_alpha`` (an
    option of the decoder) times its score added. A phrase's first token gets `context_score`, its d-th token
    ``context_score * depth_scaling + ln d``; tokens that phrases share get the largest. Where a path leaves a phrase
    before its end, the score that it got is subtracted, so that continuing the phrase stays likelier.
    (Andrusenko et al. 2025, *TurboBias*; the trie with failure arcs: Aho & Corasick 1975.)

    A tree is compiled once and can be shared by requests and decoders of the same vocabulary.

    Parameters
    ----------
    phrases : mapping of phrase to float, or sequence of phrases
        A phrase is a str, or a tuple of tokens. With a mapping, each has its own context score. A negative one makes a
        phrase less likely: it is added to the score of its last token, and changes nothing else. A tree without phrases
        has no effect.
    tokenizer : path, sequence of str or function, optional
        What turns text into tokens: a SentencePiece model, a function from str to tokens, or the pieces by token,
        from which the fewest are taken, of equally many the longest first. Not needed for tuples of tokens.
    vocab_size : int, optional
        The number of tokens, with or without a blank at their end; by default that of the tokenizer. Needed where that
        is a function or None.
    context_score : float
        The score of every token of a phrase, a natural log, for phrases without their own.
    depth_scaling : float
        The factor of the context score for all tokens but a phrase's first, above 0. NeMo 3.0 has 2 for RNN-T and TDT,
        too.
    unk_score : float
        The score of tokens that begin no phrase, at a place where no phrase has begun.
    use_bpe_dropout : bool
        Whether a phrase of text gets other segmentations, too, drawn at random; for SentencePiece models.
    num_of_transcriptions : int
        The most segmentations of a phrase.
    bpe_alpha : float
        How they are drawn, as SentencePiece takes it: the power of a unigram model's probabilities (at 0 all
        segmentations are alike), or the share of a BPE model's merges that is left out.
    seed : int
        Seed of these draws, which are the same in every process.

    Attributes
    ----------
    vocab_size : int
    automaton : TokenAutomaton
        What the engines read.

    Raises
    ------
    TypeError
        Phrases that are neither str nor tuples of whole numbers, scores that are not numbers, or a single phrase
        instead of a list.
    ValueError
        A phrase that is empty, or occurs twice, or has tokens that are not in the vocabulary or characters that the
        tokenizer lacks; a score that is NaN or beyond 1000 in size. The message names the phrase.

    Examples
    --------
    >>> tree = arcbeam.BoostingTree(["arcbeam", "viterbi lattice"], "tokenizer.model")
    >>> hypotheses = decoder.decode(encoder_output, lengths, boost=tree)
    """

    @lists_options()
    def __init__(
        self,
        phrases: Mapping[Phrase, float] | Mapping[str, float] | Iterable[Phrase],
        tokenizer: PhraseTokenizer | None = None,
        *,
        vocab_size: int | None = None,
        context_score: float = 1.0,
        depth_scaling: float = 2.0,
        unk_score: float = 0.0,
        use_bpe_dropout: bool = False,
        num_of_transcriptions: int = 5,
        bpe_alpha: float = 0.3,
        seed: int = 1234,
    ) -> None:
        if isinstance(phrases, (str, bytes, tuple)) or not isinstance(phrases, Iterable):
            raise TypeError(
                f"phrases: expected a list of phrases, or a mapping of phrases to scores, got {type(phrases).__name__}"
                + (f"; for one phrase write [{phrases!r}]" if isinstance(phrases, (str, tuple)) else "")
            )
        check_real("depth_scaling", depth_scaling, "above 0", above=0.0)
        for option, value in (("depth_scaling", depth_scaling), ("unk_score", unk_score)):
            _check_score(option, value)
        if not 0.0 <= as_float("bpe_alpha", bpe_alpha, "from 0 to 1") <= 1.0:
            raise ValueError(f"bpe_alpha: expected a number from 0 to 1, got {bpe_alpha!r}")
        check_count("num_of_transcriptions", num_of_transcriptions)
        names = list(phrases)
        if isinstance(phrases, Mapping):
            scores = [_checked(name, score) for name, score in phrases.items()]
        else:
            scores = [_check_score("context_score", context_score)] * len(names)
        tokens_of = None if tokenizer is None else TokensOf(tokenizer)
        if vocab_size is None and tokens_of is not None:
            vocab_size = tokens_of.size
        if vocab_size is None and tokens_of is None and (text := next((n for n in names if isinstance(n, str)), None)):
            text = shortened(text)
            raise ValueError(f"tokenizer: expected one, such as decoder.pieces, because phrase {text} is text")
        self.vocab_size = _vocabulary(vocab_size)
        self._phrases: dict[Phrase, float] = {}
        for name, score in zip(names, scores, strict=True):
            key = _key(name)
            if key in self._phrases:
                raise ValueError(f"phrases: {shortened(key)} occurs twice")
            self._phrases[key] = score
        segmented = [[_tokens_of(phrase, tokens_of, self.vocab_size)] for phrase in self._phrases]
        if use_bpe_dropout:
            if tokens_of is None or tokens_of.model is None:
                raise ValueError("use_bpe_dropout: expected a SentencePiece model as tokenizer, which alone can draw")
            sampler = Sampler(tokens_of.model, bpe_alpha, seed)
            for phrase, found in zip(self._phrases, segmented, strict=True):
                if isinstance(phrase, str):
                    found += sampler.alternatives(phrase, found[0], num_of_transcriptions)
        self._shape = depth_scaling, unk_score
        self.automaton = _compiled(segmented, list(self._phrases.values()), *self._shape, self.vocab_size)
        self._fits: set[tuple[int, int, int]] = set()  # tokens, blank and pieces of decoders that it was checked for
        self._used = frozenset(token for alternatives in segmented for tokens in alternatives for token in tokens)
        self._segmented = segmented

    @classmethod
    @lists_options()
    def read(
        cls,
        path: str | os.PathLike[str],
        tokenizer: PhraseTokenizer,
        *,
        vocab_size: int | None = None,
        context_score: float = 1.0,
        depth_scaling: float = 2.0,
        unk_score: float = 0.0,
        use_bpe_dropout: bool = False,
        num_of_transcriptions: int = 5,
        bpe_alpha: float = 0.3,
        seed: int = 1234,
    ) -> Self:
        """A tree from a text file with a phrase on each line; a tab and the phrase's context score may follow it.

        Parameters
        ----------
        path : path
            UTF-8 text. Empty lines mean nothing.
        tokenizer, vocab_size, context_score, depth_scaling, unk_score, use_bpe_dropout, num_of_transcriptions, \
bpe_alpha, seed
            As the class takes them; `context_score` is that of the lines without a score.

        Raises
        ------
        FormatError
            A line whose phrase is empty or occurs twice, or whose score is not a number; the message names it.
        OSError
            The file cannot be read.
        """
        return cls(
            read_phrases(path, context_score, _key, _checked),
            tokenizer,
            vocab_size=vocab_size,
            depth_scaling=depth_scaling,
            unk_score=unk_score,
            use_bpe_dropout=use_bpe_dropout,
            num_of_transcriptions=num_of_transcriptions,
            bpe_alpha=bpe_alpha,
            seed=seed,
        )

    @property
    def phrases(self) -> dict[Phrase, float]:
        """Each phrase and its context score."""
        return dict(self._phrases)

    @property
    def tokens(self) -> dict[Phrase, list[tuple[int, ...]]]:
        """The segmentations of each phrase."""
        return dict(zip(self._phrases, map(list, self._segmented), strict=True))

    @property
    def digest(self) -> str:
        """A digest of the tree: two trees that have the same give the same answers."""
        return self.automaton.digest

    @property
    def nbytes(self) -> int:
        """Bytes of the compiled tree."""
        return self.automaton.nbytes

    def __len__(self) -> int:
        return len(self._phrases)

    def __repr__(self) -> str:
        return shown_as(
            f"BoostingTree of {len(self):,} phrase{'s'[: len(self) != 1]}", f"{self.automaton.num_states:,} states",
            f"vocab_size={self.vocab_size}",
        )  # fmt: skip

    @cached_property
    def alone(self) -> tuple[Fusion, Digests]:
        """What an utterance without a state and an n-gram model is scored with: most are, so it is made once."""
        return from_the_start(None, self.automaton)

    def with_scores(self, phrases: Mapping[Phrase, float]) -> Self:
        """The tree of the same phrases with other scores, cut into the same tokens."""
        if phrases.keys() != self._phrases.keys():
            raise ValueError(f"phrases: expected scores of the {len(self):,} phrases of the tree, and of no others")
        made = copy.copy(self)
        made.__dict__.pop("alone", None)
        made._phrases = {phrase: _checked(phrase, phrases[phrase]) for phrase in self._phrases}
        made._fits = set()
        made.automaton = _compiled(self._segmented, list(made._phrases.values()), *self._shape, self.vocab_size)
        return made

    @lists_options()
    def calibrate(
        self,
        decoder: Decoder,
        encoder_output: Any,
        lengths: Any = None,
        *,
        false_alarms: float = 0.01,
        largest: float = 8.0,
    ) -> Self:
        """The same phrases with the largest scores that seldom put one of them where nobody said it.

        All context scores above 0 are multiplied by one factor. An utterance has a false alarm if its hypothesis
        contains a phrase with a score above 0 more often than the hypothesis of the same decoder without a tree does:
        phrases of text as whole words, if the decoder has text, and others as tokens. Of the given utterances at most
        the share `false_alarms` has one, whatever the length of the list: a longer list gets lower scores.

        Parameters
        ----------
        decoder : TransducerDecoder
            With the options that will be used; the beam and ``boosting_tree_alpha`` matter most.
        encoder_output, lengths
            Speech in which none of the phrases is said, as `TransducerDecoder.decode` takes it. It is decoded about
            eight times. With fewer than ``1 / false_alarms`` utterances not a single false alarm is accepted.
        false_alarms : float
            The largest share of the utterances that may have a false alarm, from 0 to below 1.
        largest : float
            The largest context score that any phrase may get, a natural log.

        Returns
        -------
        BoostingTree
            A new tree, whose largest context score is a multiple of 1/8; negative scores are as they were. The search
            for it halves the range that is left, as if false alarms never became fewer with larger scores; the scores
            that are returned were tried and keep to the share.

        Raises
        ------
        TypeError, ValueError
            A decoder of another kind or vocabulary, no utterance, a share or a largest score out of range, no phrase
            above 0, or false alarms even with scores up to 1/8. And what `TransducerDecoder.decode` raises.

        Examples
        --------
        >>> tree = arcbeam.BoostingTree(["of clubs"], decoder.pieces).calibrate(decoder, other_speech)
        """
        return calibrated(self, decoder, encoder_output, lengths, false_alarms, largest)

    def check_fits(self, name: str, tokens: int, blank: int, detokenize: Any = None) -> None:
        """Raises ValueError, which names the tree so, unless a decoder of so many tokens and this blank takes it.

        Warns if the decoder's pieces, where it has some, make other texts of the tokens of most phrases.
        """
        met = tokens, blank, id(detokenize)
        if met in self._fits:  # nearly all trees have been met before
            return
        sizes = {tokens, tokens - 1} if blank == tokens - 1 else {tokens}
        if self.vocab_size not in sizes:
            expected = " or ".join(map(str, sorted(sizes)))
            raise ValueError(
                f"{name}: expected a tree of {expected} tokens, got one of {self.vocab_size}; is its tokenizer "
                "(--tokenizer) that of the model?"
            )
        if blank in self._used:
            pairs = zip(self._phrases, self._segmented, strict=True)
            phrase = next(phrase for phrase, found in pairs if blank in sum(found, ()))
            raise ValueError(f"{name}: phrase {shortened(phrase)} has the token {blank}, which is the blank")
        self._fits.add(met)
        if isinstance(detokenize, Pieces):
            self._warn_of_other_pieces(name, detokenize)

    def _warn_of_other_pieces(self, name: str, pieces: Pieces) -> None:
        """A warning if most phrases are other texts in these pieces; a few may be normalised by their tokenizer."""
        pairs = itertools.islice(zip(self._phrases, self._segmented, strict=True), CHECKED_PHRASES)
        texts = [(phrase, pieces(found[0])) for phrase, found in pairs if isinstance(phrase, str)]
        others = [(phrase, text) for phrase, text in texts if text.casefold() != phrase.casefold()]
        if 2 * len(others) > len(texts):
            phrase, text = others[0]
            warn(
                f"{name}: the tokens of phrase {shortened(phrase)} are {shortened(text)} in the pieces of the decoder: "
                "is the tree's tokenizer (--tokenizer) that of the model? decoder.pieces, where it has them, are right"
            )


def _vocabulary(size: Any) -> int:
    if size is None:
        raise ValueError("vocab_size: expected the number of tokens, because no tokenizer gives it")
    if isinstance(size, bool) or not isinstance(size, numbers.Integral):
        raise TypeError(f"vocab_size: expected a whole number, got {type(size).__name__}")
    if not 1 <= int(size) <= LARGEST_VOCABULARY:
        raise ValueError(f"vocab_size: expected 1 to {LARGEST_VOCABULARY:,} tokens, got {size}")
    return int(size)


def _key(phrase: Any) -> Phrase:
    """The phrase as it is known: text with one space between words, or a tuple of tokens."""
    if isinstance(phrase, str):
        normal = " ".join(phrase.split())
        if not normal:
            raise ValueError(f"phrases: expected phrases with at least one word, got {shortened(phrase)}")
        check_text("phrases", phrase)
        return normal
    if not isinstance(phrase, tuple) or not all(map(_is_whole, phrase)):
        raise TypeError(f"phrases: expected a str or a tuple of tokens, got {shortened(phrase)}")
    if not phrase:
        raise ValueError("phrases: expected phrases with at least one token, got ()")
    return tuple(map(int, phrase))


def _tokens_of(phrase: Phrase, tokens_of: TokensOf | None, vocab_size: int) -> tuple[int, ...]:
    if isinstance(phrase, str):
        if tokens_of is None:
            raise ValueError(
                f"tokenizer: expected one, because phrase {shortened(phrase)} is text; or give tuples of tokens"
            )
        found = tokens_of(phrase)
        if not found:
            raise ValueError(f"phrase {shortened(phrase)} has no tokens")
        wrong = next((token for token in found if not _is_whole(token)), None)
        if wrong is not None:
            raise TypeError(f"phrase {shortened(phrase)}: expected tokens that are whole numbers, got {wrong!r}")
    else:
        found = phrase
    if min(found) < 0 or max(found) >= vocab_size:
        token = next(token for token in found if not 0 <= token < vocab_size)
        raise ValueError(f"phrase {shortened(phrase)}: expected tokens from 0 to {vocab_size - 1}, got {token}")
    return tuple(map(int, found))


def _compiled(
    segmented: list[list[tuple[int, ...]]], scores: list[float], depth_scaling: float, unk_score: float, tokens: int
) -> TokenAutomaton:
    lists = [one for alternatives in segmented for one in alternatives]
    repeated = np.repeat(np.array(scores, np.float64), [len(alternatives) for alternatives in segmented])
    lengths = np.fromiter(map(len, lists), np.uintp, len(lists))
    flat = np.fromiter((token for one in lists for token in one), np.uint32, int(lengths.sum()))
    if len(flat) + tokens >= MOST_STATES:
        raise ValueError(f"phrases: expected fewer than {MOST_STATES:,} tokens in all, got {len(flat):,}")
    arrays = build(
        flat,
        np.cumsum(lengths, dtype=np.uintp),
        repeated,
        logs_up_to(int(lengths.max(initial=1))),
        depth_scaling=depth_scaling,
        unk_score=unk_score,
        num_tokens=tokens,
    )
    for array in arrays:
        array.flags.writeable = False
    return TokenAutomaton(*arrays, num_tokens=tokens)


def logs_up_to(n: int) -> npt.NDArray[np.float64]:
    """Natural logs of 0 to n, that of 0 as 0; the same on every machine, which those of math are not."""
    return np.array([0.0, *map(natural_log, range(1, n + 1))])


@lru_cache(maxsize=65_536)
def natural_log(n: int) -> float:
    """The natural log of a whole number, correctly rounded."""
    return float(Decimal(n).ln(Context(prec=40)))


def _check_score(name: str, score: Any) -> float:
    value = as_float(name, score, "that is a natural log")
    if not abs(value) <= LARGEST_SCORE:  # NaN compares false
        raise ValueError(f"{name}: expected a number from -{LARGEST_SCORE:g} to {LARGEST_SCORE:g}, got {value!r}")
    return value


def _checked(phrase: Phrase, score: Any) -> float:
    return _check_score(f"score of {shortened(phrase)}", score)


def _is_whole(token: Any) -> bool:
    return type(token) is int or (isinstance(token, (int, np.integer)) and not isinstance(token, bool))
