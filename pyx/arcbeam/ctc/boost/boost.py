"""Lists of words and phrases that a request makes likelier, or less likely."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self
from weakref import WeakKeyDictionary

from arcbeam.core.calls import lists_options
from arcbeam.core.checks import check_real
from arcbeam.core.show import shown_as
from arcbeam.ctc.boost._boost import BoostList, WordIndex, compiled
from arcbeam.ctc.boost.calibration import Decoder, calibrated
from arcbeam.ctc.boost.left_out import warn_of_left_out
from arcbeam.ctc.boost.phrases import checked, checked_score, normalised
from arcbeam.ctc.boost.spellings import MOST_BYTES, Pronounced, Spellings
from arcbeam.ctc.boost.sums import check_sums
from arcbeam.ctc.boost.word_index import index_of
from arcbeam.ctc.options import DEFAULT_BOOST
from arcbeam.files.phrase_file import read_phrases
from arcbeam.graph.graph import Graph
from arcbeam.graph.new_words import NewWords, Place


class Boosted(NamedTuple):
    """A phrase of a boost list where it occurs in a hypothesis.

    Attributes
    ----------
    phrase : str
    score : float
        What it added to the hypothesis' score, a natural log.
    first_word, end_word : int
        Its words are ``hypothesis.words[first_word:end_word]``.
    start_frame, end_frame : int
    start, end : float or None
        These times in seconds; None if the decoder was given no ``frame_shift``.
    """

    phrase: str
    score: float
    first_word: int
    end_word: int
    start_frame: int
    end_frame: int
    start: float | None
    end: float | None


class Boost:
    """Words and phrases with scores that are added to the score of every path that contains them.

    A path gets parts of a phrase's score as it writes the phrase's words, and loses them if it continues in another
    way, so that the beam does not lose the phrase before it is complete. In the end each occurrence of a phrase has
    added its score once, and nothing else has changed. A phrase within a longer one counts, too. (On-the-fly
    composition with an automaton, as in Galvez & Kaldewey 2023, extended to phrases of several words.)

    A list is compiled when a decoder first uses it, once for each graph; requests and decoders may share it.

    Parameters
    ----------
    phrases : mapping of str to float, or sequence of str
        Phrases, their words as the graph writes them, each with its score: a natural log, so that 2.3 makes a phrase
        ten times as likely. A negative score makes it less likely. Scores are rounded to 1/1024.
    score : float, optional
        The score of all phrases if they come without; 7 if it is not given.
    depth_scaling : float
        The weight of each word after the first, relative to the first word, in the part of the score that is given in
        advance. It changes what the beam keeps, but not the sum.
    pronunciations : mapping of str to str or sequence of str, or path, optional
        How words that the graph lacks are spelled, for a graph with an open slot: the names of the model's tokens with
        spaces between them, one str for each spelling; or a file with lines ``word token token ...``. Other new words
        are spelled in characters, or in all ways in which the tokens make pieces of them, those of few pieces first.
        Words that the graph has keep the spellings of the graph.
    segmentations : int
        The most spellings in pieces of a word without pronunciations, up to 64.
    max_bytes : int or str
        The most bytes, such as 2**30 or "1GiB", that the words which a graph lacks may take: about 120 for each token
        of each spelling, shared prefixes counted once, and as many again while they are compiled.

    Raises
    ------
    TypeError
        Phrases that are not str, scores that are not numbers, or a single str instead of a list.
    ValueError
        A phrase without words, one that occurs twice or is no text (half of a surrogate pair), or a score that is NaN
        or beyond 1000 in size; the message names the phrase. A word with an empty spelling; no size in bytes.
    FormatError
        A file of pronunciations breaks its format; the message names the line.

    Warns
    -----
    UserWarning
        `pronunciations` has a word of the list in another case alone, or is a mapping without any of its words.

    Examples
    --------
    >>> boost = arcbeam.Boost({"viterbi lattice": 6.0, "beam": 2.5})
    >>> hypotheses = decoder.decode(log_probs, lengths, boost=boost)
    """

    @lists_options()
    def __init__(
        self,
        phrases: Mapping[str, float] | Iterable[str],
        score: float | None = None,
        *,
        depth_scaling: float = 1.0,
        pronunciations: Pronounced | str | os.PathLike[str] | None = None,
        segmentations: int = 8,
        max_bytes: int | str = MOST_BYTES,
    ) -> None:
        if isinstance(phrases, (str, bytes)) or not isinstance(phrases, Iterable):
            raise TypeError(
                f"phrases: expected a mapping of phrases to scores, or a list of phrases, got {type(phrases).__name__}"
                + (f"; for one phrase write [{phrases!r}]" if isinstance(phrases, str) else "")
            )
        if isinstance(phrases, Mapping):
            if score is not None:
                raise ValueError("score: expected None, because every phrase has its own score")
            scores = list(phrases.values())
        else:
            scores = None
        names = phrases if isinstance(phrases, (list, tuple)) else list(phrases)
        check_real("depth_scaling", depth_scaling, "above 0", above=0.0)
        self.depth_scaling = float(depth_scaling)
        self._spellings = Spellings(pronunciations, segmentations, max_bytes)
        self._listed = checked(names, scores, DEFAULT_BOOST if score is None else score)
        if pronunciations is not None:
            self._spellings.warn_of_unused(set(self._listed.lines.split()))
        self._file: str | None = None  # that it was read from, for messages
        self._lists: WeakKeyDictionary[Graph, BoostList] = WeakKeyDictionary()

    @classmethod
    @lists_options()
    def read(
        cls,
        path: str | os.PathLike[str],
        score: float | None = None,
        *,
        depth_scaling: float = 1.0,
        pronunciations: Pronounced | str | os.PathLike[str] | None = None,
        segmentations: int = 8,
        max_bytes: int | str = MOST_BYTES,
    ) -> Self:
        """Reads a text file with a phrase on each line; a tab and a score may follow it.

        Parameters
        ----------
        path
            UTF-8 text. Empty lines mean nothing.
        score, depth_scaling, pronunciations, segmentations, max_bytes
            As for the class; `score` is that of the lines without one.

        Raises
        ------
        FormatError
            A line whose phrase has no words or occurs twice, or whose score is not a number; the message names it.
        TypeError, ValueError
            `score` is no number, or is NaN or beyond 1000 in size.
        OSError
            The file cannot be read.
        """
        given = checked_score(None, DEFAULT_BOOST if score is None else score)
        phrases = read_phrases(path, given, lambda text: normalised([text])[0], checked_score)
        made = cls(
            phrases, depth_scaling=depth_scaling, pronunciations=pronunciations, segmentations=segmentations,
            max_bytes=max_bytes,
        )  # fmt: skip
        made._file = os.fspath(path)
        return made

    @property
    def phrases(self) -> Mapping[str, float]:
        """Each phrase and its score."""
        return dict(self._phrases)

    @cached_property
    def _phrases(self) -> dict[str, float]:
        return self._listed.as_dict()

    @cached_property
    def largest(self) -> float:
        """The largest score of a phrase, a natural log; 0 for a list without phrases."""
        scores = self._listed.scores
        return scores if isinstance(scores, float) else max(scores, default=0.0)

    def __len__(self) -> int:
        return self._listed.size

    def __repr__(self) -> str:
        shown = [f"{phrase!r}: {score:g}" for phrase, score in itertools.islice(self._phrases.items(), 3)]
        return shown_as(
            f"Boost of {len(self):,} phrase{'s'[: len(self) != 1]}", *shown, *["..."][: len(self) > len(shown)]
        )

    def __reduce__(self) -> Any:
        return _restored, (self._phrases, self.depth_scaling, self._spellings)

    def with_scores(self, phrases: Mapping[str, float]) -> Boost:
        """A list of these phrases and scores, with the spellings of this one."""
        return _restored(dict(phrases), self.depth_scaling, self._spellings)

    def unknown(self, graph: Graph) -> dict[str, list[str]]:
        """The phrases that a graph cannot write, each with the words that it cannot write.

        They are left out when a decoder of that graph uses the list. Without an open slot these are the words that the
        graph lacks; with one, those that cannot be spelled in its tokens.
        """
        lacking = self._lacking(self.compiled(graph), index_of(graph))
        if graph.open_slot is None:
            return lacking
        _, reasons = self._spelled(lacking, graph)
        return {phrase: [word for word in words if word in reasons] for phrase, words in lacking.items()}

    def new_words(self, graph: Graph) -> dict[str, list[tuple[str, ...]]]:
        """The words that a graph lacks and writes in its open slot, each with its spellings, as tuples of tokens."""
        found = self.compiled(graph).new_words
        if found is None:
            return {}
        name = str if graph.tokens is None else graph.tokens.tokens.__getitem__
        return {
            word: [tuple(map(name, spelling)) for spelling in found.pronunciations.of(number)]
            for number, word in found.symbols.items()
        }

    def _lacking(self, made: BoostList, index: WordIndex) -> dict[str, list[str]]:
        """The phrases that were left out, each with the words that the graph lacks."""
        left_out = itertools.compress(self._phrases, made.is_known == 0)
        return {phrase: [word for word in phrase.split() if word not in index] for phrase in left_out}

    def _spelled(
        self, lacking: Mapping[str, list[str]], graph: Graph, name: str = ""
    ) -> tuple[dict[str, Place], dict[str, str]]:
        """The new words of phrases all of whose words can be spelled; and other words, with the reason."""
        spellings, reasons = self._spellings.of(itertools.chain.from_iterable(lacking.values()), graph, name)
        usable = [words for words in lacking.values() if reasons.keys().isdisjoint(words)]
        return {word: spellings[word] for word in itertools.chain.from_iterable(usable)}, reasons

    def compiled(self, graph: Graph) -> BoostList:
        """The list as the engines of this graph read it.

        Raises
        ------
        TypeError
            Something else than a graph.
        GraphError
            The graph has no word symbols.
        UnsupportedError
            The graph writes pieces of words.
        FormatError
            Most lines of a file of pronunciations are no spellings in the tokens of the graph, so it is another file.
        ValueError
            So many phrases end with the same word that they change a score by more than 8192; the message names it.
        CapacityError
            The new words take more than `max_bytes`.

        Warns
        -----
        UserWarning
            Once for each graph: it cannot write some of the phrases, which are left out. The message names words, and
            says what to do. With an open slot these are words of more than 1,000 characters, or without a spelling.
        """
        if not isinstance(graph, Graph):
            hint = "; give its graph" if isinstance(getattr(graph, "graph", None), Graph) else ""
            raise TypeError(f"graph: expected an arcbeam.Graph, got {type(graph).__name__}{hint}")
        made = self._lists.get(graph)
        return _compile(graph, {self: self._named("")}, 1)[0] if made is None else made

    def _named(self, otherwise: str) -> str:
        """The end of a message's "phrases": the file that they were read from, or something else."""
        return otherwise if self._file is None else f" of {self._file}"

    @lists_options()
    def calibrate(
        self,
        decoder: Decoder,
        log_probs: Any,
        lengths: Any = None,
        *,
        false_alarms: float = 0.01,
        largest: float | None = None,
    ) -> Boost:
        """The same phrases with the largest scores that rarely insert one of them where it was not said.

        All scores above 0 are multiplied by one factor, so that phrases without scores of their own get the same one.
        An utterance has a false alarm if its hypothesis contains a phrase with a score above 0 more often than the
        hypothesis of the same decoder without a boost does. Of the given utterances at most the share `false_alarms`
        has one, whatever the length of the list: a longer list gets lower scores.

        Parameters
        ----------
        decoder : CtcDecoder
            With the options that will be used; beam and acoustic scale matter most.
        log_probs : array [batch, frames, columns], or sequence of arrays [frames, columns]
            Speech in which none of the phrases is said, as `CtcDecoder.decode` takes it. It is decoded about eight
            times. With fewer than ``1 / false_alarms`` utterances not a single false alarm is accepted.
        lengths : sequence or array of int [batch], optional
            Frames of each utterance.
        false_alarms : float
            The largest share of the utterances that may have a false alarm, from 0 to below 1.
        largest : float or None
            The largest score that any phrase may get, a natural log; None for half the decoder's beam.

        Returns
        -------
        Boost
            A new list, whose largest score is a multiple of 1/8; negative scores are as they were. The search for it
            halves the range that is left, as if false alarms never became fewer with larger scores; the scores that
            are returned were tried and keep to the share.

        Raises
        ------
        TypeError, ValueError
            A decoder of another kind, no utterance, a share or a largest score out of range, an infinite beam without
            `largest`, no phrase above 0 that the graph can write, or false alarms even with scores up to 1/8. And what
            `compiled` and `CtcDecoder.decode` raise.

        Warns
        -----
        UserWarning
            As `compiled` does.

        Examples
        --------
        >>> boost = arcbeam.Boost(["norland", "mister dashwood"]).calibrate(decoder, other_speech)
        """
        return calibrated(self, decoder, log_probs, lengths, false_alarms, largest)

    def occurrences(self, words: Sequence[str]) -> list[tuple[str, float, int, int]]:
        """Where phrases occur among words: phrase, score, and the range of its words, by their ends."""
        lengths = self._lengths
        found = []
        for end in range(1, len(words) + 1):
            for length in lengths:
                phrase = " ".join(words[end - length : end]) if length <= end else None
                if phrase in self._phrases:
                    found.append((phrase, self._phrases[phrase], end - length, end))
        return found

    @cached_property
    def _lengths(self) -> list[int]:
        """The numbers of words that phrases have, the largest first."""
        return sorted({1 + phrase.count(" ") for phrase in self._phrases}, reverse=True)


def compiled_lists(graph: Graph, boosts: Sequence[Boost | None], threads: int) -> list[BoostList | None]:
    """The lists of a call's utterances as `Boost.compiled` gives them; new ones are compiled in parallel."""
    found = [None if boost is None else boost._lists.get(graph) for boost in boosts]
    new: dict[Boost, str] = {}
    for at, (boost, made) in enumerate(zip(boosts, found, strict=True)):
        if boost is not None and made is None:
            new.setdefault(boost, boost._named(f" of utterance {at}"))
    if not new:
        return found
    _compile(graph, new, threads)
    return [None if boost is None else boost._lists[graph] for boost in boosts]


def _compile(graph: Graph, named: Mapping[Boost, str], threads: int) -> list[BoostList]:
    """Compiles lists new to a graph, each with a name for messages; warns of phrases that the graph cannot write."""
    boosts, index = list(named), index_of(graph)
    for boost in boosts:
        boost._spellings.check(graph)

    def made(some: list[Boost], new_words: Sequence[NewWords | None]) -> list[BoostList]:
        scalings = [boost.depth_scaling for boost in some]
        return compiled(index, [boost._listed for boost in some], scalings, list(new_words), threads)

    found = made(boosts, [None] * len(boosts))
    lacking = {at: boosts[at]._lacking(one, index) for at, one in enumerate(found) if not one.all_known}
    if graph.open_slot is None:
        words = dict.fromkeys(word for phrases in lacking.values() for some in phrases.values() for word in some)
        unwritten = dict.fromkeys(words, "")
    else:
        names = [named[boost] for boost in boosts]
        spelled = {at: boosts[at]._spelled(phrases, graph, names[at]) for at, phrases in lacking.items()}
        unwritten = {word: reason for _, reasons in spelled.values() for word, reason in reasons.items()}
        new_words = {
            at: NewWords(graph, spellings, boosts[at]._spellings.max_bytes, names[at])
            for at, (spellings, _) in spelled.items()
            if spellings
        }
        again = made([boosts[at] for at in new_words], list(new_words.values()))
        for at, one in zip(new_words, again, strict=True):
            found[at] = one
    for boost, one in zip(boosts, found, strict=True):
        check_sums(graph, one, named[boost])
    for boost, one in zip(boosts, found, strict=True):  # of all or of none, so that the warning is not lost
        boost._lists[graph] = one
    if unwritten:
        lists = [at for at, one in enumerate(found) if not one.all_known]
        left_out = sum(int((found[at].is_known == 0).sum()) for at in lists), sum(len(boosts[at]) for at in lists)
        warn_of_left_out(graph, index, unwritten, left_out, [named[boosts[at]] for at in lists])
    return found


def _restored(phrases: dict[str, float], depth_scaling: float, spellings: Spellings) -> Boost:
    made = Boost(phrases, depth_scaling=depth_scaling)
    made._spellings = spellings
    return made


__all__ = ["Boost", "Boosted", "compiled_lists"]
