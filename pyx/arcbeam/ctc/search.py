"""The beam search of one decoder: from the log-probs of a batch to its hypotheses."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from arcbeam.arrays.bad_values import check_errors
from arcbeam.core.checks import check_bool
from arcbeam.core.confidence import ConfidenceMethod, resolve
from arcbeam.core.threads import usable_cores
from arcbeam.core.warn import warn
from arcbeam.ctc.batches import DecodeCall
from arcbeam.ctc.boost.boosts import Boosts, compiled_for
from arcbeam.ctc.hypothesis import Hypotheses, Hypothesis
from arcbeam.ctc.results import Outputs, Paths, Results
from arcbeam.ctc.stats import DecodeStats
from arcbeam.graph.spelling import repeats_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from arcbeam.arrays.batches import Inputs
    from arcbeam.arrays.intake import LogProbIntake
    from arcbeam.core.errors import Fault, InputError
    from arcbeam.ctc.answering import LatticeReader
    from arcbeam.ctc.boost.beyond_beam import BeamCheck
    from arcbeam.ctc.confidence.frame_measurer import FrameMeasurer
    from arcbeam.ctc.engines import SearchEngine
    from arcbeam.ctc.lattice._lattice import AnswerEngine
    from arcbeam.ctc.options import DecoderOptions
    from arcbeam.ctc.rescoring import Rescoring
    from arcbeam.graph.graph import Graph


@dataclass(eq=False)
class BeamSearch:
    """An engine, and what every batch passes before it and after it."""

    # log-probs -> Inputs -> Paths -> Results, with LatticeAnswers where these were requested -> Hypotheses
    graph: Graph
    options: DecoderOptions
    rescoring: Rescoring | None
    engine: SearchEngine
    intake: LogProbIntake
    measurer: FrameMeasurer
    reader: LatticeReader
    check_beam: BeamCheck
    columns: int  # that it reads
    of_thread: threading.local
    """Its `stats` are those of the thread's last call."""

    def check_files(self) -> None:
        """FormatError if a file that the graph or a model is mapped from has been changed in place."""
        self.graph.check_file()
        if self.rescoring is not None:
            self.rescoring.check_files()

    def call(
        self,
        boost: Boosts,
        outputs: Outputs,
        frame_confidence: str | ConfidenceMethod | None,
        cuda_stream: Any,
        errors: str,
        logits: bool,
    ) -> DecodeCall:
        """The options of a call of decode, checked."""
        check_bool("logits", logits)
        check_errors(errors)
        self.check_outputs(outputs)
        return DecodeCall(boost, outputs, self.method(frame_confidence), cuda_stream, errors, logits)

    @cached_property
    def _repeats_words(self) -> bool:
        return repeats_words(self.graph)

    def check_outputs(self, outputs: Outputs) -> None:
        """Warns of graphs in which a label that lasts is also the same label, or word, twice."""
        if outputs.needs_lattices and self._repeats_words:
            warn(
                "nbest, confidence, mbr, lattice: expected a graph of the topology normal, got "
                f"{self.graph.meta['topology']}, which also reads a word of one token that lasts as the same word "
                "several times: such entries are in its lists, and confidences are too small; Graph.build(..., "
                "topology='normal'), or --topology normal, has no such paths, and as many arcs more as the square of "
                "the number of tokens"
            )
        if outputs.needs_lattices and self.graph.meta.get("topology") == "greedy":
            warn(
                "nbest, confidence, mbr, lattice: expected a graph of the topology normal, got a greedy one, which "
                "also reads a label that lasts as the same label twice: such entries are in its lists, and confidences "
                "are too small; Graph.greedy(tokens, topology='normal') has no such paths"
            )

    def method(self, frame_confidence: str | ConfidenceMethod | None) -> ConfidenceMethod | None:
        """How confidences of frames are measured, checked."""
        method = resolve(frame_confidence, "frame_confidence")
        if method is not None and self.graph.blank is None:
            raise ValueError("frame_confidence: the graph has no blank; give blank= when it is loaded")
        return method

    def paths(
        self, inputs: Inputs, errors: str, has_lattices: bool, **more: Any
    ) -> tuple[Paths, dict[str, Any], dict[int, InputError]]:
        """The paths, the counters, and errors by utterance; the caller calls `intake.warn` afterwards."""
        beam = self.options.lattice_beam if has_lattices else None
        found, work, refused = self.intake.decode(inputs, errors, lattice_beam=beam, **more)
        return Paths(*found), work, refused

    def results(self, paths: Paths, errors: Mapping[int, Fault], **more: Any) -> Results:
        """What the hypotheses of a batch share."""
        return Results(self.graph, self.options, self.rescoring, paths, errors, **more)

    def searched(self, log_probs: Any, lengths: Any, call: DecodeCall, *, at_once: bool = False) -> Results:
        """A batch, with all that has to be read of its log-probs; what is read from lattices is still to come.

        at_once : whether an engine of a GPU has its lattices answered while it decodes others
        """
        self.check_files()
        boosts = compiled_for(self.graph, call.boost, self.options.threads or usable_cores())
        self.check_beam(call.boost)
        inputs = self.intake.take(log_probs, lengths, call.cuda_stream, call.logits)
        more: dict[str, Any] = {}
        if at_once and call.outputs.needs_answers and self.engine.stream is not None:
            more["answers"] = self.reader.request(call.boost, call.outputs, self.options.scale, len(inputs.table))
        paths, work, refused = self.paths(inputs, call.errors, call.outputs.needs_lattices, boosts=boosts, **more)
        self.intake.warn()
        self.check_files()
        self.of_thread.stats = stats = DecodeStats(**work)
        frames = None if call.method is None else self.measurer.of_batch(inputs, refused, call.method)
        return self.results(paths, refused, outputs=call.outputs, boosts=call.boost, frames=frames, stats=stats)

    def answered(self, results: Results, engine: AnswerEngine | None = None) -> Hypotheses:
        """The hypotheses, with what is read from lattices: by an engine of one's own, or the decoder's."""
        found = self.reader.answered(results, engine)
        return Hypotheses(map(Hypothesis, itertools.repeat(found), range(len(found.paths.begins))), found.stats)
