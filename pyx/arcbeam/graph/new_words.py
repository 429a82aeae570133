"""The words of a request that a graph lacks, as states and arcs in its open slot (law 9 of ``docs/design/rules.md``).

`cpu_reference/graph/open_graph.hpp` draws how they are connected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from arcbeam.core.errors import CapacityError
from arcbeam.graph._new_words import SpelledWords, Tree
from arcbeam.graph._words import WordReader
from arcbeam.graph.openfst import EPSILON_COLUMN
from arcbeam.graph.pronunciations import Pronunciations
from arcbeam.graph.symbols import SymbolTable
from arcbeam.graph.token_table import TokenTable

if TYPE_CHECKING:
    from arcbeam.graph.graph import Graph

Place = tuple[SpelledWords, int]  # a word with its spellings


class NewWords:
    """The states and arcs of a request's new words, numbered after the graph's, in at most `max_bytes`."""

    # The spellings form a tree. A token has a state with a loop, and another one for the blanks after it if it is not
    # the last. A word is written by the first arc that belongs to it alone, or else by the epsilon arc at its end.
    # Arc k leads from the k-th entrance to a first state.

    def __init__(self, graph: Graph, spellings: Mapping[str, Place], max_bytes: int, name: str = "") -> None:
        assert graph.open_slot is not None
        slot = graph.open_slot
        self.entrances = slot.entrances
        self.first_state, self.first_arc = graph.num_states, graph.num_arcs
        self.first_word = first_new_word(graph)
        names = sorted(spellings)
        spelled = SpelledWords.gathered([spellings[name] for name in names])
        self.symbols = _numbered(names, self.first_word)
        self.pronunciations = Pronunciations(*spelled.arrays(self.first_word))
        tree = Tree(spelled, self.first_word, graph.blank, *loops_of(graph))
        exits, group_of = np.unique(slot.exits, return_inverse=True)
        needed = tree.nbytes(len(exits), len(slot.entrances)) + spelled.nbytes
        if needed > max_bytes:
            raise too_large(f"{needed:,} bytes for this graph", max_bytes, name)
        depths = np.zeros(len(exits), "<u4")
        np.maximum.at(depths, group_of, graph.states["depth"][slot.entrances] + 1)
        firsts, self.states, self.targets, self.columns, self.words, self.finals = tree.copies(
            self.first_state, self.first_arc, exits, depths, len(slot.entrances)
        )
        entering = slice(0, len(slot.entrances))
        self.targets["next_state"][entering], self.targets["weight"][entering] = firsts[group_of], slot.weights
        self.columns[entering], self.words[entering] = EPSILON_COLUMN, 0

    def __len__(self) -> int:
        return len(self.symbols)


def too_large(size: str, max_bytes: int, name: str) -> CapacityError:
    """The error of new words that take too much memory."""
    return CapacityError(
        f"boost: the new words{name} take {size}, more than max_bytes={max_bytes:,}; give a larger one, such as "
        "Boost(..., max_bytes='4GiB'), fewer segmentations, or fewer or shorter new words"
    )


def _numbered(names: Sequence[str], first: int) -> SymbolTable:
    """A table of names, which ascend, with the ids from `first` on."""
    encoded = [name.encode() for name in names]
    offsets = np.zeros(len(names) + 1, "<i8")
    np.cumsum([len(name) for name in encoded], out=offsets[1:])
    ids = np.arange(first, first + len(names), dtype="<i8")
    return SymbolTable(ids, offsets, np.frombuffer(b"".join(encoded), np.uint8))


def loops_of(graph: Graph) -> tuple[bool, bool]:
    """Whether tokens have loops, and need a blank where they repeat, by the topology (``docs/guide/graphs.md``)."""
    topology = graph.meta.get("topology", "compact")
    loops = bool(graph.meta.get("token_self_loops", 1)) and topology != "identity"
    return loops, topology in ("normal", "greedy")


def first_new_word(graph: Graph) -> int:
    """The id of a request's first new word."""
    assert graph.word_symbols is not None
    return 1 + max(int(graph.words.max(initial=0)), int(graph.word_symbols.arrays()[0].max(initial=0)))


class OpenGraph:
    """A graph with the new words of a request, with what reading paths and lattices needs of a `Graph`."""

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
