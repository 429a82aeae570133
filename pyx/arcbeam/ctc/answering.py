"""What is read from lattices: n-best lists, confidences, minimum Bayes risk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcbeam.ctc.boost.boosts import Boosts, graphs_of
from arcbeam.ctc.lattice._lattice import AnswerEngine

if TYPE_CHECKING:
    from arcbeam.ctc.lattice._lattices import Lattices
    from arcbeam.ctc.lattice.answers import LatticeAnswers
    from arcbeam.ctc.results import Outputs, Results
    from arcbeam.graph.graph import Graph


class LatticeReader:
    """Reads the lattices that a decoder's searches leave, with threads that last as long as the decoder."""

    def __init__(self, graph: Graph, threads: int) -> None:
        self._graph, self._threads = graph, threads
        self._engine: AnswerEngine | None = None

    def new_engine(self) -> AnswerEngine:
        """Threads of one's own."""
        return AnswerEngine(self._graph, threads=self._threads)

    def release(self) -> None:
        """Ends the threads; they are made anew when they are needed."""
        if self._engine is not None:
            self._engine.release()

    def answered(self, results: Results, engine: AnswerEngine | None = None) -> Results:
        """The results with all outputs that are read from lattices, by an engine of one's own or the decoder's."""
        lattices, outputs, answers = results.paths.lattices, results.outputs, None
        if lattices is None:
            return results
        if outputs.needs_answers:
            answers = self.answers(lattices, results.boosts, outputs, results.options.scale, engine)
        return results.with_answers(answers)

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
