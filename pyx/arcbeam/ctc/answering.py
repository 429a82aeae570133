"""What is read from lattices: n-best lists, confidences, minimum Bayes risk, and the lattices themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from arcbeam.core.threads import usable_cores
from arcbeam.ctc.boost.boost import Boosts, graphs_of
from arcbeam.ctc.lattice._lattice import AnswerEngine
from arcbeam.ctc.lattice.arrays import LatticeBatch
from arcbeam.ctc.results import Outputs, Results

if TYPE_CHECKING:
    from arcbeam.ctc.lattice._lattices import Lattices
    from arcbeam.ctc.lattice.answers import LatticeAnswers
    from arcbeam.ctc.options import DecoderOptions
    from arcbeam.ctc.rescoring import Rescoring
    from arcbeam.graph.graph import Graph


class LatticeReader:
    """Reads the lattices that a decoder's searches leave, with threads that last as long as the decoder."""

    def __init__(self, graph: Graph, options: DecoderOptions, rescoring: Rescoring | None) -> None:
        self._graph, self._options, self._rescoring = graph, options, rescoring
        self._engine: AnswerEngine | None = None

    def new_engine(self) -> AnswerEngine:
        """Threads of one's own."""
        return AnswerEngine(self._graph, threads=self._options.threads or usable_cores())

    def release(self) -> None:
        """Ends the threads; they are made anew when they are needed."""
        if self._engine is not None:
            self._engine.release()

    def outputs(
        self, results: Results, lattices: Lattices, outputs: Outputs, engine: AnswerEngine | None = None
    ) -> Results:
        """The results with all outputs that are read from lattices, by an engine of one's own or the decoder's."""
        scale = self._options.scale
        answers = self.answers(lattices, results.boosts, outputs, scale, engine) if outputs.needs_answers else None
        return replace(self._with_lattices(results, lattices, outputs), answers=answers)

    def outputs_alone(self, results: Results, lattices: Lattices) -> Results:
        """Those of one chunk; where memory is too short, they raise that error when they are read."""
        try:
            return self.outputs(results, lattices, results.outputs)
        except MemoryError as error:
            return replace(self._with_lattices(results, lattices, results.outputs), answers=error)

    def _with_lattices(self, results: Results, lattices: Lattices, outputs: Outputs) -> Results:
        """The results with the lattices themselves, if these are an output."""
        options, batch = self._options, None
        if outputs.lattice:
            batch = LatticeBatch(
                self._graph,
                lattices,
                options.frame_shift,
                self._rescoring,
                options.acoustic_scale,
                options.scale,
                options.lattice_beam,
                boosts=results.boosts,
                before=results.before,
            )
        return replace(results, lattices=batch, outputs=outputs)

    def answers(
        self,
        lattices: Lattices,
        boosts: Boosts,
        outputs: Outputs,
        posterior_scale: float,
        engine: AnswerEngine | None = None,
    ) -> LatticeAnswers:
        """N-best lists, confidences and minimum Bayes risk."""
        if engine is None:
            engine = self._engine = self._engine or self.new_engine()
        return engine.answers(
            lattices,
            graphs_of(self._graph, boosts, len(lattices)),
            nbest=outputs.nbest or int(outputs.confidence),
            labels=outputs.nbest is not None,
            confidence=outputs.confidence,
            mbr=outputs.mbr,
            posterior_scale=posterior_scale,
        )
