"""A lattice whose links write pieces of words, as one whose links write words, each with its first piece."""
# A token becomes one token for each rest of a word that follows it on some path, "" where no word goes on:
#
#     pieces   0 -▁a> 1 -b> 2 -▁c> 3      words   (0, "") -ab> (1, "b") ---> (2, "") -c> (3, "")
#              0 ---▁ab---> 2                     (0, "") ------ab---------> (2, "")

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from arcbeam.core.errors import CapacityError
from arcbeam.core.pieces import split_piece
from arcbeam.ctc.lattice.arrays import LatticeArrays
from arcbeam.ctc.lattice.from_arcs import Arcs, lattice_of_arcs
from arcbeam.graph.openfst import input_labels
from arcbeam.graph.symbols import SymbolTable

if TYPE_CHECKING:
    from arcbeam.ctc.lattice._lattices import Lattices
    from arcbeam.graph.graph import Graph

MOST_LINKS = 1 << 22  # of words, for which a link takes some 300 bytes while they are made
OPENS = None  # in place of a rest: the next piece with letters begins a word, though it has no mark
Rest = str | None


@dataclass
class _Found:
    """The new arcs and tokens, from the last to the first."""

    places: list[dict[Rest, int]]  # of each token: its new ones
    arcs: list[tuple[int, int, int, int, int]] = field(default_factory=list)  # token, place, token, place, word
    links: list[int] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=lambda: {"<eps>": 0})

    def add(self, link: int, source: int, rest: Rest, target: tuple[int, int], word: str = "") -> None:
        there = self.places[source]
        place = 0 if source == 0 else there.setdefault(rest, len(there))  # what opens an utterance needs no mark
        self.arcs.append((source, place, *target, self.ids.setdefault(word, len(self.ids)) if word else 0))
        self.links.append(link)


def in_words(
    lattice: LatticeArrays, graph: Graph, separator: str | None, final_graph_scores: npt.NDArray[Any]
) -> tuple[Graph, Lattices]:
    """The lattice of words of one of pieces, and the graph of its arcs.

    graph : of the lattice's arcs
    separator : the mark of a piece that begins a word
    final_graph_scores : [tokens], what the graph and models have in `final_scores`
    """
    pieces = {0: (False, "")}
    pieces |= {label: split_piece(name, separator) for label, name in lattice.word_symbols.items()}
    found = _found(lattice, pieces)
    first = np.append(0, np.cumsum([max(len(places), token == 0) for token, places in enumerate(found.places)]))
    columns = np.array(found.arcs, np.int64).reshape(-1, 5)[::-1].T
    links = np.array(found.links, np.int64)[::-1]
    labels = input_labels(lattice.columns[links]).astype(np.int64)
    sources, targets = first[columns[0]] + columns[1], first[columns[2]] + columns[3]
    of_graph = (0.0 - (lattice.graph_scores + lattice.rescoring_scores + lattice.boost_scores)).astype(np.float32)
    steps = np.repeat(lattice.steps.astype(np.int64), np.diff(first))
    end_costs, graph_end_costs = np.full(len(steps), np.inf), np.zeros(len(steps))
    for token in np.flatnonzero(np.isfinite(lattice.final_scores)).tolist():
        place = int(first[token]) + found.places[token].get("", 0)
        end_costs[place] = 0.0 - lattice.final_scores[token]
        graph_end_costs[place] = 0.0 - final_graph_scores[token]
    return lattice_of_arcs(
        Arcs(sources, targets, labels, columns[4], 0.0 - lattice.scores[links], of_graph[links]),
        steps,
        end_costs,
        graph_end_costs=graph_end_costs,
        num_columns=graph.num_columns,
        tokens=graph.tokens,
        blank=graph.blank,
        word_symbols=SymbolTable.from_ids(found.ids.values(), found.ids),
        meta={"lm_scale": 0.0},
    )


def _found(lattice: LatticeArrays, pieces: dict[int, tuple[bool, str]]) -> _Found:
    """Goes through the lattice from the end to the start."""
    links, written = lattice.links, lattice.words.tolist()
    sources, targets = links["source"].tolist(), links["target"].tolist()
    goes_on, opens = _before(sources, targets, [pieces[label] for label in written], lattice.num_tokens)
    found = _Found([{} for _ in range(lattice.num_tokens)])
    for token in np.flatnonzero(np.isfinite(lattice.final_scores)).tolist():
        found.places[token][""] = 0
    for link in range(lattice.num_links - 1, -1, -1):
        source, target = sources[link], targets[link]
        if len(found.links) > MOST_LINKS:
            raise CapacityError(
                f"whole_words: expected a lattice whose words have at most {MOST_LINKS:,} links, got more, because its "
                "pieces make so many words; prune it first: lattice.prune(4.0).whole_words()"
            )
        ends, letters = pieces[written[link]]
        for rest, place in found.places[target].items():
            to = target, place
            if not letters:
                if ends and not rest:
                    found.add(link, source, "", to)
                elif not ends and (rest == "" or (opens if rest is OPENS else goes_on)[source]):
                    found.add(link, source, rest, to)
            elif rest is not OPENS:
                word = letters + rest
                if ends:
                    found.add(link, source, "", to, word)
                    continue
                if goes_on[source]:
                    found.add(link, source, word, to)
                if opens[source]:
                    found.add(link, source, OPENS, to, word)
    return found


def _before(
    sources: list[int], targets: list[int], pieces: list[tuple[bool, str]], tokens: int
) -> tuple[list[bool], list[bool]]:
    """Of each token, whether a path to it has a word that goes on, and whether one has none."""
    goes_on, opens = [False] * tokens, [token == 0 for token in range(tokens)]
    for source, target, (ends, letters) in zip(sources, targets, pieces, strict=True):
        if letters:
            goes_on[target] = True
        elif ends:
            opens[target] = True
        else:
            goes_on[target] = goes_on[target] or goes_on[source]
            opens[target] = opens[target] or opens[source]
    return goes_on, opens
