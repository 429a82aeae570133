"""Readers of references, ``{utterance id: transcript}``: ``.tsv``, ``.trn`` (transcript (id)), else ``id transcript``.

JSON lines (``.json``, ``.jsonl``) have "text", and "id" or "audio_filepath", of which the file's name is the id.
A folder stands for all ``.trans.txt`` below it, which is LibriSpeech's name for the last kind.
"""

import io
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from arcbeam.core.errors import FormatError
from arcbeam.core.show import shortened
from arcbeam.files.kinds import not_text
from arcbeam.files.lines import read_lines, read_text

TIMED = re.compile(r"\S+\s+\w+\s+(\S+\s+)?\d+\.\d+\s+\d+\.\d+\s")  # the beginning of a line of STM or CTM
JSON_LINES = (".json", ".jsonl")
TRN = re.compile(r"(.*)\(([^()\s]+)\)$")


def read_references(paths: Iterable[Path]) -> dict[str, str]:
    """Read the transcripts of all `paths`, by utterance id, words separated by single spaces."""
    references: dict[str, str] = {}
    for path in paths:
        for file in _files(path):
            read = _of_json if file.suffix.lower() in JSON_LINES else _read
            for number, utterance, transcript in read(file):
                if utterance in references:
                    raise FormatError(f"{file}:{number}: the utterance id {utterance!r} occurs twice")
                references[utterance] = " ".join(transcript.split())
    if not references:
        raise FormatError(f"{', '.join(map(str, paths))}: no reference transcript found")
    return references


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(path.rglob("*.trans.txt"))
    if not files:
        raise FormatError(f"{path}: expected a folder with *.trans.txt, got none; name files of other kinds themselves")
    return files


def _read(path: Path) -> Iterator[tuple[int, str, str]]:
    split = {".tsv": _split_tsv, ".trn": _split_trn}.get(path.suffix.lower(), _split_text)
    data = read_text(path)
    try:
        data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: expected text in UTF-8, got {not_text(data, error)}") from None
    _, first = next(_lines(data), (0, ""))
    if split is _split_text and first and all(TIMED.match(line) for _, line in _lines(data)):
        raise FormatError(
            f"{path}: expected lines 'id transcript', got STM or CTM, such as {shortened(first.strip())}; "
            "write the ids and the words alone"
        )
    for number, line in _lines(data):
        utterance, transcript = split(line.rstrip("\r\n"), f"{path}:{number}")
        yield number, utterance, transcript


def _lines(data: bytes) -> Iterator[tuple[int, str]]:
    """The lines of a text that are not empty, with their numbers."""
    for number, line in enumerate(io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig"), 1):
        if line.strip():
            yield number, line


def _split_tsv(line: str, where: str) -> tuple[str, str]:
    utterance, tab, transcript = line.partition("\t")
    if not tab or not utterance.strip():
        raise FormatError(f"{where}: expected 'id<TAB>transcript', got {line!r}")
    return utterance.strip(), transcript


def _split_trn(line: str, where: str) -> tuple[str, str]:
    match = TRN.match(line.rstrip())
    if not match:
        raise FormatError(f"{where}: expected 'transcript (id)', got {line!r}")
    return match.group(2), match.group(1)


def _split_text(line: str, where: str) -> tuple[str, str]:
    utterance, *transcript = line.split(maxsplit=1)
    return utterance, "".join(transcript)


def _of_json(path: Path) -> Iterator[tuple[int, str, str]]:
    """Line, id and text of each object of JSON lines, such as a manifest of NeMo."""
    for number, line in read_lines(path):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
            text = found["text"]
            utterance = found["id"] if "id" in found else Path(found["audio_filepath"]).stem
        except (ValueError, KeyError, TypeError, RecursionError):
            text = utterance = None
        if not isinstance(text, str) or not isinstance(utterance, str) or not utterance:
            raise FormatError(
                f'{path}:{number}: expected an object a line with "text", and "id" or "audio_filepath", got '
                f"{shortened(line.strip())}"
            )
        yield number, utterance, text
