"""How all decoders take a batch in, have their engine decode it, and report what was wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from arcbeam.arrays.bad_values import check_errors, fault_of_log_probs, log_prob_errors
from arcbeam.arrays.batches import InputSpec, Utterances, as_copy, as_utterances, host_width, normalised, table_of
from arcbeam.arrays.engine import Bad, Engine
from arcbeam.arrays.input_warnings import InputWarnings, TimeFirstCheck
from arcbeam.arrays.on_device import (
    as_device_utterances,
    copied_to_host,
    device_width,
    is_on_device,
    refuse_capture,
)
from arcbeam.core.errors import Fault, InputError

Answers = TypeVar("Answers")
ANY_FRAMES = 2**31 - 1  # as many as an array may have
LogProbEngine: TypeAlias = Engine[..., tuple[Answers, dict[str, Any], list[Bad]]]
"""Its `decode` takes a Table, columns, whether it is in host memory, InputChecks or None, and options of its own."""


def take_batch(
    batch: Any, lengths: Any, spec: InputSpec, engine: Engine[..., Any], cuda_stream: Any = None
) -> tuple[Utterances, bool]:
    """A batch as the engine takes it, and whether it is in host memory; errors as of `as_(device_)utterances`."""
    reader = engine.stream
    on_device = reader is not None and is_on_device(batch)
    if on_device:
        return as_device_utterances(batch, lengths, spec, reader=reader, cuda_stream=cuda_stream), False
    _refuse_stream(spec, cuda_stream)
    if reader is not None:
        refuse_capture(reader)
    return as_utterances(batch, lengths, spec), True


def _refuse_stream(spec: InputSpec, cuda_stream: Any) -> None:
    if cuda_stream is not None:
        raise ValueError(f"cuda_stream: expected None, because {spec.name} or the decoder is not on a GPU")


class Chunks(NamedTuple):
    """The chunks of some streams, as the engine takes them."""

    utterances: Utterances  # chunks with a fault have no frames
    on_host: bool
    faults: dict[int, Fault]  # by place


def take_chunks(
    chunks: Any, lengths: Any, streams: int, spec: InputSpec, engine: Engine[..., Any], cuda_stream: Any, errors: str
) -> Chunks:
    """Takes chunks as `take_batch`; ValueError for a wrong number. "return": each array of a list has its own fault."""
    taken = _chunks_of(chunks, lengths, spec, engine, cuda_stream, errors)
    if len(taken.utterances.table) != streams:
        got = len(taken.utterances.table)
        raise ValueError(f"{spec.name}: expected a chunk for each stream, {streams}, got {got}")
    return taken


def _chunks_of(
    chunks: Any, lengths: Any, spec: InputSpec, engine: Engine[..., Any], cuda_stream: Any, errors: str
) -> Chunks:
    try:
        return Chunks(*take_batch(chunks, lengths, spec, engine, cuda_stream), {})
    except (TypeError, ValueError) as error:
        if errors == "raise" or not isinstance(chunks, (list, tuple)):
            raise
        of_all = error.with_traceback(None)  # which would keep the arrays
    faults = _faults_of(chunks, spec, engine)
    if not faults:
        raise of_all
    sound = [at for at in range(len(chunks)) if at not in faults]
    cuda_stream = cuda_stream if sound else None
    utterances, on_host = take_batch([chunks[at] for at in sound], None, spec, engine, cuda_stream)
    table = np.zeros((len(chunks), 4), np.int64)
    table[sound] = utterances.table
    table[list(faults), 2] = ANY_FRAMES  # a length fits
    table = table_of(table, lengths)
    table[list(faults), 2] = 0
    return Chunks(replace(utterances, table=table), on_host, faults)


def _faults_of(chunks: Sequence[Any], spec: InputSpec, engine: Engine[..., Any]) -> dict[int, Fault]:
    """What is wrong with single arrays, which have the place and the width of the first one without a fault."""
    reader = engine.stream
    on_device = reader is not None and is_on_device(chunks)
    faults: dict[int, Fault] = {}
    widths: dict[int, int] = {}
    for at, chunk in enumerate(chunks):
        name = f"{spec.name}[{at}]"
        try:
            width = device_width(chunk, name, spec, reader) if on_device else host_width(chunk, name, spec)
        except (TypeError, ValueError) as error:
            faults[at] = error.with_traceback(None)
            continue
        widths[at] = width
        first = min(widths)
        if width != widths[first]:
            faults[at] = ValueError(f"{name}: expected {widths[first]} {spec.axis}, as at {first}, got {width}")
    return faults


class KeptChunk(NamedTuple):
    """A chunk that will be decoded later."""

    array: Any  # [frames, columns]: in host memory a copy, on a GPU the array itself
    frames: int
    columns: int
    on_host: bool
    is_long: bool = False  # to be decoded in pieces
    fault: InputError | None = None  # of a long one's values: nothing of it is to be decoded


def kept_chunk(
    chunk: Any,
    spec: InputSpec,
    engine: Engine[..., Any],
    cuda_stream: Any,
    max_frames: int,
    fault_of: Callable[[np.ndarray], InputError | None],
) -> KeptChunk:
    """Checks a chunk now, so that another thread can decode it later; errors as of `as_(device_)utterances`."""
    # The caller may overwrite a chunk in host memory. One on a GPU is not copied; the engine's later work waits for
    # what writes it, as if it were decoded now. A chunk of more than `max_frames` is copied in any case, and `fault_of`
    # checks it, because an engine would find bad values after earlier pieces were decoded.
    if chunk is None:
        chunk = np.empty((0, spec.columns), np.float32)
    reader = engine.stream
    if reader is not None and is_on_device([chunk]):
        taken = as_device_utterances([chunk], None, spec, reader=reader, cuda_stream=cuda_stream)
        frames = int(taken.table[0, 2])
        if frames <= max_frames:
            return KeptChunk(chunk, frames, taken.columns, False)
        copy = copied_to_host(taken, reader).rows(0, 0, taken.columns)
    else:
        _refuse_stream(spec, cuda_stream)
        copy = as_copy(chunk, spec)
    frames, columns = copy.shape
    is_long = frames > max_frames
    return KeptChunk(copy, frames, columns, True, is_long, fault_of(copy) if is_long else None)


@dataclass(frozen=True)
class Decoded:
    """The results of an engine for a batch of log-probs."""

    answers: Any  # of all utterances, in the engine's form
    work: dict[str, Any]  # counters
    errors: dict[int, InputError]  # by utterance: why it could not be decoded
    utterances: Utterances  # as the engine took them
    on_host: bool  # whether they are in host memory
    reader: Any  # the engine's `stream`, which copies from a GPU

    def rows(self, utterance: int, first: int, columns: int) -> np.ndarray:
        """float32[frames, columns]: a copy of the first columns of the frames from `first` on, in the host's memory."""
        if self.on_host:
            return self.utterances.rows(utterance, first, columns)
        one = replace(self.utterances, table=self.utterances.table[utterance : utterance + 1])
        return copied_to_host(one, self.reader).rows(0, first, columns)

    @property
    def frames(self) -> list[int]:
        """The number of frames of each utterance."""
        frames: list[int] = self.utterances.table[:, 2].tolist()
        return frames


class LogProbIntake:
    """Takes in the batches of one decoder, checks some of their frames, and warns of unlikely input."""

    def __init__(self, columns: int, exact: bool, blank: int | None, token: Callable[[int], str]) -> None:
        self._spec = InputSpec(columns, exact)
        self._check_axes = TimeFirstCheck(self._spec.name, self._spec.axis)
        self._warnings = InputWarnings(columns, blank, exact, token)

    def keep(self, engine: LogProbEngine[Any], chunk: Any, cuda_stream: Any, max_frames: int) -> KeptChunk:
        """A chunk that will be decoded later: `kept_chunk`."""
        return kept_chunk(chunk, self._spec, engine, cuda_stream, max_frames, fault_of_log_probs)

    def decode(
        self,
        engine: LogProbEngine[Any],
        log_probs: Any,
        lengths: Any,
        errors: str,
        cuda_stream: Any = None,
        logits: bool = False,
        **outputs: Any,
    ) -> Decoded:
        """Decodes a batch with any further `outputs`; ValueError for a value that is no log-prob, unless "return".

        With `logits` the host makes log-probs of the values, which are copied to it from a GPU.
        """
        check_errors(errors)
        utterances, on_host = take_batch(log_probs, lengths, self._spec, engine, cuda_stream)
        self._check_axes(utterances.arrays, lengths)
        if logits:
            utterances = normalised(utterances if on_host else copied_to_host(utterances, engine.stream))
            on_host = True
        found = self.decode_taken(engine, Chunks(utterances, on_host, {}), errors, **outputs)
        self.warn()
        return found

    def take_chunks(
        self, engine: LogProbEngine[Any], log_probs: Any, lengths: Any, streams: int, errors: str, cuda_stream: Any
    ) -> Chunks:
        """The next chunk of each of so many streams: `take_chunks`."""
        return take_chunks(log_probs, lengths, streams, self._spec, engine, cuda_stream, errors)

    def decode_taken(self, engine: LogProbEngine[Any], chunks: Chunks, errors: str, **outputs: Any) -> Decoded:
        """Decodes, as `decode` does, what has been taken in; the caller calls `warn` afterwards."""
        utterances, checks = chunks.utterances, self._warnings.checks
        answers, work, bad = engine.decode(utterances.table, utterances.columns, chunks.on_host, checks, **outputs)
        found = log_prob_errors(bad, utterances, errors)
        return Decoded(answers, work, found, utterances, chunks.on_host, engine.stream)

    def warn(self) -> None:
        """Warns of what the last checks have found, which may raise an error."""
        if self._warnings.checks.has_news:
            self._warnings.warn()
