"""Captions: what is known of the words after each chunk, as JSON or as text, which a terminal shows in place."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from arcbeam.cli.outputs import one_line, write_utf8

if TYPE_CHECKING:
    from arcbeam.ctc.streams.partial import Partial
    from arcbeam.transducer.streams.partial import TransducerPartial

Shown: TypeAlias = "Callable[[Partial | TransducerPartial], None]"


@contextmanager
def captions(
    name: str, in_sentences: bool, fields: Callable[[Any], Mapping[str, object]] | None = None
) -> Iterator[Shown]:
    """Yields a function that shows the next result of an utterance; `fields` adds to JSON, None prints text."""
    write_utf8()
    if fields is not None:
        yield lambda partial: print(
            json.dumps(_common(name, partial, in_sentences) | dict(fields(partial)), ensure_ascii=False), flush=True
        )
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console, number = Console(stderr=True), 0
    with Live(console=console, transient=True, auto_refresh=False) as live:

        def show(partial: "Partial | TransducerPartial") -> None:
            nonlocal number
            if partial.is_final:
                live.update("")
                live.stop()
                if not in_sentences:
                    print(f"{name} {one_line(partial.text)}".rstrip(), flush=True)
                elif partial.text:
                    number += 1
                    print(f"{name}-{number} {one_line(partial.text)}", flush=True)
                live.start()
            elif console.is_terminal:
                stable = partial.stable_text
                said = Text.assemble((stable, "bold"), (partial.text.removeprefix(stable), "dim"))
                width, height = console.width, console.height - 1
                block = (width + 1) * (height + 1)  # at least a line more than fits, which may begin within a word
                newest = said[max(0, len(said) // block - 1) * block :]  # lines stay as they are for a block
                lines = newest.wrap(console, width)
                live.update(Text("\n").join(lines[-height:]), refresh=True)

        yield show


def _common(name: str, partial: "Partial | TransducerPartial", in_sentences: bool) -> dict[str, object]:
    sentence = {"first_frame": partial.first_frame, "endpoint": partial.endpoint} if in_sentences else {}
    return {
        "utterance": name,
        "frames": partial.num_frames,
        **sentence,
        "is_final": partial.is_final,
        "stable_text": partial.stable_text,
        "text": partial.text,
    }
