"""A lattice in the forms of other programs, and as a picture."""

from __future__ import annotations

import os
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.core.calls import lists_options
from arcbeam.core.checks import check_bool, check_real
from arcbeam.ctc.lattice.arrays import LatticeArrays
from arcbeam.graph.openfst import EPSILON_COLUMN, input_labels, write_vector
from arcbeam.graph.symbols import SymbolTable
from arcbeam.lattices import pictures
from arcbeam.lattices.compact_lattice import ARC, FINAL
from arcbeam.lattices.determinizing import determinized
from arcbeam.lattices.folding import Folded, fold
from arcbeam.lattices.kaldi_lattice import KaldiLattice
from arcbeam.lattices.openfst_objects import read_back
from arcbeam.lattices.word_graph import word_graph

MOST_WORDS = 0x7FFFFFFF
OTHER_KINDS = ".ark", ".scp", ".txt", ".gz"


class LatticeForms(LatticeArrays):
    """Adds to the arrays of a lattice: OpenFst, Kaldi, Graphviz, matplotlib."""

    @lists_options()
    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes an OpenFst vector file; see `to_openfst`.

        Parameters
        ----------
        path
            Where to write; not a name that ends with .ark, .scp, .txt or .gz, which files of other kinds have.
        """
        if os.fspath(path).lower().endswith(OTHER_KINDS):
            raise ValueError(
                f"path: expected a name such as lattice.fst, because write makes a binary OpenFst file, got {path}; "
                'for archives of Kaldi type arcbeam.write_lattices("lattices.ark", {"utterance": lattice}), and for '
                "their text form text=True, too"
            )
        links = self.links
        labels = input_labels(self.columns)
        inputs, outputs = self._symbols
        write_vector(
            path,
            0 if self.num_tokens else -1,
            links["source"],
            links["target"],
            labels,
            _as_int32(self.words),
            0.0 - self.scores,
            0.0 - self.final_scores,
            input_symbols=inputs,
            output_symbols=outputs,
        )

    @lists_options()
    def to_openfst(self) -> Any:
        """A transducer: a ``kaldifst.StdVectorFst``, or pywrapfst's where only that is installed.

        Its states are the tokens. It reads labels as graphs do, column + 1, and writes words; 0 is epsilon. Weights are
        costs in float32, so two paths may tie that do not tie here. It has the graph's tables of symbols; from a pickle
        those that occur.

        Raises
        ------
        MissingDependencyError
            Neither kaldifst nor pywrapfst is installed.
        """
        return read_back(self.write)

    @lists_options()
    def to_kaldi(self, acoustic_scale: float | None = None, *, determinize: bool = True) -> KaldiLattice:
        """The lattice as Kaldi's programs have it: an acceptor of words whose arcs carry the labels of their frames.

        It is determinised: of the paths of one word sequence the best one is left, with both of its costs and its
        labels. All word sequences within `lattice_beam` of the best are there. The graph's cost includes those of the
        large language model and of a boost. A label is column + 1, one for each frame, so that Kaldi's programs find
        times.

        Parameters
        ----------
        acoustic_scale : float, optional
            Kaldi's acoustic costs are not scaled, so they are divided by this; None takes that of the decoder.
        determinize : bool
            False gives all paths: chains of links become arcs with at most one word, and many paths have equal words.

        Returns
        -------
        KaldiLattice
            Its `beam` is smaller than `lattice_beam` if determinising took more than 2**24 steps: word sequences beyond
            it may be missing.
        """
        scale = self.acoustic_scale if acoustic_scale is None else acoustic_scale
        check_real("acoustic_scale", scale, "above 0, or None", above=0.0)
        check_bool("determinize", determinize)
        folded = self.folded
        ends = 0.0 - self.final_scores[folded.tokens]
        end_costs = np.full((len(ends), 2), np.inf)
        is_end = np.isfinite(ends)
        end_costs[is_end, 0] = 0.0 - np.sum(self._final_parts, axis=0)[folded.tokens][is_end]
        end_costs[is_end, 1] = ends[is_end] - end_costs[is_end, 0]
        of_graph = 0.0 - (self.graph_scores + self.rescoring_scores + self.boost_scores)
        costs = np.stack([folded.sums(of_graph), folded.sums(0.0 - self.acoustic_scores)], axis=1)
        arcs, finals = np.empty(len(costs), ARC), np.empty(len(end_costs), FINAL)
        arcs["source"], arcs["target"], arcs["word"] = folded.sources, folded.targets, _as_int32(folded.words)
        for into, given in ((arcs, costs), (finals, end_costs)):
            into["graph_cost"], into["acoustic_cost"] = given[:, 0], given[:, 1] / scale
        columns = self.columns[folded.order]
        read_before = np.append(0, np.cumsum(columns != EPSILON_COLUMN))
        names = self.word_symbols
        raw = KaldiLattice(
            0 if self.num_tokens else -1,
            arcs,
            columns[columns != EPSILON_COLUMN].astype(np.int32) + 1,
            read_before[folded.begins].astype(np.int64),
            finals,
            np.zeros(0, np.int32),
            np.zeros(len(finals) + 1, np.int64),
            word_symbols=SymbolTable.from_ids([0, *names], ["<eps>", *names.values()])
            if names or not self.words.any()
            else None,
        )
        return determinized(raw, (costs, end_costs), self.lattice_beam, scale) if determinize else raw

    @cached_property
    def folded(self) -> Folded:
        """Chains of links as arcs with at most one word; see `arcbeam.lattices.folding`."""
        links = self.links
        return fold(links["source"], links["target"], self.words, self.num_tokens, np.isfinite(self.final_scores))

    @lists_options()
    def to_dot(self, least: float = 0.01, start: float | None = None, end: float | None = None) -> str:
        """What `plot` draws as text for Graphviz, from left to right; the best path is bold.

        Parameters
        ----------
        least, start, end
            As of `plot`.
        """
        return pictures.to_dot(self._picture(least, start, end))

    @lists_options()
    def plot(self, ax: Any = None, *, least: float = 0.01, start: float | None = None, end: float | None = None) -> Any:
        """Draws the words of the lattice over time, and which of them follow each other.

        A box is a word where the graph writes it; links that write the same word within six frames of each other are
        one box. The circles are the start and the end. The more probable a box or a line, the thicker and the less
        transparent it is; the best path has a colour of its own, and no box covers another. At most
        200 words are drawn, those of the best path among them, and the picture says how many are left out. It is meant
        for some ten words: draw a stretch of longer speech.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; None makes a figure that is wide enough for the words of the best path.
        least : float
            Words and lines of smaller posteriors are left out, but those of the best path; from 0 to 1.
        start, end : float, optional
            The stretch that is drawn: seconds, or frames if the decoder was given no ``frame_shift``.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        MissingDependencyError
            matplotlib is missing.
        ValueError
            The best path has more than 200 words in the stretch.
        """
        return pictures.plot(self._picture(least, start, end), ax)

    def _picture(self, least: float = 0.01, start: float | None = None, end: float | None = None) -> pictures.Picture:
        check_real("least", least, "from 0 to 1", above=0.0, inclusive=True)
        if least > 1.0:
            raise ValueError(f"least: expected a number from 0 to 1, got {least!r}")
        shift = 1.0 if self.frame_shift is None else self.frame_shift
        first = self.first_frame
        span = -np.inf if start is None else start / shift - first, np.inf if end is None else end / shift - first
        if not span[0] < span[1]:
            raise ValueError(f"end: expected a time after start, got start={start!r} and end={end!r}")
        found = word_graph(self.links, self.words, self.steps, self.posteriors, self.best, least, span)
        left_out = f"left out: {found.left_out} less probable word{'s'[: found.left_out != 1]}"
        return pictures.Picture(
            [pictures.Box((first + n.frame) * shift, self._name(n.word), n.posterior, n.best) for n in found.nodes],
            found.edges,
            "frames" if self.frame_shift is None else "seconds",
            left_out if found.left_out else "",
        )


def _as_int32(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.int32]:
    if words.size and int(words.max()) > MOST_WORDS:
        raise ValueError(
            f"expected words numbered up to {MOST_WORDS}, which other programs can read, got {words.max()}"
        )
    return words.astype(np.int32)
