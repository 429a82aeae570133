"""Writers of transcripts: one function a format, from a transcript to text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape
from typing import Any, Protocol

from arcbeam.core.json_lines import json_line
from arcbeam.transcribe.segment import Segment
from arcbeam.transcribe.subtitles import Subtitle, SubtitleRules, make_subtitles
from arcbeam.words import Word, ctm_lines, one_line


class _Transcript(Protocol):
    """What a writer reads of a transcript."""

    @property
    def id(self) -> str: ...
    @property
    def duration(self) -> float: ...
    @property
    def segments(self) -> tuple[Segment, ...]: ...
    @property
    def words(self) -> list[Word]: ...
    def to_dict(self) -> dict[str, Any]: ...


def rendered(transcript: _Transcript, format: str, subtitles: SubtitleRules | None) -> str:
    """A transcript in a format, as `Transcript.render` says."""
    writer = WRITERS.get(format)
    if writer is None:
        raise ValueError(f"format: expected one of {', '.join(WRITERS)}, got {format!r}")
    if subtitles is not None and not isinstance(subtitles, SubtitleRules):
        raise TypeError(f"subtitles: expected arcbeam.SubtitleRules, got {type(subtitles).__name__}")
    return writer(transcript, subtitles or SubtitleRules())


def _text(transcript: _Transcript, _: SubtitleRules) -> str:
    return "".join(f"{one_line(segment.text)}\n" for segment in transcript.segments)


def _json(transcript: _Transcript, _: SubtitleRules) -> str:
    return json_line(transcript.to_dict())


def _ctm(transcript: _Transcript, _: SubtitleRules) -> str:
    return ctm_lines(one_line(transcript.id).replace(" ", "_"), transcript.words)


def _srt(transcript: _Transcript, rules: SubtitleRules) -> str:
    blocks = [
        f"{number}\n{_clock(one.start, ',')} --> {_clock(one.end, ',')}\n{_lines(one.lines)}\n"
        for number, one in enumerate(_subtitles(transcript, rules), 1)
    ]
    return "\n".join(blocks)


def _vtt(transcript: _Transcript, rules: SubtitleRules) -> str:
    blocks = [
        f"{_clock(one.start, '.')} --> {_clock(one.end, '.')}\n{escape(_lines(one.lines), quote=False)}\n"
        for one in _subtitles(transcript, rules)
    ]
    return "\n".join(["WEBVTT\n", *blocks])


def _subtitles(transcript: _Transcript, rules: SubtitleRules) -> list[Subtitle]:
    return make_subtitles([segment.words for segment in transcript.segments], rules)


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(lines)


def _clock(seconds: float, point: str) -> str:
    """Hours, minutes, seconds and milliseconds."""
    whole = round(seconds * 1000)
    return f"{whole // 3_600_000:02}:{whole // 60_000 % 60:02}:{whole // 1000 % 60:02}{point}{whole % 1000:03}"


def _textgrid(transcript: _Transcript, _: SubtitleRules) -> str:
    """Praat's long text format; intervals of a tier follow each other without gaps, so that silences have one, too."""
    ends = [segment.end for segment in transcript.segments]
    stop = max([transcript.duration, *ends])
    tiers = {
        "sentences": [(one.start, one.end, one.text) for one in transcript.segments],
        "words": [(word.start or 0.0, word.end or 0.0, word.word) for word in transcript.words],
    }
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


def _without_gaps(spans: Iterable[tuple[float, float, str]], stop: float) -> list[tuple[float, float, str]]:
    """Spans with empty ones between them, from 0 to `stop`.

    Spans that have a time in common, such as words that a transducer writes on one frame, share it.
    """
    found: list[tuple[float, float, str]] = []
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


WRITERS: dict[str, Callable[[_Transcript, SubtitleRules], str]] = {
    "text": _text,
    "json": _json,
    "ctm": _ctm,
    "srt": _srt,
    "vtt": _vtt,
    "textgrid": _textgrid,
}
