"""Writers of transcripts: one function a format, from a transcript to text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape
from typing import Any, Protocol

from arcbeam.core.json_lines import json_line
from arcbeam.textgrid import textgrid
from arcbeam.transcribe.segment import Segment
from arcbeam.transcribe.subtitles import Subtitle, SubtitleRules, make_subtitles
from arcbeam.words import Word, ctm_lines, is_field, one_line


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
    if not is_field(transcript.id):
        raise ValueError(
            f"format: expected an id without spaces for 'ctm', got {transcript.id!r}; use 'json', or a copy with "
            "another id: dataclasses.replace(transcript, id=...)"
        )
    return ctm_lines(transcript.id, transcript.words)


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
    tiers = {
        "sentences": [(one.start, one.end, one.text) for one in transcript.segments],
        "words": [(word.start or 0.0, word.end or 0.0, word.word) for word in transcript.words],
    }
    return textgrid(tiers, transcript.duration)


WRITERS: dict[str, Callable[[_Transcript, SubtitleRules], str]] = {
    "text": _text,
    "json": _json,
    "ctm": _ctm,
    "srt": _srt,
    "vtt": _vtt,
    "textgrid": _textgrid,
}
