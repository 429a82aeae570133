"""How all decoders take a batch in, have their engine decode it, and report what was wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from arcbeam.arrays.bad_values import check_errors, log_prob_errors
from arcbeam.arrays.batches import Utterances, Wanted, as_copy, as_utterances
from arcbeam.arrays.engine import Bad, Engine
from arcbeam.arrays.input_looks import InputLooks
from arcbeam.arrays.on_device import as_device_utterances, copied_to_host, is_on_device, refuse_capture

Answers = TypeVar("Answers")
LogProbEngine: TypeAlias = Engine[..., tuple[Answers, dict[str, Any], list[Bad]]]
"""Its `decode` takes a Table, columns, whether the table is of the host's memory, Looks or None, and what is wanted."""


def take_batch(
    batch: Any, lengths: Any, wanted: Wanted, engine: Engine[..., Any], cuda_stream: Any = None
) -> tuple[Utterances, bool]:
    """A batch as the engine takes it, and whether it lies in the host's memory.

    Raises TypeError, ValueError or CudaError as `as_utterances` and `as_device_utterances` do.
    """
    reader = engine.stream
    on_device = reader is not None and is_on_device(batch)
    if on_device:
        return as_device_utterances(batch, lengths, wanted, reader=reader, cuda_stream=cuda_stream), False
    if cuda_stream is not None:
        raise ValueError(f"cuda_stream: expected None, because {wanted.name} or the decoder is not on a GPU")
    if reader is not None:
        refuse_capture(reader)
    return as_utterances(batch, lengths, wanted), True


class KeptChunk(NamedTuple):
    """A chunk that will be decoded later.

    Attributes
    ----------
    array : array [frames, columns]
        In the host's memory a copy; on a GPU the array itself.
    frames, columns : int
    on_host : bool
    """

    array: Any
    frames: int
    columns: int
    on_host: bool


def kept_chunk(chunk: Any, wanted: Wanted, engine: Engine[..., Any]) -> KeptChunk:
    """Checks a chunk now, in the thread that has it, so that it can be decoded later, by another thread.

    The caller may write to a chunk in the host's memory again. One on a GPU is not copied; what writes it there is
    waited for by the engine's later work, as if it were decoded now. None is a chunk without frames.

    Raises TypeError, ValueError or CudaError as `as_utterances` and `as_device_utterances` do.
    """
    if chunk is None:
        chunk = np.empty((0, wanted.columns), np.float32)
    reader = engine.stream
    if reader is not None and is_on_device([chunk]):
        table = (taken := as_device_utterances([chunk], None, wanted, reader=reader)).table
        return KeptChunk(chunk, int(table[0, 2]), taken.columns, False)
    copy = as_copy(chunk, wanted)
    frames, columns = copy.shape
    return KeptChunk(copy, frames, columns, True)


@dataclass(frozen=True)
class Decoded:
    """The results of an engine for a batch of log-probs.

    Attributes
    ----------
    answers : object
        Those of all utterances, in the engine's form.
    work : dict
        Counters of the engine's work.
    errors : dict of int to ValueError
        By utterance, the reason why it could not be decoded.
    utterances : Utterances
        The batch as the engine took it.
    on_host : bool
        Whether it lies in the host's memory.
    reader : object
        The engine's `stream`, which copies from a GPU.
    """

    answers: Any
    work: dict[str, Any]
    errors: dict[int, ValueError]
    utterances: Utterances
    on_host: bool
    reader: Any

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
    """Takes in the batches of one decoder of log-probs, looks at some of their frames, and warns of what looks wrong.

    Parameters
    ----------
    columns : int
        The number of columns that are read.
    exact : bool
        Whether more columns are an error.
    blank : int or None
    token : callable
        Returns the name of a column for messages.
    """

    def __init__(self, columns: int, exact: bool, blank: int | None, token: Callable[[int], str]) -> None:
        self._wanted = Wanted(columns, exact)
        self._looks = InputLooks(columns, blank, exact, token)

    def keep(self, engine: LogProbEngine[Any], chunk: Any) -> KeptChunk:
        """A chunk that will be decoded later: `kept_chunk`."""
        return kept_chunk(chunk, self._wanted, engine)

    def decode(
        self,
        engine: LogProbEngine[Any],
        log_probs: Any,
        lengths: Any,
        errors: str,
        cuda_stream: Any = None,
        **wanted: Any,
    ) -> Decoded:
        """Has the engine decode a batch; a value that is no log-prob raises an error, unless `errors` is "return".

        `wanted` is passed on to the engine: what the answers are to have that not every engine gives.
        """
        check_errors(errors)
        utterances, on_host = take_batch(log_probs, lengths, self._wanted, engine, cuda_stream)
        looks = self._looks.looks
        answers, work, bad = engine.decode(utterances.table, utterances.columns, on_host, looks, **wanted)
        if looks.has_news:
            self._looks.tell()
        found = log_prob_errors(bad, utterances, errors)
        return Decoded(answers, work, found, utterances, on_host, engine.stream)
