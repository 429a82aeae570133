"""The words of a request that a graph lacks, as states and arcs in its open slot (law 9 of ``docs/design/rules.md``).

`cpu_reference/graph/open_graph.hpp` draws how they are connected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from arcbeam.graph import _graph
from arcbeam.graph._words import WordReader
from arcbeam.graph.pronunciations import Pronunciations
from arcbeam.graph.symbols import SymbolTable, TokenTable

if TYPE_CHECKING:
    from arcbeam.graph.graph import Graph

EPSILON_COLUMN = 0xFFFF
SEVERAL = -1
ARC = np.dtype([("next_state", "<u4"), ("weight", "<f4"), ("column", "<u2"), ("word", "<u4")])
Arc = tuple[int, float, int, int]  # its fields
Spelling = tuple[int, ...]  # columns


class NewWords:
    """The states and arcs of a request's new words. Ids go on from the graph's.

    The spellings form a tree. A token has a state with a loop, and another one for the blanks behind it if it is not
    the last. A word is written by the first arc that belongs to it alone, or else by the epsilon arc at its end.

    Parameters
    ----------
    graph : Graph
        With an open slot.
    spellings : mapping of str to sequence of tuple of int
        Columns of each spelling of each word. Words are numbered in the order of their code points.

    Attributes
    ----------
    states : structured [states + 1]
        As of `Graph`.
    targets, columns, words : [arcs]
        As of `Graph`. Arc k leads from the k-th entrance to a first state.
    finals : float32 [states]
        +inf.
    entrances : uint32 [E]
        The graph's.
    first_state, first_arc, first_word : int
        The ids with which the new ones begin.
    symbols : SymbolTable
    pronunciations : Pronunciations
    """

    def __init__(self, graph: Graph, spellings: Mapping[str, Sequence[Spelling]]) -> None:
        assert graph.open_slot is not None
        slot = graph.open_slot
        self.entrances = slot.entrances
        self.first_state, self.first_arc = graph.num_states, graph.num_arcs
        self.first_word = first_new_word(graph)
        names = sorted(spellings)
        ids = range(self.first_word, self.first_word + len(names))
        self.symbols = SymbolTable.from_ids(ids, names)
        pairs = [(i, spelling) for i, name in zip(ids, names, strict=True) for spelling in spellings[name]]
        self.pronunciations = Pronunciations.from_lists(pairs)
        tree = _Tree(pairs)
        rules = _Rules.of(graph)
        exits, group_of = np.unique(slot.exits, return_inverse=True)
        firsts: list[int] = []
        records: list[tuple[int, int, float, int]] = []
        depth = graph.states["depth"][slot.entrances]

        def leave() -> Iterator[Arc]:  # they are many, and take less room in an array
            begin = self.first_arc + len(slot.entrances)
            for group, leave_to in enumerate(exits.tolist()):
                first = self.first_state + len(records)
                firsts.append(first)
                outermost = int(depth[group_of == group].max()) + 1
                for leaving in tree.states(first, leave_to, rules):
                    epsilons = sum(arc[2] == EPSILON_COLUMN for arc in leaving)
                    smallest = 0.0 if epsilons < len(leaving) else np.inf
                    at_depth = outermost if self.first_state + len(records) == first else 0
                    records.append((begin, begin + epsilons, smallest, at_depth))
                    begin += len(leaving)
                    yield from leaving
            records.append((begin, begin, np.inf, 0))

        arcs = np.fromiter(leave(), ARC)
        self.states = np.array(records, _graph.STATE_DTYPE)
        entering = np.zeros(len(slot.entrances), ARC)
        entering["next_state"], entering["weight"] = np.array(firsts, "<u4")[group_of], slot.weights
        entering["column"] = EPSILON_COLUMN
        own = np.concatenate([entering, arcs])
        self.targets = np.empty(len(own), _graph.TARGET_DTYPE)
        self.targets["next_state"], self.targets["weight"] = own["next_state"], own["weight"]
        self.columns, self.words = own["column"].copy(), own["word"].copy()
        self.finals = np.full(len(records) - 1, np.inf, "<f4")

    def __len__(self) -> int:
        return len(self.symbols)


def first_new_word(graph: Graph) -> int:
    """The id of a request's first new word."""
    assert graph.word_symbols is not None
    return 1 + max(int(graph.words.max(initial=0)), int(graph.word_symbols.arrays()[0].max(initial=0)))


class OpenGraph:
    """A graph with the new words of a request, with what reading paths and lattices needs of a `Graph`.

    Parameters
    ----------
    graph : Graph
    new_words : NewWords
    """

    def __init__(self, graph: Graph, new_words: NewWords) -> None:
        self.graph, self.new_words = graph, new_words

    @property
    def columns(self) -> Joined:
        """As of the graph."""
        return Joined(self.graph.columns, self.new_words.columns)

    @property
    def words(self) -> Joined:
        """As of the graph."""
        return Joined(self.graph.words, self.new_words.words)

    @property
    def weights(self) -> Joined:
        """The weights of arcs."""
        return Joined(self.graph.targets["weight"], self.new_words.targets["weight"])

    @property
    def finals(self) -> Joined:
        """As of the graph."""
        return Joined(self.graph.finals, self.new_words.finals)

    @property
    def tokens(self) -> TokenTable | None:
        """As of the graph."""
        return self.graph.tokens

    @property
    def word_symbols(self) -> JoinedSymbols:
        """As of the graph."""
        assert self.graph.word_symbols is not None
        return JoinedSymbols(self.graph.word_symbols, self.new_words)

    @cached_property
    def word_reader(self) -> WordReader:
        """Reads the words of paths."""
        return WordReader(self)


class Joined:
    """An array of a graph, followed by that of a request."""

    def __init__(self, of_graph: npt.NDArray[Any], of_request: npt.NDArray[Any]) -> None:
        self._of_graph, self._of_request = of_graph, of_request

    def __getitem__(self, ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
        count = len(self._of_graph)
        is_new = ids >= count
        found = np.empty(np.shape(ids), self._of_graph.dtype)
        found[~is_new] = self._of_graph[ids[~is_new]]
        found[is_new] = self._of_request[ids[is_new] - count]
        return found


class JoinedSymbols:
    """The words of a graph and a request by their ids."""

    def __init__(self, of_graph: SymbolTable, new_words: NewWords) -> None:
        self._of_graph, self._new_words = of_graph, new_words

    def __getitem__(self, word: int) -> str:
        return (self._new_words.symbols if word >= self._new_words.first_word else self._of_graph)[word]

    def items(self) -> Iterable[tuple[int, str]]:
        """Ids and words, ascending."""
        yield from self._of_graph.items()
        yield from self._new_words.symbols.items()


class _Rules:
    """How tokens follow each other, by the topology of the graph (`arcbeam.recipe.topology`)."""

    def __init__(self, blank: int | None, loops: bool, repeats_need_blank: bool) -> None:
        self.blank, self.loops, self.repeats_need_blank = blank, loops, repeats_need_blank

    @classmethod
    def of(cls, graph: Graph) -> _Rules:
        topology = graph.meta.get("topology", "compact")
        loops = bool(graph.meta.get("token_self_loops", 1)) and topology != "identity"
        return cls(graph.blank, loops, topology == "normal")


class _Node:
    __slots__ = ("blank_state", "children", "column", "endings", "state", "word")

    def __init__(self, column: int) -> None:
        self.column = column
        self.children: dict[int, _Node] = {}
        self.endings: list[int] = []  # words
        self.word = 0  # that passes through here; SEVERAL if there are more
        self.state = self.blank_state = 0


class _Tree:
    """The tree of spellings. States and arcs are those of the node, then those of its children by their columns."""

    def __init__(self, spellings: Sequence[tuple[int, Spelling]]) -> None:
        self._root = _Node(EPSILON_COLUMN)
        for word, spelling in spellings:
            node = self._root
            for column in spelling:
                if column not in node.children:
                    node.children[column] = _Node(column)
                node = node.children[column]
                node.word = word if node.word in (0, word) else SEVERAL
            if word not in node.endings:
                node.endings.append(word)
        self._nodes: list[_Node] = []
        waiting = [self._root]
        while waiting:
            node = waiting.pop()
            self._nodes.append(node)
            waiting.extend(node.children[column] for column in sorted(node.children, reverse=True))

    def states(self, first: int, leave_to: int, rules: _Rules) -> Iterable[list[Arc]]:
        """The arcs of each state from the id `first` on: (next state, weight, column, word), in their order."""
        at = first
        for node in self._nodes:
            node.state = at
            has_blanks = node is not self._root and rules.blank is not None and bool(node.children)
            node.blank_state = at + 1 if has_blanks else 0
            at += 1 + has_blanks
        for node in self._nodes:
            entering = [
                (child.state, 0.0, child.column, self._written(node, child)) for child in node.children.values()
            ]
            if node is self._root:
                yield _sorted(entering)
                continue
            is_written = node.word != SEVERAL  # by this arc, or by one before
            own = [(leave_to, 0.0, EPSILON_COLUMN, 0 if is_written else word) for word in sorted(node.endings)]
            if rules.loops:
                own.append((node.state, 0.0, node.column, 0))
            own += [arc for arc in entering if not (rules.repeats_need_blank and arc[2] == node.column)]
            if node.blank_state:
                assert rules.blank is not None
                own.append((node.blank_state, 0.0, rules.blank, 0))
            yield _sorted(own)
            if node.blank_state:
                assert rules.blank is not None
                yield _sorted([(node.blank_state, 0.0, rules.blank, 0), *entering])

    def _written(self, node: _Node, child: _Node) -> int:
        """The word that an arc from a node to its child writes: 0, unless it is the first that belongs to it alone."""
        is_first = node is self._root or node.word == SEVERAL
        return child.word if is_first and child.word != SEVERAL else 0


def _sorted(arcs: list[Arc]) -> list[Arc]:
    """Epsilon arcs, then the others by column, as in a graph."""
    return sorted(arcs, key=lambda arc: -1 if arc[2] == EPSILON_COLUMN else arc[2])
