"""How new words are compiled, in plain Python: spellings by pieces, and their tree as states and arcs (law 9)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace

import numpy as np

from arcbeam import Graph, SymbolTable
from arcbeam.core.pieces import stuck_at
from arcbeam.graph import _graph
from arcbeam.graph.new_words import first_new_word
from arcbeam.graph.pronunciations import Pronunciations

EPSILON_COLUMN = 0xFFFF
SEVERAL = -1
ARC = np.dtype([("next_state", "<u4"), ("weight", "<f4"), ("column", "<u2"), ("word", "<u4")])
Arc = tuple[int, float, int, int]  # its fields
Spelling = tuple[int, ...]  # columns


def new_words(graph: Graph, spellings: Mapping[str, Sequence[Spelling]]) -> SimpleNamespace:
    """The attributes of `NewWords`."""
    assert graph.open_slot is not None
    self, slot = SimpleNamespace(), graph.open_slot
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
    return self


def by_pieces(text: str, pieces: dict[str, int], most: int, mark: str | None = None) -> list[Spelling]:
    """The ways to cut a text into tokens, those of the fewest tokens first, then by their columns.

    Ways from a place on share what they have in common: each is the number of its tokens, the column of the first, and
    the number of the way that goes on after it, which is at the place `end`.
    """
    longest = max(map(len, pieces), default=0)
    ways: list[list[tuple[int, int, int, int]]] = [[] for _ in text] + [[(0, 0, 0, 0)]]
    for begin in reversed(range(len(text))):
        found = (
            (1 + way[0], pieces[text[begin:end]], rank, end)
            for end in range(begin + 1, min(begin + longest, len(text)) + 1)
            if text[begin:end] in pieces
            for rank, way in enumerate(ways[end])
        )
        ways[begin] = heapq.nsmallest(most, found)
    if not ways[0]:
        letter = stuck_at(text, pieces, longest, mark)
        raise ValueError(f"no token for {letter!r}")
    spelled = []
    for way in ways[0]:
        columns = []
        while way[0]:
            _, column, rank, end = way
            columns.append(column)
            way = ways[end][rank]
        spelled.append(tuple(columns))
    return spelled


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

    def states(self, first: int, leave_to: int, rules: _Rules) -> Iterator[list[Arc]]:
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
