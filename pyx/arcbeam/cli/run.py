"""The loop of ``arcbeam decode`` and ``transduce``: from batches to transcripts, word error rate and speed."""

import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from arcbeam.cli.console import Failure
from arcbeam.cli.score import NAMED, Scorer, named
from arcbeam.cli.terminal import as_typed, note
from arcbeam.core.errors import InputWarning, without_place
from arcbeam.files.log_probs import Utterance
from arcbeam.jobs.job import Failed, Job, reason

if TYPE_CHECKING:
    from arcbeam.ctc.align.alignment import Alignment
    from arcbeam.ctc.decoder import CtcDecoder
    from arcbeam.graph.graph import Graph
    from arcbeam.transducer.decoder import TransducerDecoder

MOST_BYTES = 1 << 28  # of log-probs in memory for a decoder


class Names:
    """How many utterances there are of some kind, and the first of them."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[str] = []

    def add(self, name: str) -> None:
        """One more."""
        self.count += 1
        if len(self.first) < NAMED:
            self.first.append(name)

    def __str__(self) -> str:
        return named(self.first, self.count)


@dataclass
class Speed:
    """The amount that was decoded, and the time it took."""

    utterances: int = 0
    frames: int = 0
    seconds: float = 0.0
    unfinished: int = 0
    dead: Names = field(default_factory=Names)
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
        if self.dead.count:
            text += f"; the search died before the last frame of {self.dead}"
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

    def begin(self, finished: Sequence[Callable[[], int]]) -> None:
        """A batch begins, of which so many are decoded as `finished` return."""
        self._state = self._state[0], lambda: sum(one() for one in finished)

    def add(self, utterances: int) -> None:
        """The batch, of so many utterances, has ended."""
        self._state = self._state[0] + utterances, lambda: 0


class TextAligner:
    """A decoder that aligns what `decode_all` has it decode."""

    def __init__(self, decoder: "CtcDecoder") -> None:
        self._decoder = decoder
        self.finished: Callable[[], int] = decoder.finished

    def decode(self, log_probs: list[Any], *, texts: list[str], **options: Any) -> "list[Alignment]":
        """The alignments of a batch."""
        return self._decoder.align(log_probs, texts, **options)


def decode_all(
    decoders: "Sequence[CtcDecoder | TransducerDecoder | TextAligner]",
    utterances: Iterable[Utterance | Failed],
    write: Callable[[Utterance, Any], None],
    *,
    check: Callable[[list[Utterance]], None],
    batch_size: int,
    referee: Scorer | None = None,
    done: Done | None = None,
    requested: Mapping[str, Any] = MappingProxyType({}),
    of_each: "Mapping[str, Callable[[str], Any]]" = MappingProxyType({}),
    job: Job | None = None,
    is_wanted: Callable[[str], bool] | None = None,
) -> Speed:
    """Decode `utterances` in batches and `write` each hypothesis, in order; `check` may fail on a batch.

    `of_each`: options that have a value for each utterance, by its name. The first utterance with an error ends the
    loop, unless `job` leaves them out; it keeps the position after each batch. Utterances whose name is not
    `is_wanted` are skipped.
    """
    speed, done, job = Speed(), done or Done(), job or Job([])
    if referee:
        referee.restore(job.position.scores)
    done.add(job.position.utterances)
    count = len(decoders)
    for batch in batches(utterances, batch_size * count, MOST_BYTES * count):
        taken = len(batch)
        if is_wanted is not None:
            batch = [one for one in batch if not one.id or is_wanted(one.id)]
        if referee:
            referee.expect([one.id for one in batch if isinstance(one, Utterance)])
        batch = _checked(batch, check, job.skip_errors)
        good = [one for one in batch if isinstance(one, Utterance)]
        done.begin([decoder.finished for decoder in decoders])
        start = time.perf_counter()
        found = dict(zip((u.id for u in good), decode_batch(decoders, good, of_each, **requested), strict=True))
        speed.seconds += time.perf_counter() - start
        decoded = []
        for one in batch:
            failed = one if isinstance(one, Failed) else _failed(one, found[one.id].error, job.skip_errors)
            if failed is not None:
                job.leave_out(failed)
                continue
            assert isinstance(one, Utterance)
            hypothesis = found[one.id]
            write(one, hypothesis)
            decoded.append(one)
            speed.frames += len(one.log_probs)
            speed.unfinished += hypothesis.complete and not getattr(hypothesis, "reached_final", True)  # CTC's alone
            if not hypothesis.complete:
                speed.dead.add(one.id)
        if referee:
            referee.add({one.id: found[one.id].text for one in decoded})
            referee.add_greedy(decoded)
        speed.utterances += len(decoded)
        job.mark(taken, len(decoded), referee.state() if referee else {})
        done.add(taken)
    if not job.position.utterances and job.shard is None:
        raise Failure("the input contains no utterances")
    job.end()
    return speed


def _checked(
    batch: list[Utterance | Failed], check: Callable[[list[Utterance]], None], skip_errors: bool
) -> list[Utterance | Failed]:
    """The batch after a check; if errors are left out, those that it fails on have failed."""
    if not skip_errors:
        check([one for one in batch if isinstance(one, Utterance)])
        return batch
    checked: list[Utterance | Failed] = []
    for one in batch:
        try:
            if isinstance(one, Utterance):
                check([one])
            checked.append(one)
        except (ValueError, Failure) as error:
            checked.append(Failed(one.id, one.source, as_typed(reason(error))))
    return checked


def _failed(utterance: Utterance, error: Any, skip_errors: bool) -> Failed | None:
    """The failure of an utterance that has an error, or a `ValueError` that names it and its file."""
    if error is None:
        return None
    what = str(without_place(error))  # the name replaces the number
    if not skip_errors:
        raise ValueError(f"{utterance.source}: utterance {utterance.id!r}: {what}") from error
    return Failed(utterance.id, utterance.source, as_typed(what))


def batches(
    utterances: Iterable[Utterance | Failed], size: int, most_bytes: int = MOST_BYTES
) -> Iterator[list[Utterance | Failed]]:
    """Group utterances into lists of at most `size` that hold at most about `most_bytes` of log-probs."""
    batch: list[Utterance | Failed] = []
    held = 0
    for utterance in utterances:
        needed = utterance.log_probs.nbytes if isinstance(utterance, Utterance) else 0
        if batch and (len(batch) == size or held + needed > most_bytes):
            yield batch
            batch, held = [], 0
        batch.append(utterance)
        held += needed
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


def decode_batch(
    decoders: Sequence[Any],
    batch: list[Utterance],
    of_each: "Mapping[str, Callable[[str], Any]]" = MappingProxyType({}),
    **requested: Any,
) -> list[Any]:
    """Return the hypotheses, of which some may have an error. Each decoder has a part of the batch and a thread.

    Warnings become notes. No result depends on the number of decoders.
    """
    size = -(-len(batch) // len(decoders))
    parts = [batch[at : at + size] for at in range(0, len(batch), size)] if batch else []
    own = [{name: [value(u.id) for u in part] for name, value in of_each.items()} for part in parts]
    by_thread: dict[int, int] = {}
    warned: list[tuple[int, Any]] = []

    def decode(number: int) -> list[Any]:
        by_thread[threading.get_ident()] = number
        log_probs = [utterance.log_probs for utterance in parts[number]]
        return list(decoders[number].decode(log_probs, errors="return", **requested, **own[number]))

    def keep(message: Any, *_: Any, **__: Any) -> None:
        warned.append((by_thread.get(threading.get_ident(), 0), message))

    with warnings.catch_warnings():
        warnings.showwarning = keep
        if len(parts) < 2:
            found = [decode(number) for number in range(len(parts))]
        else:
            with ThreadPoolExecutor(len(parts)) as pool:
                found = list(pool.map(decode, range(len(parts))))
    for number, message in sorted(warned, key=lambda one: one[0]):
        if isinstance(message, InputWarning):  # the name replaces the number
            message = message.at(utterance=parts[number][message.utterance].id)
        note(f"note: {message}")
    return [hypothesis for part in found for hypothesis in part]


def _took(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.1f} ms"
