"""Kaldi's archives: the ids before their entries, and indexes (``.scp``), which name the places of entries.

An ``.scp`` line that is a shell command would be run by Kaldi; it is refused.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from arcbeam.core.errors import FormatError
from arcbeam.files.lines import located, stream_lines
from arcbeam.files.reading import check_is_file

LONGEST_ID = 4096
RANGE = re.compile(r"\[\d{0,9}:?\d{0,9}(,\d{0,9}:?\d{0,9})?\]$")


def scp_entries(path: Path) -> Iterator[tuple[str, Path, int, str]]:
    """Yield (utterance id, archive, byte offset, range or "") for each line of an index."""
    for number, line in stream_lines(path):
        utterance, *targets = line.split(maxsplit=1)  # at a tab, too, as Kaldi does
        target = "".join(targets)
        if not target:
            raise FormatError(f"{path}:{number}: expected 'id archive:offset', got {line!r}")
        if target.endswith("|") or target.startswith("|"):
            raise FormatError(
                f"{path}:{number}: {utterance!r} is a shell command, and arcbeam runs none; "
                "write its output to an .ark file first"
            )
        cut = RANGE.search(target)
        rows = cut.group() if cut else ""
        archive, colon, offset = target.removesuffix(rows).rpartition(":")
        if not (colon and offset.isascii() and offset.isdigit()):
            archive, offset = target.removesuffix(rows), "0"
        if len(offset) > 18:
            raise FormatError(f"{path}:{number}: {utterance!r}: no file has an offset of {offset}")
        yield utterance, located(archive, path), int(offset), rows


def open_archive(archive: Path, index: Path) -> BinaryIO:
    """Opens an archive that an index names."""
    try:
        check_is_file(archive)  # an index may name a pipe, which would never end
        return open(archive, "rb")
    except FileNotFoundError as error:
        raise FileNotFoundError(error.errno, f"{error.strerror}, and {index} names it", str(archive)) from None
    except ValueError as error:  # a NUL in the name
        raise FormatError(f"{index}: {str(archive)!r} is not a valid file name: {error}") from None


@contextmanager
def whole_pipe(pipe: BinaryIO) -> Iterator[BinaryIO]:
    """A file of what comes through a pipe, which is read to its end first."""
    with tempfile.TemporaryFile() as file:
        shutil.copyfileobj(pipe, file)
        file.seek(0)
        yield file


def read_id(file: BinaryIO, path: Path) -> str | None:
    """Reads the id of the next entry and the space or tab (not the line feed) after it; None at the end of the file."""
    start = file.tell()
    name = bytearray()
    while byte := file.read(1):
        if byte in b" \t\r\n":
            if name:
                break
            continue  # a text archive ends its entries with line feeds, which come before the next id
        name += byte
        if len(name) > LONGEST_ID:
            raise FormatError(f"{path}: byte {start}: no utterance id here; is this a Kaldi archive?")
    if not byte:
        if name:
            raise FormatError(f"{path}: byte {start}: the file ends after {bytes(name[:40])!r}, expected an utterance")
        return None
    if byte in b"\r\n":
        file.seek(-1, os.SEEK_CUR)
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        raise FormatError(f"{path}: byte {start}: the utterance id is not UTF-8; is this a Kaldi archive?") from None
