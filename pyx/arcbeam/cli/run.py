"""The loop of ``arcbeam decode`` and ``transduce``: from batches to transcripts, word error rate and speed."""

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from arcbeam.cli.console import Failure
from arcbeam.cli.terminal import note
from arcbeam.core.errors import InputWarning, without_place
from arcbeam.files.log_probs import Utterance
from arcbeam.report.score import Score
from arcbeam.report.styles import Style, differences

if TYPE_CHECKING:
    from arcbeam.ctc.align.alignment import Alignment
    from arcbeam.ctc.decoder import CtcDecoder
    from arcbeam.graph.graph import Graph
    from arcbeam.transducer.decoder import TransducerDecoder

NAMED = 5


@dataclass
class Speed:
    """The amount that was decoded, and the time it took."""

    utterances: int = 0
    frames: int = 0
    seconds: float = 0.0
    unfinished: int = 0
    dead: list[str] = field(default_factory=list)
    run_seconds: float = 0.0

    def describe(self, frame_shift: float | None, device: str, done: str = "decoded") -> str:
        """Return the summary line; it includes audio seconds and RTFx if `frame_shift` (seconds) is known."""
        amount = f"{self.utterances:,} utterance{'s'[: self.utterances != 1]}, {self.frames:,} frames"
        if frame_shift is not None:
            amount += f", {self.frames * frame_shift:,.1f} s of audio"
        text = f"{done} {amount} in {_took(self.seconds)} ({self._rate(self.seconds, frame_shift)}"
        text += "; RTFx needs --frame-shift)" if frame_shift is None else ")"
        text += f" on {device}"
        if self.run_seconds:
            text += (
                f"; with reading and writing {_took(self.run_seconds)} ({self._rate(self.run_seconds, frame_shift)})"
            )
        if self.unfinished:
            text += f"; {self.unfinished:,} did not end in a final state"
        if self.dead:
            text += f"; the search died before the last frame of {named(self.dead)}"
        return text

    def _rate(self, seconds: float, frame_shift: float | None) -> str:
        seconds = max(seconds, 1e-9)
        if frame_shift is None:
            return f"{self.frames / seconds:,.0f} frames/s"
        return f"RTFx {self.frames * frame_shift / seconds:,.0f}"


class Done:
    """How many utterances are decoded, for another thread: those of whole batches, and of the one in progress."""

    def __init__(self) -> None:
        self._state: tuple[int, Callable[[], int]] = (0, lambda: 0)

    def __call__(self) -> int:
        """The number so far."""
        whole, finished = self._state
        return whole + finished()

    def begin(self, finished: Callable[[], int]) -> None:
        """A batch begins, of which so many are decoded as `finished` returns."""
        self._state = self._state[0], finished

    def add(self, utterances: int) -> None:
        """The batch, of so many utterances, has ended."""
        self._state = self._state[0] + utterances, lambda: 0


@dataclass
class Scorer:
    """Compares transcripts with references as they come, and records which of the two lacks an utterance."""

    references: Mapping[str, str]
    allow_missing: bool = False
    ignore_case: bool = False
    keep_alignments: bool = False
    seen: set[str] = field(default_factory=set)
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
        self.seen.update(name for name in names if name in self.references)

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


class TextAligner:
    """A decoder that aligns what `decode_all` has it decode."""

    def __init__(self, decoder: "CtcDecoder") -> None:
        self._decoder = decoder
        self.finished: Callable[[], int] = decoder.finished

    def decode(self, log_probs: list[Any], *, texts: list[str], **options: Any) -> "list[Alignment]":
        """The alignments of a batch."""
        return self._decoder.align(log_probs, texts, **options)


def decode_all(
    decoder: "CtcDecoder | TransducerDecoder | TextAligner",
    utterances: Iterable[Utterance],
    write: Callable[[Utterance, Any], None],
    *,
    check: Callable[[list[Utterance]], None],
    batch_size: int,
    referee: Scorer | None = None,
    done: Done | None = None,
    requested: Mapping[str, Any] = MappingProxyType({}),
    of_each: "Mapping[str, Callable[[str], Any]]" = MappingProxyType({}),
    leave_out: "Callable[[Utterance, str], None] | None" = None,
) -> Speed:
    """Decode `utterances` in batches and `write` each hypothesis, in order; `check` may fail on a batch.

    `of_each`: options that have a value for each utterance, by its name. `leave_out` is called for utterances with an
    error, which are not written; without it the first one ends the loop.
    """
    speed, done, taken = Speed(), done or Done(), 0
    for batch in batches(utterances, batch_size):
        if referee:
            referee.expect([utterance.id for utterance in batch])
        check(batch)
        done.begin(decoder.finished)
        start = time.perf_counter()
        own = {name: [value(utterance.id) for utterance in batch] for name, value in of_each.items()}
        hypotheses = decode_batch(decoder, batch, **requested, **own)
        speed.seconds += time.perf_counter() - start
        taken += len(batch)
        for utterance, hypothesis in decoded(batch, hypotheses, leave_out):
            write(utterance, hypothesis)
            speed.utterances += 1
            speed.frames += len(utterance.log_probs)
            speed.unfinished += hypothesis.complete and not getattr(hypothesis, "reached_final", True)  # CTC's alone
            if not hypothesis.complete:
                speed.dead.append(utterance.id)
        if referee:
            referee.add({u.id: h.text for u, h in zip(batch, hypotheses, strict=True)})
            referee.add_greedy(batch)
        done.add(len(batch))
    if not taken:
        raise Failure("the input contains no utterances")
    return speed


def batches(utterances: Iterable[Utterance], size: int, most_bytes: int = 1 << 28) -> Iterator[list[Utterance]]:
    """Group utterances into lists of at most `size` that hold at most about `most_bytes` of log-probs."""
    batch: list[Utterance] = []
    held = 0
    for utterance in utterances:
        if batch and (len(batch) == size or held + utterance.log_probs.nbytes > most_bytes):
            yield batch
            batch, held = [], 0
        batch.append(utterance)
        held += utterance.log_probs.nbytes
    if batch:
        yield batch


def check_width(graph: "Graph", batch: Iterable[Utterance]) -> None:
    """Raise a `ValueError` that names the utterance whose columns do not fit the graph."""
    for utterance in batch:
        columns = utterance.log_probs.shape[1]
        if columns < graph.num_columns or (graph.width_is_exact and columns != graph.num_columns):
            expected = f"{graph.num_columns}" if graph.width_is_exact else f"at least {graph.num_columns}"
            why = ""
            if utterance.log_probs.shape[0] == graph.num_columns:
                why = "; is it [columns, frames]? Transpose it to [frames, columns]"
            elif columns == graph.num_columns - 1:
                why = "; do the log-probs lack a column, such as the blank's?"
            elif columns == graph.num_columns + 1:
                why = "; was a line missing from the tokens of the graph, such as the blank's or the space's?"
            raise ValueError(
                f"{utterance.source}: utterance {utterance.id!r} has {columns} columns, the graph expects "
                f"{expected}{why}"
            )


def decode_batch(decoder: Any, batch: list[Utterance], **requested: Any) -> list[Any]:
    """Return the hypotheses of a decoder of either kind; one may have an error. Warnings become notes."""
    with warnings.catch_warnings(record=True) as caught:
        hypotheses = decoder.decode([u.log_probs for u in batch], errors="return", **requested)
    for warning in caught:
        message = warning.message
        if isinstance(message, InputWarning):  # the name replaces the number
            message = message.at(utterance=batch[message.utterance].id)
        note(f"note: {message}")
    return list(hypotheses)


def decoded(
    batch: list[Utterance], hypotheses: list[Any], leave_out: Callable[[Utterance, str], None] | None = None
) -> Iterator[tuple[Utterance, Any]]:
    """Yield pairs up to the first with an error, a `ValueError` that names file and utterance, or tell `leave_out`."""
    for utterance, hypothesis in zip(batch, hypotheses, strict=True):
        if hypothesis.error is None:
            yield utterance, hypothesis
            continue
        what = str(without_place(hypothesis.error))  # the name replaces the number
        if leave_out is None:
            raise ValueError(f"{utterance.source}: utterance {utterance.id!r}: {what}") from hypothesis.error
        leave_out(utterance, what)


def _took(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.1f} ms"


def named(names: list[str]) -> str:
    """Returns the number of utterances and the first names."""
    shown = ", ".join(names[:NAMED])
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return f"{len(names):,} utterance{'s'[: len(names) != 1]}: {shown}{more}"
