"""What is read from lattices: n-best lists, confidences, minimum Bayes risk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcbeam.ctc.boost.boosts import Boosts, graphs_of
from arcbeam.ctc.lattice._lattice import AnswerEngine
from arcbeam.ctc.lattice.answers import AnswerRequest

if TYPE_CHECKING:
    from arcbeam.ctc.lattice._lattices import Lattices
    from arcbeam.ctc.lattice.answers import LatticeAnswers
    from arcbeam.ctc.results import Outputs, Results
    from arcbeam.graph.graph import Graph


class LatticeReader:
    """Reads the lattices that a decoder's searches leave, with threads that last as long as the decoder."""

    def __init__(self, graph: Graph, threads: int) -> None:
        self._graph, self._threads = graph, threads
        self.engine = self.new_engine()

    def new_engine(self) -> AnswerEngine:
        """Threads of one's own."""
        return AnswerEngine(self._graph, threads=self._threads)

    def release(self) -> None:
        """Ends the threads; they are made anew when they are needed."""
        self.engine.release()

    def answered(self, results: Results, engine: AnswerEngine | None = None) -> Results:
        """The results with all outputs that are read from lattices, by an engine of one's own or the decoder's."""
        lattices, outputs, answers = results.paths.lattices, results.outputs, results.paths.answers
        if lattices is None:
            return results
        if isinstance(answers, MemoryError):
            raise answers
        if answers is None and outputs.needs_answers:
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
        request = self.request(boosts, outputs, posterior_scale, len(lattices))
        return (engine or self.engine).answers(lattices, request)

    def request(self, boosts: Boosts, outputs: Outputs, posterior_scale: float, utterances: int) -> AnswerRequest:
        """What the lattices of so many utterances are to answer."""
        return AnswerRequest(
            graphs_of(self._graph, boosts, utterances),
            nbest=outputs.nbest or int(outputs.confidence),
            labels=outputs.nbest is not None,
            confidence=outputs.confidence,
            mbr=outputs.mbr,
            posterior_scale=posterior_scale,
            keeps_lattices=outputs.lattice,
        )
