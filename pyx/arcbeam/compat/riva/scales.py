"""How the original scales the parts of a lattice before it reads words from it.

It scales the lattice itself, for each of its outputs once more: a lattice that is written has been scaled once, the
words of `decode_mbr` come from one that was scaled twice, and n-best lists from one that was scaled three times.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from arcbeam.ctc.lattice.lattice import Lattice, reweighted
from arcbeam.lattices.kaldi_lattice import KaldiLattice

Floats = npt.NDArray[np.float64]

WRITTEN, MBR, NBEST = 1, 2, 3  # how often


@dataclass(frozen=True)
class Scales:
    """Factors on the parts of costs, and the cost of a word."""

    lm: float = 1.0
    acoustic: float = 1.0
    acoustic_to_lm: float = 0.0
    lm_to_acoustic: float = 0.0
    word_penalty: float = 0.0

    @property
    def factor(self) -> float | None:
        """The factor on all costs; None if they are not all scaled alike."""
        alike = self.lm == self.acoustic and not (self.acoustic_to_lm or self.lm_to_acoustic or self.word_penalty)
        return self.lm if alike else None

    def scaled(self, graph: Floats, acoustic: Floats, is_word: npt.ArrayLike, times: int) -> tuple[Floats, Floats]:
        """The costs of the graph and of the log-probs after so many scalings; `is_word`: what the penalty is for."""
        for _ in range(times):
            graph, acoustic = (
                self.lm * graph + self.acoustic_to_lm * acoustic + self.word_penalty * np.asarray(is_word),
                self.lm_to_acoustic * graph + self.acoustic * acoustic,
            )
        return graph, acoustic

    def of_lattice(self, lattice: Lattice, times: int) -> Lattice:
        """A lattice with these costs."""
        links = self.scaled(0.0 - lattice.graph_scores, 0.0 - lattice.acoustic_scores, lattice.words != 0, times)
        ends = np.full(lattice.num_tokens, np.inf)
        is_end = np.isfinite(lattice.final_scores)
        graph = 0.0 - lattice.final_graph_scores[is_end]
        acoustic = (0.0 - lattice.final_scores[is_end]) - graph
        ends[is_end] = np.add(*self.scaled(graph, acoustic, False, times))
        return reweighted(lattice, np.add(*links), ends)

    def of_kaldi_lattice(self, lattice: KaldiLattice) -> KaldiLattice:
        """A lattice that is to be written, with these costs."""
        if self == Scales():
            return lattice
        arcs, finals = lattice.arcs.copy(), lattice.finals.copy()
        is_end = np.isfinite(finals["graph_cost"])
        for costs, chosen, is_word in ((arcs, slice(None), arcs["word"] != 0), (finals, is_end, False)):
            graph, acoustic = (costs[name][chosen].astype(np.float64) for name in ("graph_cost", "acoustic_cost"))
            graph, acoustic = self.scaled(graph, acoustic, is_word, WRITTEN)
            costs["graph_cost"][chosen], costs["acoustic_cost"][chosen] = graph, acoustic
        return KaldiLattice(
            lattice.start,
            arcs,
            lattice.labels,
            lattice.label_begins,
            finals,
            lattice.final_labels,
            lattice.final_label_begins,
            word_symbols=lattice.word_symbols,
            beam=lattice.beam,
        )
