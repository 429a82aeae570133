"""Lattices of transducers from what a beam search has kept."""
# Every path reads each frame once, as a lattice has it (law 8). A step follows so many frames:
#
#   * a hypothesis before any label on frame t is in step t, and one with labels on it in step t + 1: the first label
#     or the blank reads the frame, and what follows on it reads none;
#   * where a duration leads beyond step t + 1, a chain of blanks reads the frames between; all paths that wait on a
#     frame for the same hypothesis share it.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from arcbeam.core.errors import UnsupportedError
from arcbeam.ctc.lattice.arrays import LatticeBatch
from arcbeam.ctc.lattice.from_arcs import Arcs, Ints, lattice_of_arcs
from arcbeam.ctc.lattice.lattice import Lattice
from arcbeam.graph.symbols import SymbolTable
from arcbeam.transducer.text import WORD_START, Pieces

Kept: TypeAlias = tuple[Ints, npt.NDArray[np.uint32], npt.NDArray[np.void]]
"""Frames and depths of tokens, and arcs, as `arcbeam.transducer.beam._lists.Lists.lattice` returns them."""
NOTHING = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class LatticeForm:
    """What the lattices of one decoder share."""

    tokens: int
    blank: int
    frame_shift: float | None
    words: npt.NDArray[np.int64]  # int64[tokens]: the word that each writes, its number plus 1; 0 for none
    symbols: SymbolTable | None

    @classmethod
    def of(
        cls, tokens: int, blank: int, frame_shift: float | None, detokenize: Callable[..., str] | None
    ) -> LatticeForm:
        """The form of a decoder; its words have names if its tokenizer says what each token adds to a text."""
        words = np.arange(1, tokens + 1)
        words[blank] = 0
        symbols = None
        if isinstance(detokenize, Pieces):
            names = detokenize.names[:tokens]
            for token, name in enumerate(names):
                if WORD_START in name[1:]:
                    raise UnsupportedError(
                        f"lattice: expected pieces with the mark of a word's start at their beginning alone, got token "
                        f"{token}, {name!r}"
                    )
            first = {"": 0}  # the word of a name, of the first token that has it
            for token in np.flatnonzero(words).tolist():
                words[token] = first.setdefault(names[token] if token < len(names) else "", token + 1)
            symbols = SymbolTable.from_ids(first.values(), [name or "<eps>" for name in first])
        return cls(tokens, blank, frame_shift, words, symbols)

    def lattice(self, kept: Kept | None) -> Lattice:
        """The lattice of an utterance; without tokens if it could not be decoded."""
        arcs, steps, end_costs = NO_ARCS, NOTHING, np.zeros(0)
        if kept is not None and len(kept[0]):
            arcs, steps, end_costs = self._arcs(*kept)
        graph, lattices = lattice_of_arcs(
            arcs,
            steps,
            end_costs,
            num_columns=self.tokens,
            blank=self.blank,
            word_symbols=self.symbols,
            join="words" if self.symbols is None else "pieces",
            separator=None if self.symbols is None else WORD_START,
            meta={"lm_scale": 0.0},
        )
        return Lattice(LatticeBatch(graph, lattices, self.frame_shift), 0)

    def _arcs(
        self, frames: Ints, depths: npt.NDArray[np.uint32], kept: npt.NDArray[np.void]
    ) -> tuple[Arcs, Ints, npt.NDArray[np.float64]]:
        """Arcs between states, the step of each state, and the costs of ending in it."""
        sources, targets = kept["source"].astype(np.int64), kept["target"].astype(np.int64)
        steps, reached = frames + (depths > 0), frames[sources] + 1
        waits = reached < steps[targets]
        # The chain of a target: a state in each step from the first in which a path waits for it.
        waited = np.unique(targets[waits])
        begins = np.full(len(frames), np.iinfo(np.int64).max)
        np.minimum.at(begins, targets[waits], reached[waits])
        lengths = steps[waited] - begins[waited]
        of_chain, ends_of = np.repeat(waited, lengths), np.cumsum(lengths)
        in_steps = np.arange(len(of_chain)) - np.repeat(ends_of - steps[waited], lengths)
        places = np.zeros(len(frames), np.int64)  # of a target's chain, less its first step
        places[waited] = len(frames) + (ends_of - lengths) - begins[waited]
        chained = len(frames) + np.arange(len(of_chain))
        is_last = np.append(np.diff(of_chain), 1)[: len(of_chain)] > 0
        after_chained = np.where(is_last, of_chain, chained + 1)
        silent = np.zeros(len(of_chain), np.int64)
        blanks = np.full(len(of_chain), self.blank + 1)
        # States by (step, labels on the frame before it, chains last, number), so that arcs lead to larger ones.
        all_steps = np.append(steps, in_steps)
        kinds = np.append(np.where(depths > 0, 0, 1), np.full(len(of_chain), 2))
        order = np.lexsort((np.append(np.arange(len(frames)), of_chain), kinds, all_steps))
        numbers = np.empty(len(order), np.int64)
        numbers[order] = np.arange(len(order))
        end_costs = np.full(len(order), np.inf)
        end_costs[numbers[: len(frames)][frames == frames[-1]]] = 0.0
        arcs = Arcs(
            numbers[np.append(sources, chained)],
            numbers[np.append(np.where(waits, places[targets] + reached, targets), after_chained)],
            np.append(np.where(depths[sources] > 0, 0, kept["label"].astype(np.int64) + 1), blanks),
            np.append(self.words[kept["label"]], silent),
            np.append(0.0 - kept["score"].astype(np.float64), silent.astype(np.float64)),
            np.append(kept["log_prob"] - kept["score"], silent.astype(np.float32)),
        )
        return arcs, all_steps[order], end_costs


NO_ARCS = Arcs(NOTHING, NOTHING, NOTHING, NOTHING, np.zeros(0), np.zeros(0, np.float32))
