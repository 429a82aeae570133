"""Chains of links become arcs that carry at most one word, as Kaldi's compact lattices and pictures have them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class Folded(NamedTuple):
    """A lattice whose chains are folded."""

    order: Ints  # int64[links]: the links, arc by arc and along each arc
    begins: Ints  # int64[arcs + 1]: the links of arc i are order[begins[i]:begins[i + 1]]
    tokens: Ints  # int64[states]: tokens that are left; the others lie within arcs
    sources: Ints  # int64[arcs]: states; arcs are ordered by (source, first link)
    targets: Ints  # int64[arcs]
    words: npt.NDArray[np.uint32]  # uint32[arcs]: 0 for none

    def sums(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The sum over each arc's links, added in their order."""
        arc_of = np.repeat(np.arange(len(self.words)), np.diff(self.begins))
        found: npt.NDArray[np.float64] = np.bincount(arc_of, values[self.order], len(self.words)).astype(np.float64)
        return found


def fold(
    sources: npt.NDArray[np.uint32],
    targets: npt.NDArray[np.uint32],
    words: npt.NDArray[np.uint32],
    num_tokens: int,
    ends: npt.NDArray[np.bool_],
) -> Folded:
    """Folds chains: tokens with one link in, one out, and no end; each is cut before words but its first."""
    # Links are ordered by source, and a target has a larger number than its source. `ends`: bool[num_tokens].
    entering = np.bincount(targets, minlength=num_tokens)
    leaving = np.bincount(sources, minlength=num_tokens)
    within = (entering == 1) & (leaving == 1) & ~ends
    links = np.arange(len(sources), dtype=np.int64)
    entered_by = np.zeros(num_tokens, np.int64)
    entered_by[targets] = links
    # The first link of each link's chain, by doubling: every step jumps twice as far back.
    first = np.where(within[sources], entered_by[sources], links)
    while not np.array_equal(further := first[first], first):
        first = further
    order = np.lexsort((links, first))  # along a chain links have ascending numbers
    chain_begins = np.ones(len(links), bool)
    chain_begins[1:] = np.diff(first[order]) != 0
    has_word = (words[order] != 0).astype(np.int64)
    words_so_far = np.cumsum(has_word)
    before_chain = np.maximum.accumulate(np.where(chain_begins, words_so_far - has_word, 0))
    arc_begins = chain_begins | ((has_word == 1) & (words_so_far - before_chain > 1))
    begins = np.append(np.flatnonzero(arc_begins), len(links)).astype(np.int64)
    from_tokens = sources[order[begins[:-1]]]
    to_tokens = targets[order[begins[1:] - 1]]
    is_left = np.zeros(num_tokens, bool)
    is_left[from_tokens] = is_left[to_tokens] = True
    if num_tokens:
        is_left[0] = True
    state_of = np.cumsum(is_left) - 1
    arc_words = np.zeros(len(begins) - 1, np.uint32)
    arc_of = np.cumsum(arc_begins) - 1
    arc_words[arc_of[has_word == 1]] = words[order[has_word == 1]]
    # Arcs by source: whole runs of links move.
    by_source = np.lexsort((order[begins[:-1]], from_tokens))
    lengths = np.diff(begins)[by_source]
    moved = np.append(0, np.cumsum(lengths)).astype(np.int64)
    runs = np.repeat(begins[:-1][by_source] - moved[:-1], lengths) + np.arange(len(links))
    return Folded(
        order[runs],
        moved,
        np.flatnonzero(is_left),
        state_of[from_tokens[by_source]],
        state_of[to_tokens[by_source]],
        arc_words[by_source],
    )
