"""Automata over tokens: the arrays that the engines read, and what an utterance is decoded with."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class TokenAutomaton:
    """A back-off automaton over tokens, as ``cuda/shared/token_automaton.hpp`` says."""

    first_arcs: npt.NDArray[np.uint32]
    arc_tokens: npt.NDArray[np.uint32]
    arcs: npt.NDArray[Any]  # (next_state, weight), as in `backoffs`
    backoffs: npt.NDArray[Any]
    num_tokens: int  # from this one on, tokens are not scored
    start: int = 0

    @property
    def num_states(self) -> int:
        """The number of states."""
        return len(self.backoffs)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.first_arcs.nbytes + self.arc_tokens.nbytes + self.arcs.nbytes + self.backoffs.nbytes

    @cached_property
    def digest(self) -> str:
        """A digest of the arrays: two automata that have the same give the same answers."""
        found = hashlib.blake2b(digest_size=16)
        for array in (self.first_arcs, self.arc_tokens, self.arcs, self.backoffs):
            found.update(np.ascontiguousarray(array).data)
        found.update(f"{self.num_tokens} {self.start}".encode())
        return found.hexdigest()


class Fusion(NamedTuple):
    """What an utterance's tokens are scored with besides the network, and the states from which it continues."""

    ngram_lm: TokenAutomaton | None
    boosting_tree: TokenAutomaton | None
    states: tuple[int, int]


Digests: TypeAlias = tuple[str, str]
"""Of the n-gram model and the boosting tree; "" for none."""


def from_the_start(model: TokenAutomaton | None, tree: TokenAutomaton | None) -> tuple[Fusion, Digests]:
    """What an utterance without a state is scored with, and the digests of that."""
    states = 0 if model is None else model.start, 0 if tree is None else tree.start
    return Fusion(model, tree, states), ("" if model is None else model.digest, "" if tree is None else tree.digest)


Fusions: TypeAlias = list[Fusion] | None
"""One for each utterance; None if no utterance has any."""
