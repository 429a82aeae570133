"""Praat's TextGrid: tiers of intervals with texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from arcbeam.words import one_line

Span = tuple[float, float, str]  # begin and end in seconds, and the text


def textgrid(tiers: Mapping[str, Sequence[Span]], duration: float) -> str:
    """The long text format; intervals of a tier follow each other without gaps, so that silences have one, too."""
    stop = max([duration, *(end for spans in tiers.values() for _, end, _ in spans)])
    text = [
        'File type = "ooTextFile"\nObject class = "TextGrid"\n\n',
        f"xmin = 0\nxmax = {_number(stop)}\ntiers? <exists>\nsize = {len(tiers)}\nitem []:\n",
    ]
    for place, (name, spans) in enumerate(tiers.items(), 1):
        intervals = _without_gaps(spans, stop)
        text.append(f'    item [{place}]:\n        class = "IntervalTier"\n        name = "{name}"\n')
        text.append(f"        xmin = 0\n        xmax = {_number(stop)}\n")
        text.append(f"        intervals: size = {len(intervals)}\n")
        for number, (start, end, said) in enumerate(intervals, 1):
            quoted = one_line(said).replace('"', '""')
            text.append(f"        intervals [{number}]:\n            xmin = {_number(start)}\n")
            text.append(f'            xmax = {_number(end)}\n            text = "{quoted}"\n')
    return "".join(text)


def _number(seconds: float) -> str:
    return f"{seconds:.6f}".rstrip("0").rstrip(".")


def _without_gaps(spans: Iterable[Span], stop: float) -> list[Span]:
    """Spans with empty ones between them, from 0 to `stop`.

    Spans that have a time in common, such as words that a transducer writes on one frame, share it.
    """
    found: list[Span] = []
    at, given = 0.0, [*spans]
    for place, (start, end, text) in enumerate(given):
        following = given[place + 1][0] if place + 1 < len(given) else stop
        if start > at:
            found.append((at, start, ""))
        at = max(at, start)
        if following < end:
            end = max(following, min(end, at + (end - at) / 2))
        if end > at:
            found.append((at, end, text))
            at = end
        elif found:  # no time is left: the word goes to the one before
            before = found[-1]
            found[-1] = (before[0], before[1], f"{before[2]} {text}".strip())
    if stop > at or not found:
        found.append((at, stop, ""))
    return found
