"""Kaldi's compact lattice: an acceptor of words, whose weights are two costs and the labels of the frames."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from arcbeam.core.calls import lists_options
from arcbeam.core.checks import check_count, check_real
from arcbeam.graph.openfst import write_vector
from arcbeam.lattices.compact_lattice import CompactLattice
from arcbeam.lattices.determinizing import determinized
from arcbeam.lattices.openfst_objects import read_back

if TYPE_CHECKING:
    from arcbeam.ctc.rescoring import LargeModel
    from arcbeam.lm.language_model import LanguageModel


class KaldiPath(NamedTuple):
    """A path of a lattice.

    Attributes
    ----------
    words : int32 [words]
        Without epsilon.
    labels : int32 [frames]
        The labels of its arcs and its end.
    graph_cost, acoustic_cost : float
        Natural; the acoustic cost is not scaled.
    text : str or None
        The words with spaces between; None if the lattice has no table of words.
    """

    words: npt.NDArray[np.int32]
    labels: npt.NDArray[np.int32]
    graph_cost: float
    acoustic_cost: float
    text: str | None = None


class KaldiLattice(CompactLattice):
    """A compact lattice as Kaldi's programs read and write it: costs are natural, acoustic costs unscaled.

    Made by `Lattice.to_kaldi` and by `arcbeam.read_lattices`.

    Attributes
    ----------
    start : int
        The start state; -1 without states.
    arcs : structured [num_arcs]
        ``source``, ``target`` (uint32), ``word`` (int32; 0 for none), ``graph_cost``, ``acoustic_cost`` (float32); the
        graph's cost includes that of the language model. Ordered by source.
    labels : int32
        The labels of all arcs, one a frame: those of arc i are ``labels[label_begins[i]:label_begins[i + 1]]``.
    label_begins : int64 [num_arcs + 1]
    finals : structured [num_states]
        ``graph_cost``, ``acoustic_cost``: +inf where no path ends.
    final_labels, final_label_begins
        The labels of final weights, by state.
    word_symbols : SymbolTable or None
        The names of words, if they are known; archives lack them.
    beam : float or None
        The beam of a lattice that was determinised: all word sequences whose cost lies within it of the best are there.
        It is smaller than the one that was requested if the limit of steps was reached. None where it is not known.
    """

    @lists_options()
    def to_openfst(self, acoustic_scale: float = 1.0) -> Any:
        """An acceptor of words: a ``kaldifst.StdVectorFst``, or pywrapfst's where only that is installed.

        Parameters
        ----------
        acoustic_scale : float
            Factor on the acoustic costs; the decoder's gives the costs with which the lattice was made.
        """

        def write(path: str | os.PathLike[str]) -> None:
            words = self.arcs["word"]
            arcs, finals = (cost.astype("<f4") for cost in self.costs(acoustic_scale))
            write_vector(path, self.start, self.arcs["source"], self.arcs["target"], words, words, arcs, finals)

        return read_back(write)

    @lists_options()
    def best_path(self, acoustic_scale: float = 1.0) -> KaldiPath:
        """The path of the smallest cost, of equals that of the first arcs.

        Parameters
        ----------
        acoustic_scale : float
            Factor on the acoustic costs: the decoder's, which no file of lattices has. With another one other paths are
            the best.

        Raises
        ------
        ValueError
            The lattice has a cycle, or no path from its start to a final state.
        """
        arc_costs, final_costs = self.costs(acoustic_scale)
        best = np.full(self.num_states, np.inf)
        came_by = np.full(self.num_states, -1)
        first, targets, costs = self.first_arcs.tolist(), self.arcs["target"].tolist(), arc_costs.tolist()
        if self.num_states:
            best[self.start] = 0.0
        for state in self.topological_order():
            for arc in range(first[state], first[state + 1]):
                cost = best[state] + costs[arc]
                if cost < best[targets[arc]]:
                    best[targets[arc]], came_by[targets[arc]] = cost, arc
        ends = best + final_costs
        if not np.isfinite(ends).any():
            raise ValueError("expected a path from the start to a final state, but the lattice has none")
        end = state = int(np.argmin(ends))
        path: list[int] = []
        while state != self.start:
            path.append(int(came_by[state]))
            state = int(self.arcs["source"][path[-1]])
        path.reverse()
        return self._path(path, end)

    def _path(self, path: list[int], end: int) -> KaldiPath:
        """The path of these arcs, which ends in this state."""
        begins = self.label_begins
        labels = [self.labels[begins[arc] : begins[arc + 1]] for arc in path]
        labels.append(self.final_labels[self.final_label_begins[end] : self.final_label_begins[end + 1]])
        words = self.arcs["word"][path]
        graph_cost, acoustic_cost = (
            sum(self.arcs[part][path].tolist(), 0.0) + float(self.finals[part][end])
            for part in ("graph_cost", "acoustic_cost")
        )
        words = words[words != 0]
        return KaldiPath(words, np.concatenate(labels), graph_cost, acoustic_cost, self._text(words.tolist()))

    def _text(self, words: list[int]) -> str | None:
        if self.word_symbols is None:
            return None
        names = [self.word_symbols.get(word, None) for word in words]
        if None in names:
            raise ValueError(
                "words: expected a table with all words of the lattice, got one without the number "
                f"{words[names.index(None)]}"
            )
        return " ".join(map(str, names))

    @lists_options()
    def determinize(self, beam: float = 10.0, acoustic_scale: float = 1.0) -> KaldiLattice:
        """The lattice with one path for each word sequence, its best, as Kaldi's ``lattice-determinize-pruned`` does.

        No arc lacks a word, and no state has two arcs of one word. Costs are rounded to multiples of 2**-32 nats, whose
        sums are exact, and the sums to float32, so the result is the same on each machine.

        Parameters
        ----------
        beam : float
            Word sequences whose cost lies within this of the best are kept; others may stay as well.
        acoustic_scale : float
            Factor on the acoustic costs: the decoder's, which no file of lattices has. With another one other paths are
            the best.

        Returns
        -------
        KaldiLattice
            Its `beam` is smaller than the given one if the limit of 2**24 steps was reached.

        Raises
        ------
        ValueError
            The lattice has a cycle, or its costs add up to 2**30 nats or more.
        """
        check_real("beam", beam, "of at least 0", above=0.0, inclusive=True, infinite=True)
        check_real("acoustic_scale", acoustic_scale, "above 0", above=0.0)
        lattice = self.ordered()
        return determinized(lattice, lattice.cost_parts(acoustic_scale), beam, acoustic_scale)

    @lists_options()
    def nbest(self, n: int, acoustic_scale: float = 1.0) -> list[KaldiPath]:
        """The n best distinct word sequences, best first, each with its best path.

        Parameters
        ----------
        n : int
            At least 1. The lattice may hold fewer.
        acoustic_scale : float
            Factor on the acoustic costs: the decoder's, which no file of lattices has. With another one other paths are
            the best.

        Raises
        ------
        ValueError
            The lattice has a cycle.
        """
        from arcbeam.ctc.lattice.compact import best_distinct

        check_count("n", n, or_none="")
        check_real("acoustic_scale", acoustic_scale, "of at least 0", above=0.0, inclusive=True)
        lattice = self.ordered()
        return [lattice._path(*path) for path in best_distinct(lattice, n, acoustic_scale)]

    @lists_options()
    def rescore(
        self,
        language_model: LargeModel | str | os.PathLike[str],
        graph_language_model: LanguageModel | str | os.PathLike[str],
        *,
        acoustic_scale: float = 1.0,
        lm_scale: float = 1.0,
        graph_lm_scale: float = 1.0,
        unknown_words: str = "error",
        beam: float = math.inf,
    ) -> KaldiLattice:
        """The lattice with the scores of a large language model in place of those of the graph's own.

        It is composed with both models, as `Lattice.rescore` does before a lattice is written: all paths are rescored,
        exactly. A cost that changes is the float32 that was read plus a float32 of the models, rounded once. A
        determinised lattice stays determinised. Archives do not record the graph's model, so it cannot be checked that
        `graph_language_model` and `graph_lm_scale` are those that the graph was built with. Nor do they record whether
        the search reached a final state: ends of paths are taken as ends of sentences.

        Parameters
        ----------
        language_model : LanguageModel, KenLM or path
            The large model, as for `CtcDecoder`. A path is opened anew by each call.
        graph_language_model : LanguageModel or path
            The model that the graph was built with, whose scores are taken off.
        acoustic_scale : float
            Factor on the acoustic costs, the decoder's: `beam` is of costs with it.
        lm_scale : float
            Factor on the natural-log probabilities of `language_model`.
        graph_lm_scale : float
            Factor that the graph was built with.
        unknown_words : str
            How to treat words of the lattice that `language_model` lacks: ``"error"``, ``"unk"`` or ``"small"``, as for
            `CtcDecoder`.
        beam : float
            Cost above the best rescored path up to which others are kept.

        Raises
        ------
        TypeError, ValueError
            An option out of its range; a lattice with a cycle or without `word_symbols`; no path that the large model
            allows.
        GraphError
            The lattice has words that a model or `word_symbols` lacks.
        FormatError
            A file of a model is damaged, or has been changed in place.
        """
        from arcbeam.ctc.lattice.compact import rescored
        from arcbeam.ctc.options import DecoderOptions
        from arcbeam.lm.loading import as_language_model, as_large_model

        if self.word_symbols is None:
            raise ValueError(
                "rescore: expected a lattice with the names of its words, got one without; type read_lattices(path, "
                'words="words.txt")'
            )
        check_real("beam", beam, "of at least 0", above=0.0, inclusive=True, infinite=True)
        check_real("acoustic_scale", acoustic_scale, "of at least 0", above=0.0, inclusive=True)
        options = DecoderOptions(
            lm_scale=lm_scale, graph_lm_scale=graph_lm_scale, unknown_words=unknown_words, lattice_beam=beam
        )
        large = as_large_model("language_model", language_model)
        small = as_language_model("graph_language_model", graph_language_model)
        return rescored(self.ordered(), large, small, options, acoustic_scale)
