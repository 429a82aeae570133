"""The word error rate of transcripts as they come, and what a run tells of it."""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING, Any

from arcbeam.cli.console import Failure
from arcbeam.cli.terminal import note
from arcbeam.files.ids import Ids
from arcbeam.files.log_probs import Utterance
from arcbeam.report.score import Score
from arcbeam.report.styles import Style, differences

if TYPE_CHECKING:
    from arcbeam.ctc.decoder import CtcDecoder
    from arcbeam.graph.graph import Graph

NAMED = 5


@dataclass
class Scorer:
    """Compares transcripts with references as they come, and records which of the two lacks an utterance."""

    references: Mapping[str, str]
    allow_missing: bool = False
    ignore_case: bool = False
    keep_alignments: bool = False
    seen: Ids = field(default_factory=Ids)
    without_reference: int = 0
    written: Style = field(default_factory=Style)  # how transcripts are

    def __post_init__(self) -> None:
        self.score = Score(ignore_case=self.ignore_case, keep_alignments=self.keep_alignments)
        self.greedy_score = Score(ignore_case=self.ignore_case)
        self._greedy: CtcDecoder | None = None

    def compare_with_greedy(self, graph: "Graph") -> None:
        """Also score greedy decoding, if text follows from the tokens of the graph."""
        from arcbeam import CtcDecoder, Graph
        from arcbeam.recipe.separators import find_separator

        if graph.tokens is not None and graph.blank is not None:
            with suppress(ValueError), warnings.catch_warnings(action="ignore"):  # several separators; another blank
                if find_separator(graph.tokens) is not None:
                    greedy = Graph.greedy(graph.tokens, blank=graph.blank)
                    self._greedy = CtcDecoder(greedy, beam=0.0, device="cpu")

    def expect(self, names: Sequence[str]) -> None:
        """Fail on utterances without a reference, before any work is done on them; the others count as seen."""
        missing = [name for name in names if name not in self.references]
        self.without_reference += len(missing)
        if missing and not self.allow_missing:
            if len(missing) == len(names) and not self.seen:
                raise Failure(
                    f"the reference lacks {named(missing)}, all of them; its first is "
                    f"{next(iter(self.references))!r}: is it the reference of these inputs?"
                )
            raise Failure(f"the reference lacks {named(missing)}; --allow-missing scores the others")
        for name in names:
            self.pass_over(name)

    def add(self, texts: Mapping[str, str]) -> None:
        """Score transcripts, by the names of their utterances."""
        scored = {name: text for name, text in texts.items() if name in self.references}
        self.written.add(scored.values())
        self.score.add([self.references[name] for name in scored], list(scored.values()))

    def add_greedy(self, batch: Sequence[Utterance]) -> None:
        """Score greedy decoding of a batch, if it is to be compared with."""
        if self._greedy is not None:
            scored = [u for u in batch if u.id in self.references]
            references = [self.references[u.id] for u in scored]
            with warnings.catch_warnings(action="ignore"):  # which the search has given
                self.greedy_score.add(
                    references, [found.text for found in self._greedy.decode([u.log_probs for u in scored])]
                )

    def pass_over(self, name: str) -> None:
        """An utterance that another run decodes, or has decoded."""
        if name in self.references:
            self.seen.add(name)

    def state(self) -> dict[str, Any]:
        """What was counted so far, for a run that goes on."""
        return {
            "score": self.score.counts(), "greedy": self.greedy_score.counts(),
            "without_reference": self.without_reference,
            "written": astuple(self.written),
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes on from what an earlier run has counted, if there was one."""
        if state:
            self.score.add_counts(state["score"])
            self.greedy_score.add_counts(state["greedy"])
            self.without_reference = state["without_reference"]
            self.written = Style(*state["written"])

    def left_out(self) -> list[str]:
        """Return a note on what is not scored, once all utterances are seen; fail if a reference has no utterance."""
        missing = [name for name in self.references if name not in self.seen]
        if missing and not self.allow_missing:
            raise Failure(
                f"the input lacks utterances of the reference ({named(missing)}); --allow-missing scores the others"
            )
        if self.without_reference and not self.seen:
            raise Failure("the inputs and the reference have no utterance in common")
        if not missing and not self.without_reference:
            return []
        return [f"not scored: {self.without_reference:,} without a reference, {len(missing):,} without a transcript"]

    def remarks(self) -> list[str]:
        """Return notes on why transcripts and references may differ."""
        said = self.references.values() if self.score.words else ()
        notes = differences(said, self.written, ignore_case=self.ignore_case)
        if not notes and self.greedy_score.errors < self.score.errors and self.greedy_score.words:
            notes.append(
                "greedy decoding has fewer errors than the search: the language model does not fit this speech, or "
                "has too much weight; try a larger --acoustic-scale, or arcbeam greedy"
            )
        return notes

    def tell(self, is_stdout_free: bool) -> None:
        """Notes `left_out` and `remarks`, and tells the word error rate, and below it that of greedy decoding."""
        for remark in (*self.left_out(), *self.remarks()):
            note(f"note: {remark}")
        greedy = f"\ngreedy decoding: {self.greedy_score}" if self.greedy_score.words else ""
        (print if is_stdout_free else note)(f"{self.score}{greedy}")


def named(names: list[str], count: int | None = None) -> str:
    """Returns the number of utterances and the first names; `count` is the number if `names` are not all."""
    count = len(names) if count is None else count
    shown = ", ".join(names[:NAMED])
    more = f" and {count - NAMED:,} more" if count > NAMED else ""
    return f"{count:,} utterance{'s'[: count != 1]}: {shown}{more}"
