"""The loop of ``arcbeam stream`` and ``arcbeam transduce --chunk-frames``: from chunks to captions."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING

import numpy as np

from arcbeam.cli.captions import Shown
from arcbeam.cli.console import Failure, note
from arcbeam.core.errors import without_place

if TYPE_CHECKING:
    from arcbeam.ctc.streams.partial import Partial
    from arcbeam.ctc.streams.stream import Stream
    from arcbeam.transducer.streams.partial import TransducerPartial
    from arcbeam.transducer.streams.stream import TransducerStream


def follow(
    utterances: Iterable[tuple[str, Iterator[np.ndarray]]],
    frames: int,
    begin: "Callable[[str], Stream | TransducerStream]",
    caption: Callable[[str], AbstractContextManager[Shown]],
) -> None:
    """Decodes and shows the chunks of each utterance, and notes their times; after an interrupt the rest is shown."""
    seconds: list[float] = []
    is_empty = True
    for name, chunks in utterances:
        is_empty = False
        stream, first = begin(name), 0
        shown: Partial | TransducerPartial = stream.partial
        with caption(name) as show:
            try:
                for chunk in chunks:
                    try:
                        for shown in _decoded(stream, chunk, seconds):
                            show(shown)
                    except ValueError as error:
                        what = without_place(error)  # the name replaces the number
                        raise ValueError(f"utterance {name!r}, chunk from frame {first} on: {what}") from error
                    first += len(chunk)
            except BaseException:  # also Ctrl-C
                if stream.num_frames:
                    with suppress(ValueError):  # of a stream that was interrupted in the middle of a chunk
                        for partial in _ending(stream, shown):
                            show(partial)
                raise
            show(stream.finish())
    if is_empty:
        raise Failure("the input contains no utterances")
    took = ""
    if seconds:
        milliseconds = 1e3 * np.asarray(seconds)
        took = (
            f": {np.median(milliseconds):.2f} ms a chunk in the median, {np.percentile(milliseconds, 95):.2f} ms at "
            "most for 95 %"
        )
    note(f"decoded {len(seconds)} chunks of {frames} frames{took}")


def _decoded(
    stream: "Stream | TransducerStream", chunk: np.ndarray, seconds: list[float]
) -> "Iterator[Partial | TransducerPartial]":
    """The results of a chunk: its sentence's, and after an endpoint that of each sentence that follows."""
    start = time.perf_counter()
    partial: Partial | TransducerPartial = stream.decode_chunk(chunk)
    seconds.append(time.perf_counter() - start)
    yield partial
    while partial.endpoint is not None:
        partial = stream.reset()
        yield partial


def _ending(
    stream: "Stream | TransducerStream", shown: "Partial | TransducerPartial"
) -> "Iterator[Partial | TransducerPartial]":
    """The final results of all that has been said, after the one that was shown last."""
    partial = stream.partial
    while partial.endpoint is not None:
        if not (shown.is_final and shown.first_frame == partial.first_frame):
            yield partial
        if not stream.num_waiting:
            return
        partial = stream.reset()
    yield stream.finish()
