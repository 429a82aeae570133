"""Batches one after another: a thread makes the answers of one while the caller's thread decodes the next."""

from __future__ import annotations

import numbers
import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypedDict

from arcbeam.arrays.batches import one_or_many

if TYPE_CHECKING:
    from arcbeam.core.confidence import ConfidenceMethod
    from arcbeam.ctc.boost.boosts import Boosts
    from arcbeam.ctc.hypothesis import Hypotheses
    from arcbeam.ctc.lattice._lattice import AnswerEngine
    from arcbeam.ctc.results import Outputs, Results

THREAD_NAME = "arcbeam-answers"


class OutputKeywords(TypedDict, total=False):
    """Keywords of `CtcDecoder.decode` that do not say where and what the log-probs are."""

    boost: Boosts
    nbest: int | None
    confidence: bool
    lattice: bool
    mbr: bool
    frame_confidence: str | ConfidenceMethod | None
    errors: str


class DecodeKeywords(OutputKeywords, total=False):
    """Keywords of `CtcDecoder.decode`, for checks of types and for editors."""

    cuda_stream: Any
    logits: bool


class DecodeCall(NamedTuple):
    """The options of a call of decode, checked."""

    boost: Boosts
    outputs: Outputs
    method: ConfidenceMethod | None  # of frame confidences
    cuda_stream: Any
    errors: str
    logits: bool


def check_batches(batches: Any) -> None:
    """TypeError unless it can be iterated, and for what is a batch, which would give its utterances or its frames."""
    if hasattr(batches, "shape") and hasattr(batches, "dtype"):
        got = f"an array of shape {list(batches.shape)}; for one batch write [log_probs], or call decode"
    elif isinstance(batches, tuple) and len(batches) == 2 and _are_lengths(batches[1]):
        got = "a pair (log_probs, lengths); for one batch write [(log_probs, lengths)], or call decode"
    elif isinstance(batches, (str, bytes, Mapping)) or not isinstance(batches, Iterable):
        got = type(batches).__name__
    else:
        return
    raise TypeError(f"batches: expected an iterable of batches, got {got}")


def _are_lengths(lengths: Any) -> bool:
    """Whether these are frames of utterances, and no batch."""
    if hasattr(lengths, "shape"):
        return len(lengths.shape) < 2
    return (
        isinstance(lengths, Sequence)
        and len(lengths) > 0
        and all(isinstance(length, numbers.Integral) for length in lengths)
    )


def log_probs_and_lengths(batch: Any) -> tuple[Any, Any]:
    """(log_probs, lengths) of a batch: a tuple of these, or log_probs alone; ValueError for another one."""
    if isinstance(batch, tuple) and len(batch) != 2:
        raise ValueError(
            f"batches: expected (log_probs, lengths), got a tuple of {len(batch)}; give utterances as a list"
        )
    log_probs, lengths = batch if isinstance(batch, tuple) else (batch, None)
    if one_or_many(log_probs, lengths)[2]:
        raise ValueError(
            "batches: expected lists of utterances, or arrays [batch, frames, columns], got one utterance [frames, "
            "columns]; give each as a list, as in decode_batches([[log_probs]])"
        )
    return log_probs, lengths


def pipelined(
    batches: Iterable[Any],
    search: Callable[[Any], Results],
    answer: Callable[[Results, AnswerEngine], Hypotheses],
    make_engine: Callable[[], AnswerEngine],
) -> Generator[Hypotheses, None, None]:
    """Yields, in order, what `answer` makes of what `search` finds, with the next batch searched in the meantime."""
    # caller   search 0   search 1   yield 0   search 2   yield 1   yield 2
    # thread             [answer 0]           [answer 1]           [answer 2]
    # The caller's thread pulls and searches, so that the current CUDA stream of a library is the caller's, and a buffer
    # of log-probs may be overwritten when the next batch is pulled. Errors come at their batch's place. When the
    # iteration ends, in whatever way, the answers that are being made are cancelled and waited for.
    engine, process = make_engine(), os.getpid()
    thread = ThreadPoolExecutor(1, THREAD_NAME)

    def begin(batch: Any) -> Future[Hypotheses]:
        return thread.submit(answer, search(batch), engine)

    def check_process() -> None:
        if os.getpid() != process:
            raise RuntimeError(
                f"batches: expected the process that began to iterate, {process}, got {os.getpid()}, which was forked "
                "from it and has no thread of it; call decode_batches here"
            )

    def made(answers: Future[Hypotheses]) -> Hypotheses:
        check_process()
        return answers.result()

    def begun() -> Iterator[Future[Hypotheses]]:
        try:  # no name here keeps a batch while the next one is pulled
            yield from map(begin, batches)
        except Exception as error:
            yield thread.submit(_raise, error)

    try:
        ahead: Future[Hypotheses] | None = None
        for answers in begun():
            if ahead is not None:
                yield made(ahead)
                check_process()  # before the next batch is pulled
            ahead = answers
        if ahead is not None:
            yield made(ahead)
    finally:
        thread.shutdown(wait=False, cancel_futures=True)
        engine.cancel()
        # Python's collector may end an iteration without references in the thread of its own answers.
        thread.shutdown(wait=not threading.current_thread().name.startswith(THREAD_NAME))


def _raise(error: Exception) -> NoReturn:
    try:
        raise error
    finally:
        del error  # its traceback has this frame
