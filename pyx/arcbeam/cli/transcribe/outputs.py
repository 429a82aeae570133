"""Where transcripts go: all into one file or the standard output, or one file a recording into a folder."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING

import typer

from arcbeam.cli.console import Failure
from arcbeam.cli.outputs import STDOUT, Output, open_output
from arcbeam.cli.terminal import note
from arcbeam.files.writing import file_in, replacing_text
from arcbeam.words import is_field

if TYPE_CHECKING:
    from arcbeam.jobs.job import Job
    from arcbeam.transcribe.recordings import Recording
    from arcbeam.transcribe.subtitles import SubtitleRules
    from arcbeam.transcribe.transcript import Transcript


class Format(StrEnum):
    """Name of an output format."""

    text = "text"
    json = "json"
    ctm = "ctm"
    srt = "srt"
    vtt = "vtt"
    textgrid = "textgrid"


SUBTITLES = (Format.srt, Format.vtt)
OF_ONE = (*SUBTITLES, Format.textgrid)  # a file has one recording
ENDINGS = {
    Format.text: ".txt", Format.json: ".json", Format.ctm: ".ctm", Format.srt: ".srt", Format.vtt: ".vtt",
    Format.textgrid: ".TextGrid",
}  # fmt: skip
NAMES = {ending.lower(): format for format, ending in ENDINGS.items()} | {".jsonl": Format.json, ".ndjson": Format.json}


def format_of(output: str, chosen: Format | None) -> Format:
    """The format that was chosen, or the one by the name of the file; a usage error if both are there and differ."""
    named = None if is_folder(output) else NAMES.get(os.path.splitext(output)[1].lower())
    if named is not None and chosen not in (None, named):
        raise typer.BadParameter(
            f"the format is {chosen}, and {output} is a name of {named} files; leave out --format, or name another "
            "file",
            param_hint="'--output'",
        )
    return chosen or named or Format.text


def is_folder(output: str) -> bool:
    """Whether an output is a folder, which gets a file for each recording."""
    return output != STDOUT and (output.endswith(os.sep) or os.path.isdir(output))


def check_place(output: str, format: Format, recordings: "Sequence[Recording]") -> None:
    """Fails on what has no room for all recordings or for their names, or on a folder with a file that is read."""
    for recording in recordings:
        if format is Format.ctm and not is_field(recording.id):
            raise Failure(
                f"{recording.path}: expected a name without spaces for --format ctm, got {recording.id!r}; use "
                '--format json, or give a manifest with an "id" for each recording'
            )
    if not is_folder(output):
        if format in OF_ONE and len(recordings) > 1:
            raise typer.BadParameter(
                f"a file of {format} has one recording, got {len(recordings):,}; give the folder for their files, such "
                "as --output subtitles/",
                param_hint="'--output'",
            )
        return
    read = {os.path.realpath(recording.path) for recording in recordings}
    for recording in recordings:
        if os.path.realpath(file_in(output, recording.id, ENDINGS[format])) in read:
            raise Failure(f"--output: {file_in(output, recording.id, ENDINGS[format])} is one of the files to read")


@contextmanager
def open_transcripts(
    output: str, format: Format, rules: "SubtitleRules | None", job: "Job", has_ids: bool
) -> "Iterator[Callable[[Transcript], None]]":
    """Yields a function that writes a transcript; with `has_ids` lines of text begin with the recording's name."""
    if not is_folder(output):
        with open_output(output, at_once=True, job=job) as file:
            yield lambda transcript: _write(file, transcript, format, rules, has_ids)
        return
    written = [0]

    def write(transcript: "Transcript") -> None:
        path = file_in(output, transcript.id, ENDINGS[format])
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing_text(path) as file:
            file.write(transcript.render(format, rules))
        written[0] += 1

    try:
        yield write
    finally:
        if written[0]:
            note(f"wrote {written[0]:,} file{'s'[: written[0] != 1]} into {output}")


def _write(
    file: Output, transcript: "Transcript", format: Format, rules: "SubtitleRules | None", has_ids: bool
) -> None:
    text = transcript.render(format, rules)
    if has_ids and format is Format.text:
        text = "".join(f"{transcript.id} {line}" for line in text.splitlines(keepends=True)) or f"{transcript.id}\n"
    file.write(text)
