"""The graph of a batch of texts: what each of them may be read as, from a start state of its own to its end."""

# A word's labels stand between two gaps. `B` is the state of the blanks in a gap or between two labels, `|` that of the
# separator, which is in gaps alone. A star belongs to a gap, too.
#
#        _       _   h   _   _   i   _       _
#       ( )     ( ) ( ) ( ) ( ) ( ) ( )     ( )
#   --->(B)---->(h)---->(B)---->(i)---->(B)---->...    also from h to i, and from i to the next word, if the topology
#        ^ \                              ^ \          allows that without a blank
#        ---(|)                           ---(|)
#
# Every arc reads a frame but those into a star, of which two states read any column.

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from arcbeam.graph.graph import Graph
from arcbeam.graph.new_words import loops_of
from arcbeam.graph.openfst import EPSILON_COLUMN

if TYPE_CHECKING:
    from typing import Self

Ints = npt.NDArray[np.int64]
STAR = "<star>"
OF_STAR = -1  # the place of a star among words
NO_ITEM = -1  # of states of blanks and separators
NO_COLUMN = -2


class Texts(NamedTuple):
    """Texts as words with their spellings."""

    spellings: Sequence[Sequence[Sequence[int]]]  # of each distinct word, in columns
    items: Sequence[Sequence[int]]  # of each text: places in `spellings`, or OF_STAR, never twice in a row


class Rules(NamedTuple):
    """How labels follow each other, by the topology of the decoder's graph."""

    blank: int | None
    separator: int | None
    loops: bool
    repeats_need_blank: bool

    @classmethod
    def of(cls, graph: Graph) -> Self:
        """Those of a graph."""
        return cls(graph.blank, graph.separator_column, *loops_of(graph))


@dataclass(frozen=True, eq=False)
class TextGraph:
    """The graph, and what its states stand for; state 0 is none of a text's."""

    graph: Graph
    starts: npt.NDArray[np.uint32]  # [texts]
    num_states: Ints  # [texts]
    item_of_state: npt.NDArray[np.int32]  # [states]: the word or star of a text; NO_ITEM for blanks and separators
    column_of_state: npt.NDArray[np.int32]  # [states]: what each reads; OF_STAR for any column, NO_COLUMN for none

    def columns_read(self) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """[texts, columns]: what each text may take; [texts]: whether it has a star, which may take any."""
        read = np.zeros((len(self.starts), self.graph.num_columns + 2), np.bool_)  # last: NO_COLUMN and OF_STAR
        read[np.repeat(np.arange(len(self.starts)), self.num_states), self.column_of_state[1:]] = True
        return read[:, :-2], read[:, OF_STAR]

    def frame_path(
        self, arcs: npt.NDArray[np.uint32]
    ) -> tuple[npt.NDArray[np.int32], Ints, Ints, npt.NDArray[np.bool_]]:
        """Of each frame of paths its column, its state, the word or star of the text, and whether it is a star."""
        columns = self.graph.columns[arcs]
        reads = columns != EPSILON_COLUMN
        states = self.graph.targets["next_state"][arcs[reads]].astype(np.int64)
        is_star = self.column_of_state[states] == OF_STAR
        return columns[reads].astype(np.int32), states, self.item_of_state[states].astype(np.int64), is_star


def too_few_frames(texts: Texts, rules: Rules, frames: Sequence[int]) -> dict[int, int]:
    """The texts that take more frames than there are, and how many each takes at least."""
    bounds = [2 * max(map(len, spellings)) for spellings in texts.spellings]  # a blank after each token
    bounds.append(0)  # of a star, whose place is -1
    found = {}
    for i, (items, given) in enumerate(zip(texts.items, frames, strict=True)):
        if sum(map(bounds.__getitem__, items)) > given and (needed := fewest_frames(texts, items, rules)) > given:
            found[i] = needed
    return found


def fewest_frames(texts: Texts, items: Sequence[int], rules: Rules) -> int:
    """The frames that one of the texts takes at least."""
    ends = {-1: 0}  # by the last column: the fewest frames
    for item in items:
        if item == OF_STAR:
            continue
        reached: dict[int, int] = {}
        for spelling in texts.spellings[item]:
            first, last = spelling[0], spelling[-1]
            before = min(n + (rules.repeats_need_blank and end == first) for end, n in ends.items())
            needed = before + len(spelling) + _repeats(spelling, rules)
            reached[last] = min(reached.get(last, needed), needed)
        ends = reached
    return min(ends.values())


def _repeats(spelling: Sequence[int], rules: Rules) -> int:
    """The blanks that a spelling needs within it."""
    if not rules.repeats_need_blank:
        return 0
    return sum(a == b for a, b in itertools.pairwise(spelling))


def text_graph(decoded: Graph, texts: Texts, star: float) -> TextGraph:
    """The graph of texts in the labels and by the topology of `decoded`; `star`: the cost of a frame of a star."""
    rules = Rules.of(decoded)
    at = _Layout(texts, rules)
    arcs = _Arcs()
    _blanks_and_loops(arcs, at, rules)
    _words(arcs, at, rules)
    _separators(arcs, at, rules)
    _stars(arcs, at, rules, decoded.num_columns, star)
    graph = Graph.from_arcs(
        arcs.arrays(),
        finals=at.finals(),
        num_states=at.num_states,
        tokens=decoded.tokens,
        blank=decoded.blank,
        num_columns=None if decoded.tokens is not None or not decoded.width_is_exact else decoded.num_columns,
        separator=decoded.separator,
        separator_column=decoded.separator_column,
    )
    return TextGraph(graph, at.gap[at.first_gap].astype(np.uint32), at.states_of_texts(), *at.meaning(rules))


def _runs(counts: Ints) -> Ints:
    """0, 1, ... count - 1 for each count, one after the other."""
    return np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)


class _Layout:
    """The states of all texts: for each a gap, a word, a gap and so on, in this order."""

    def __init__(self, texts: Texts, rules: Rules) -> None:
        sizes = np.array([len(items) for items in texts.items], np.int64)
        items = np.array([item for one in texts.items for item in one], np.int64)
        is_word = items != OF_STAR
        text_of_item = np.repeat(np.arange(len(sizes)), sizes)
        place = _runs(sizes)
        words_before = np.cumsum(is_word) - is_word
        self.items = place[is_word]  # [words]: the place of each in its text
        text_of_word = text_of_item[is_word]
        num_words = np.bincount(text_of_word, minlength=len(sizes))
        word = np.arange(len(text_of_word))
        self.before, self.after = word + text_of_word, word + text_of_word + 1  # [words]: gaps
        self.first_gap = np.cumsum(num_words + 1) - (num_words + 1)
        self.last_gap = self.first_gap + num_words
        self.words = items[is_word]

        # Spellings of all words of texts, and their tokens.
        counts = np.array([len(spellings) for spellings in texts.spellings], np.int64)
        lengths = np.array([len(s) for spellings in texts.spellings for s in spellings], np.int64)
        columns = np.array([c for spellings in texts.spellings for s in spellings for c in s], np.int64)
        self.spellings = counts[self.words]  # [words]
        self.word_of_spelling = np.repeat(word, self.spellings)
        self.first_spelling = np.cumsum(self.spellings) - self.spellings
        listed = (np.cumsum(counts) - counts)[self.words[self.word_of_spelling]] + _runs(self.spellings)
        length = lengths[listed]
        self.first_token = np.cumsum(length) - length  # [spellings]
        self.last_token = self.first_token + length - 1
        spelling_of_token, at = np.repeat(np.arange(len(listed)), length), _runs(length)
        self.columns = columns[(np.cumsum(lengths) - lengths)[listed[spelling_of_token]] + at]  # [tokens]
        self.word_of_token = self.word_of_spelling[spelling_of_token]
        self.inner = np.flatnonzero(at + 1 < length[spelling_of_token])  # tokens with another one after them

        # A token has a state, and if it is not the last of its spelling another one for the blanks after it.
        step = 1 if rules.blank is None else 2
        self.star_gaps = (words_before + text_of_item)[~is_word]
        self.star_items = place[~is_word]
        self.has_separator = rules.separator is not None
        gap_sizes = np.full(int((num_words + 1).sum()), 1 + self.has_separator, np.int64)
        star_at = gap_sizes[self.star_gaps] + 1
        gap_sizes[self.star_gaps] += 2
        spelling_sizes = step * (length - 1) + 1
        word_sizes = np.bincount(self.word_of_spelling, spelling_sizes, len(word)).astype(np.int64)
        units = np.empty(len(gap_sizes) + len(word_sizes), np.int64)
        unit_of_gap = 2 * np.arange(len(gap_sizes)) - np.repeat(np.arange(len(sizes)), num_words + 1)
        unit_of_word = 2 * word + text_of_word + 1
        units[unit_of_gap], units[unit_of_word] = gap_sizes, word_sizes
        first = 1 + np.cumsum(units) - units
        self.num_states = 1 + int(units.sum())
        self.gap = first[unit_of_gap]  # the states of blanks
        in_word = np.cumsum(spelling_sizes) - spelling_sizes
        in_word -= np.repeat(in_word[self.first_spelling], self.spellings)
        self.token = (first[unit_of_word][self.word_of_spelling] + in_word)[spelling_of_token] + step * at
        self.star = self.gap[self.star_gaps] + star_at  # the second state of each star; the first is before it

    def finals(self) -> npt.NDArray[np.float32]:
        """float32 [states]: 0 where a text may end, and in state 0, with which a path without arcs ends."""
        costs = np.full(self.num_states, np.inf, np.float32)
        ends = np.zeros(len(self.gap), np.bool_)
        ends[self.last_gap] = True
        costs[0] = 0.0
        costs[self.gap[ends]] = 0.0
        if self.has_separator:
            costs[self.gap[ends] + 1] = 0.0
        costs[self.token[self.last_token[ends[self.after[self.word_of_spelling]]]]] = 0.0
        costs[self.star[ends[self.star_gaps]]] = 0.0
        return costs

    def states_of_texts(self) -> Ints:
        """int64 [texts]: how many states each has."""
        return np.diff(self.gap[self.first_gap], append=self.num_states)

    def meaning(self, rules: Rules) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """The fields of `TextGraph` about states."""
        items = np.full(self.num_states, NO_ITEM, np.int32)
        columns = np.full(self.num_states, NO_COLUMN, np.int32)
        if rules.blank is not None:
            columns[1:] = rules.blank
        columns[self.star - 1] = NO_COLUMN
        if rules.separator is not None:
            columns[self.gap + 1] = rules.separator
        columns[self.token], items[self.token] = self.columns, self.items[self.word_of_token]
        columns[self.star], items[self.star] = OF_STAR, self.star_items
        return items, columns


@dataclass
class _Arcs:
    """Arcs as they are added; of one state and one column those that were added first have the smaller number."""

    groups: list[tuple[npt.NDArray[Any], ...]] = field(default_factory=list)

    def add(self, sources: Any, targets: Any, columns: Any, weights: Any = 0.0) -> None:
        """Adds a group; column -1 is an epsilon arc."""
        kinds = (np.int64, np.int64, np.int64, np.int64, np.float32)
        values = (sources, targets, np.asarray(columns) + 1, 0, weights)
        arrays = [np.asarray(value, kind) for value, kind in zip(values, kinds, strict=True)]
        self.groups.append(tuple(array.ravel() for array in np.broadcast_arrays(*arrays)))

    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        """The five arrays of `Graph.from_arcs`."""
        return tuple(np.concatenate(column) for column in zip(*self.groups, strict=True))


def _blanks_and_loops(arcs: _Arcs, at: _Layout, rules: Rules) -> None:
    """What stays in a token or among blanks, and what leads from a token to the blanks after it."""
    if rules.loops:
        arcs.add(at.token, at.token, at.columns)
    if rules.blank is None:
        arcs.add(at.gap[:0], at.gap[:0], 0)  # a batch may have no arcs at all
        return
    arcs.add(at.gap, at.gap, rules.blank)
    inner = at.token[at.inner]
    arcs.add(inner + 1, inner + 1, rules.blank)
    arcs.add(inner, inner + 1, rules.blank)
    last = at.last_token
    arcs.add(at.token[last], at.gap[at.after[at.word_of_spelling]], rules.blank)


def _words(arcs: _Arcs, at: _Layout, rules: Rules) -> None:
    """What leads on to the tokens of words."""
    here, following = at.inner, at.inner + 1
    near = _may_follow(at.columns[here], at.columns[following], rules)
    arcs.add(at.token[here[near]], at.token[following[near]], at.columns[following[near]])
    if rules.blank is not None:
        arcs.add(at.token[here] + 1, at.token[following], at.columns[following])
    first = at.first_token
    arcs.add(at.gap[at.before[at.word_of_spelling]], at.token[first], at.columns[first])
    # Every spelling of a word may be followed by every one of the next word of its text.
    has_next = np.flatnonzero(at.before[1:] == at.after[:-1])
    leads = np.zeros(len(at.words), np.int64)
    leads[has_next] = at.spellings[has_next + 1]
    counts = leads[at.word_of_spelling]
    left = np.repeat(np.arange(len(counts)), counts)
    right = at.first_spelling[at.word_of_spelling[left] + 1] + _runs(counts) if len(left) else left
    left_token, right_token = at.last_token[left], at.first_token[right]
    near = _may_follow(at.columns[left_token], at.columns[right_token], rules)
    left_token, right_token = left_token[near], right_token[near]
    arcs.add(at.token[left_token], at.token[right_token], at.columns[right_token])


def _may_follow(left: Ints, right: Ints, rules: Rules) -> npt.NDArray[np.bool_]:
    """Whether a label may follow another one without a blank between them."""
    return (left != right) | (not rules.repeats_need_blank)


def _separators(arcs: _Arcs, at: _Layout, rules: Rules) -> None:
    """Any number of separators in each gap, with blanks between them or not."""
    if rules.separator is None:
        return
    separator, column = at.gap + 1, rules.separator
    arcs.add(separator, separator, column)  # the same one or, where labels have no loops, another one
    arcs.add(at.gap, separator, column)
    if rules.blank is not None:
        arcs.add(separator, at.gap, rules.blank)
    into, after = at.before[at.word_of_spelling], at.after[at.word_of_spelling]
    first, last = at.first_token, at.last_token
    near = _may_follow(at.columns[last], np.full(len(last), column), rules)
    arcs.add(at.token[last[near]], separator[after[near]], column)
    near = _may_follow(np.full(len(first), column), at.columns[first], rules)
    arcs.add(separator[into[near]], at.token[first[near]], at.columns[first[near]])


def _stars(arcs: _Arcs, at: _Layout, rules: Rules, num_columns: int, cost: float) -> None:
    """Stars, each with a state that is entered without reading a frame, and one for all frames after the first."""
    if not len(at.star):
        return
    star, gaps = at.star, at.star_gaps
    blanks = at.gap[gaps]
    place = np.full(len(at.gap), -1, np.int64)
    place[gaps] = np.arange(len(gaps))
    arcs.add(blanks, star - 1, -1)
    after = place[at.after[at.word_of_spelling]]
    arcs.add(at.token[at.last_token[after >= 0]], star[after[after >= 0]] - 1, -1)
    every = np.arange(num_columns)[:, None]
    arcs.add(star - 1, star, every, cost)
    arcs.add(star, star, every, cost)
    into = place[at.before[at.word_of_spelling]]
    first = at.first_token[into >= 0]
    arcs.add(star[into[into >= 0]], at.token[first], at.columns[first])
    if rules.blank is not None:
        arcs.add(star, blanks, rules.blank)
    if rules.separator is not None:
        arcs.add(blanks + 1, star - 1, -1)
        arcs.add(star, blanks + 1, rules.separator)
