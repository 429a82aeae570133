"""How all decoders take a batch in, have their engine decode it, and report what was wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from arcbeam.arrays.bad_values import fault_of_log_probs, log_prob_errors
from arcbeam.arrays.batches import (
    Inputs,
    InputSpec,
    as_copy,
    as_inputs,
    as_log_probs,
    host_width,
    resolved,
    table_of,
)
from arcbeam.arrays.engine import Bad, Engine
from arcbeam.arrays.input_warnings import InputWarnings, LogitsCheck, TimeFirstCheck
from arcbeam.arrays.on_device import as_device_inputs, device_width, is_on_device, refuse_capture
from arcbeam.core.errors import Fault, InputError

Answers = TypeVar("Answers")
ANY_FRAMES = 2**31 - 1  # as many as an array may have
LogProbEngine: TypeAlias = Engine[..., tuple[Answers, dict[str, Any], list[Bad]]]
"""Its `decode` takes a Table, columns, whether it is in host memory, InputChecks or None, and options of its own."""


def take_batch(batch: Any, lengths: Any, spec: InputSpec, engine: Engine[..., Any], cuda_stream: Any = None) -> Inputs:
    """A batch as the engine takes it; errors as of `as_(device_)inputs`."""
    reader = engine.stream
    if reader is not None and is_on_device(batch):
        return as_device_inputs(batch, lengths, spec, reader=reader, cuda_stream=cuda_stream)
    _refuse_stream(spec, cuda_stream)
    if reader is not None:
        refuse_capture(reader)
    batch = [*map(resolved, batch)] if isinstance(batch, (list, tuple)) else resolved(batch)
    return as_inputs(batch, lengths, spec)


def _refuse_stream(spec: InputSpec, cuda_stream: Any) -> None:
    if cuda_stream is not None:
        raise ValueError(f"cuda_stream: expected None, because {spec.name} or the decoder is not on a GPU")


def take_chunks(
    chunks: Any, lengths: Any, streams: int, spec: InputSpec, engine: Engine[..., Any], cuda_stream: Any, errors: str
) -> tuple[Inputs, dict[int, Fault]]:
    """The chunks of so many streams, as `take_batch` takes them, and the faults by place; these have no frames.

    ValueError for a wrong number. "return": each array of a list has its own fault.
    """
    taken, faults = _chunks_of(chunks, lengths, spec, engine, cuda_stream, errors)
    if len(taken.table) != streams:
        raise ValueError(f"{spec.name}: expected a chunk for each stream, {streams}, got {len(taken.table)}")
    return taken, faults


def _chunks_of(
    chunks: Any, lengths: Any, spec: InputSpec, engine: Engine[..., Any], cuda_stream: Any, errors: str
) -> tuple[Inputs, dict[int, Fault]]:
    try:
        return take_batch(chunks, lengths, spec, engine, cuda_stream), {}
    except (TypeError, ValueError) as error:
        if errors == "raise" or not isinstance(chunks, (list, tuple)):
            raise
        of_all = error.with_traceback(None)  # which would keep the arrays
    faults = _faults_of(chunks, spec, engine)
    if not faults:
        raise of_all
    sound = [at for at in range(len(chunks)) if at not in faults]
    taken = take_batch([chunks[at] for at in sound], None, spec, engine, cuda_stream if sound else None)
    table = np.zeros((len(chunks), 4), np.int64)
    table[sound] = taken.table
    table[list(faults), 2] = ANY_FRAMES  # a length fits
    return replace(taken, table=table_of(table, lengths)).without(list(faults)), faults


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
    """Checks a chunk now, so that another thread can decode it later; errors as of `as_(device_)inputs`."""
    # The caller may overwrite a chunk in host memory. One on a GPU is not copied; the engine's later work waits for
    # what writes it, as if it were decoded now. A chunk of more than `max_frames` is copied in any case, and `fault_of`
    # checks it, because an engine would find bad values after earlier pieces were decoded.
    if chunk is None:
        chunk = np.empty((0, spec.columns), np.float32)
    reader = engine.stream
    if reader is not None and is_on_device([chunk]):
        taken = as_device_inputs([chunk], None, spec, reader=reader, cuda_stream=cuda_stream)
        frames = int(taken.table[0, 2])
        if frames <= max_frames:
            return KeptChunk(chunk, frames, taken.columns, False)
        copy = taken.rows(0, 0, taken.columns)
    else:
        _refuse_stream(spec, cuda_stream)
        copy = as_copy(resolved(chunk), spec)
    frames, columns = copy.shape
    is_long = frames > max_frames
    return KeptChunk(copy, frames, columns, True, is_long, fault_of(copy) if is_long else None)


class LogProbIntake:
    """Takes in the batches of one engine, checks some of their frames, and warns of unlikely input."""

    def __init__(
        self, engine: LogProbEngine[Any], columns: int, exact: bool, blank: int | None, token: Callable[[int], str]
    ) -> None:
        self.engine, self._spec = engine, InputSpec(columns, exact)
        self._check_axes = TimeFirstCheck(self._spec.name, self._spec.axis)
        self._check_logits = LogitsCheck(self._spec.name)
        self._warnings = InputWarnings(columns, blank, exact, token)

    def with_engine(self, engine: LogProbEngine[Any]) -> LogProbIntake:
        """The same with another engine: what was warned of once is not warned of again."""
        other = copy(self)
        other.engine = engine
        return other

    def keep(self, chunk: Any, cuda_stream: Any, max_frames: int) -> KeptChunk:
        """A chunk that will be decoded later: `kept_chunk`."""
        return kept_chunk(chunk, self._spec, self.engine, cuda_stream, max_frames, fault_of_log_probs)

    def take(self, log_probs: Any, lengths: Any, cuda_stream: Any = None, logits: bool = False) -> Inputs:
        """A batch: `take_batch`. With `logits` the engine reads the log-probs of the values: `as_log_probs`."""
        taken = take_batch(log_probs, lengths, self._spec, self.engine, cuda_stream)
        self._check_axes(taken.arrays, lengths)
        return self._log_probs_of(taken, np.ones(len(taken.table), np.bool_)) if logits else taken

    def _log_probs_of(self, taken: Inputs, are_logits: npt.NDArray[np.bool_]) -> Inputs:
        self._check_logits(taken, are_logits)
        return as_log_probs(taken, are_logits)

    def take_chunks(
        self, log_probs: Any, lengths: Any, streams: int, errors: str, cuda_stream: Any, logits: Sequence[int] = ()
    ) -> tuple[Inputs, dict[int, Fault]]:
        """The next chunk of each of so many streams: `take_chunks`. `logits`: the places of those that are logits."""
        taken, faults = take_chunks(log_probs, lengths, streams, self._spec, self.engine, cuda_stream, errors)
        if logits:
            are_logits = np.zeros(streams, np.bool_)
            are_logits[logits] = True
            taken = self._log_probs_of(taken, are_logits)
        return taken, faults

    def decode(self, inputs: Inputs, errors: str, **outputs: Any) -> tuple[Any, dict[str, Any], dict[int, InputError]]:
        """Decodes with any further `outputs`: what the engine found, its counters, and errors by utterance.

        ValueError for a value that is no log-prob, unless "return". The caller calls `warn` afterwards.
        """
        if inputs.logits is not None:
            outputs["logits"] = inputs.logits
        found, work, bad = self.engine.decode(
            inputs.table, inputs.columns, inputs.on_host, self._warnings.checks, **outputs
        )
        return found, work, log_prob_errors(bad, inputs, errors)

    def warn(self) -> None:
        """Warns of what the last checks have found, which may raise an error."""
        if self._warnings.checks.has_news:
            self._warnings.warn()
