"""The loop of ``arcbeam stream`` and ``arcbeam transduce --chunk-frames``: from chunks to results, and to captions.

A terminal shows as a caption what has been said so far, until the end of the sentence.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from arcbeam.cli.console import Failure
from arcbeam.cli.outputs import TIMED, WRITERS, Format, Output
from arcbeam.cli.terminal import note
from arcbeam.core.errors import without_place
from arcbeam.core.json_lines import json_line

if TYPE_CHECKING:
    from arcbeam.cli.score import Scorer
    from arcbeam.ctc.streams.partial import Partial
    from arcbeam.ctc.streams.stream import Stream
    from arcbeam.transducer.streams.partial import TransducerPartial
    from arcbeam.transducer.streams.stream import TransducerStream

    AnyStream: TypeAlias = Stream | TransducerStream
    AnyPartial: TypeAlias = Partial | TransducerPartial


@dataclass(frozen=True)
class Results:
    """Where results go: JSON has an object for each, with `fields`; other formats have sentences."""

    output: Output
    format: Format
    in_sentences: bool
    fields: Callable[[Any], Mapping[str, object]]

    @contextmanager
    def of(self, name: str) -> "Iterator[Callable[[AnyPartial], None]]":
        """Yields a function that takes the next result of an utterance."""
        if self.format is Format.json:
            yield lambda partial: self.output.write(json_line(self._object(name, partial)), is_whole=partial.is_final)
            return
        from rich.console import Console
        from rich.live import Live

        console, number = Console(stderr=True), 0
        with Live(console=console, transient=True, auto_refresh=False) as live:

            def show(partial: "AnyPartial") -> None:
                nonlocal number
                if not partial.is_final:
                    if console.is_terminal:
                        live.update(_caption(partial, console), refresh=True)
                    return
                live.update("")
                live.stop()
                if partial.text or not self.in_sentences:
                    number += 1
                    # Times are those of the utterance, and so is its name where they are written.
                    is_part = self.in_sentences and self.format not in TIMED
                    self.output.write(WRITERS[self.format](f"{name}-{number}" if is_part else name, partial))
                live.start()

            yield show

    def _object(self, name: str, partial: "AnyPartial") -> dict[str, object]:
        sentence = {"first_frame": partial.first_frame, "endpoint": partial.endpoint} if self.in_sentences else {}
        return {
            "id": name,
            "frames": partial.num_frames,
            **sentence,
            "is_final": partial.is_final,
            "stable_text": partial.stable_text,
            "text": partial.text,
            **self.fields(partial),
        }


def _caption(partial: "AnyPartial", console: Any) -> Any:
    """The newest lines of the text so far, as many as the terminal has; the stable part is bold."""
    from rich.text import Text

    stable = partial.stable_text
    said = Text.assemble((stable, "bold"), (partial.text.removeprefix(stable), "dim"))
    width, height = console.width, console.height - 1
    block = (width + 1) * (height + 1)  # at least a line more than fits, which may begin within a word
    newest = said[max(0, len(said) // block - 1) * block :]  # lines stay as they are for a block
    return Text("\n").join(newest.wrap(console, width)[-height:])


def follow(
    utterances: Iterable[tuple[str, Iterator[np.ndarray]]],
    frames: int,
    begin: "Callable[[str], AnyStream]",
    results: Results,
    readable: Callable[[Any], Any] = lambda partial: partial,
    referee: "Scorer | None" = None,
) -> None:
    """Decodes and shows the chunks of each utterance, and notes their times; after an interrupt the rest is shown."""
    seconds: list[float] = []
    is_empty = True
    for name, chunks in utterances:
        is_empty = False
        stream, first = begin(name), 0
        shown: AnyPartial = stream.partial
        sentences: list[str] = []
        with results.of(name) as show_partial:

            def show(partial: "AnyPartial", tell: Any = show_partial, ended: list[str] = sentences) -> None:
                tell(readable(partial))
                if partial.is_final:
                    ended.append(partial.text)

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
        if referee is not None:
            referee.add({name: " ".join(sentences)})
    if is_empty:
        raise Failure("the input contains no utterances")
    took = ""
    if seconds:
        milliseconds = 1e3 * np.asarray(seconds)
        took = (
            f": {np.median(milliseconds):.2f} ms a chunk in the median, {np.percentile(milliseconds, 95):.2f} ms at "
            "most for 95 %"
        )
    note(f"decoded {len(seconds):,} chunks of {frames:,} frames{took}")


def _decoded(stream: "AnyStream", chunk: np.ndarray, seconds: list[float]) -> "Iterator[AnyPartial]":
    """The results of a chunk: its sentence's, and after an endpoint that of each sentence that follows."""
    start = time.perf_counter()
    partial: AnyPartial = stream.decode_chunk(chunk)
    seconds.append(time.perf_counter() - start)
    yield partial
    while partial.endpoint is not None:
        partial = stream.reset()
        yield partial


def _ending(stream: "AnyStream", shown: "AnyPartial") -> "Iterator[AnyPartial]":
    """The final results of all that has been said, after the one that was shown last."""
    partial: AnyPartial = stream.partial
    while partial.endpoint is not None:
        if not (shown.is_final and shown.first_frame == partial.first_frame):
            yield partial
        if not stream.num_waiting:
            return
        partial = stream.reset()
    yield stream.finish()
