"""Files of named arrays: their layout, writing, and memory-mapped reading. Graphs and language models are such files.

Checksums find accidental damage; the reader of a file validates its arrays before using them.
"""

import json
import os
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from arcbeam.core.errors import FormatError
from arcbeam.files._file_map import FileMap, checksum
from arcbeam.files.kinds import kind_of
from arcbeam.files.watch import FileWatch
from arcbeam.files.writing import replacing

# Little endian. Header: magic, version, number of sections, size of the file, checksum of the section table, checksum
# of the 32 bytes before. Section: name, offset, size, checksum. Data: the sections, each at a multiple of 64 bytes,
# zeros between them. A section is one array of its `Kind`, or "about": a JSON object with all that is not an array.
HEADER = struct.Struct("<8sIIQQQ24x")
SECTION = struct.Struct("<32sQQQ8x")
HEADER_USED = 40  # bytes of the header that are not zeros to the end
SEALED = 32  # bytes of the header that its own checksum covers
ALIGNMENT = 64
MOST_SECTIONS = 64


@dataclass(frozen=True)
class Kind:
    """The content of files of one kind."""

    name: str
    magic: bytes
    version: int
    sections: Mapping[str, np.dtype[Any]]
    about: Mapping[str, tuple[type, ...]]
    again: str

    def begins(self, head: bytes) -> bool:
        """Whether a file with this beginning is of this kind."""
        return head[: len(self.magic)] == self.magic


class Mapped:
    """A mapped file. If it shrinks, the lost part reads as zeros; `check` finds that, and other changes in place."""

    # A file that is replaced under its name leaves the mapped one as it was. The descriptor may be closed; `data` stays
    # as long as there are views of it.

    def __init__(self, path: str | os.PathLike[str], file: int) -> None:
        first = os.fstat(file)
        self._watch, self._map = FileWatch(path, first), FileMap(file, first.st_size)
        self.path, self.data = self._watch.path, memoryview(self._map)

    def check(self) -> None:
        """FormatError if the file has been changed in place since: its content may now be anything."""
        what = self._watch.change(self._map.address)
        if what is None and self._map.is_broken:
            what = "was changed in place"
        if what is not None:
            raise FormatError(f"{self.path}: the file {what} while it was mapped; load it again")


def write(
    path: str | os.PathLike[str],
    kind: Kind,
    arrays: dict[str, npt.NDArray[Any]],
    about: dict[str, Any],
    check_source: Callable[[], None] | None = None,
) -> None:
    """Writes a file; it appears under its name only when it is complete, and `check_source` raises nothing."""
    arrays = arrays | {"about": as_section(about)}
    with replacing(path) as out:
        write_sections(out, kind, arrays)
        if check_source is not None:
            check_source()


def as_section(about: dict[str, Any]) -> npt.NDArray[np.uint8]:
    """The section ``about``."""
    return np.frombuffer(json.dumps(about, ensure_ascii=False, sort_keys=True).encode(), np.uint8)


def write_sections(out: IO[bytes], kind: Kind, arrays: dict[str, npt.NDArray[Any]]) -> None:
    """Writes header, section table and sections."""
    offset = aligned(HEADER.size + SECTION.size * len(arrays))
    table = b""
    placed: list[tuple[int, npt.NDArray[np.uint8]]] = []
    end = offset
    for name, array in arrays.items():
        data = np.ascontiguousarray(array, kind.sections[name]).view(np.uint8)
        table += SECTION.pack(name.encode(), offset, data.nbytes, checksum(data))
        placed.append((offset, data))
        end = offset + data.nbytes
        offset = aligned(end)
    out.write(seal_header(kind, len(arrays), end, table) + table)
    for at, data in placed:
        out.write(bytes(at - out.tell()))
        out.write(data.data)


def seal_header(kind: Kind, sections: int, size: int, table: bytes) -> bytes:
    """A header with its checksums."""
    sealed = HEADER.pack(kind.magic, kind.version, sections, size, checksum(table), 0)[:SEALED]
    return HEADER.pack(kind.magic, kind.version, sections, size, checksum(table), checksum(sealed))


def aligned(offset: int) -> int:
    """The next multiple of the alignment."""
    return -(-offset // ALIGNMENT) * ALIGNMENT


def read(path: str | os.PathLike[str], kind: Kind) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any], Mapped]:
    """Maps a file and checks its checksums; returns the arrays, which lie in the map, ``about``, and the map."""
    with open(os.fspath(path), "rb") as file:  # not a number, which would be an open file's
        size = os.fstat(file.fileno()).st_size
        if size < HEADER.size:
            raise FormatError(f"{path}: expected {kind.name} with a header of {HEADER.size} bytes, got {size}")
        mapped = Mapped(path, file.fileno())
    arrays = read_sections(path, kind, mapped.data, len(mapped.data))
    return arrays, read_about(path, kind, arrays.pop("about").tobytes()), mapped


def read_sections(path: object, kind: Kind, data: Any, size: int) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a file by name, after checks of the header, the section table and the checksums."""
    magic, version, sections, expected, table_sum, header_sum = HEADER.unpack_from(data)
    if not kind.begins(magic):
        raise FormatError(f"{path}: expected {kind.name}, got {kind_of(bytes(data[:64]))}")
    if version != kind.version:
        raise FormatError(f"{path}: expected version {kind.version} of the format, got {version}; {kind.again}")
    if header_sum != checksum(data[:SEALED]):
        raise FormatError(f"{path}: the header is corrupted (its checksum does not fit)")
    if expected != size:
        what = "truncated" if size < expected else "too long"
        raise FormatError(f"{path}: {what}: expected {expected} bytes, got {size}")
    if sections > MOST_SECTIONS or HEADER.size + SECTION.size * sections > size:
        raise FormatError(f"{path}: {sections} sections do not fit into its bytes")
    table = data[HEADER.size : HEADER.size + SECTION.size * sections]
    if table_sum != checksum(table):
        raise FormatError(f"{path}: the section table is corrupted (its checksum does not fit)")
    arrays: dict[str, npt.NDArray[Any]] = {}
    placed = [(0, HEADER_USED), (HEADER.size, HEADER.size + SECTION.size * sections)]
    for raw_name, offset, length, found in SECTION.iter_unpack(table):
        name = raw_name.rstrip(b"\0").decode("ascii", "replace")
        dtype = kind.sections.get(name)
        if dtype is None or name in arrays:
            raise FormatError(f"{path}: section {name!r} is {'not known' if dtype is None else 'there twice'}")
        if offset % ALIGNMENT or offset > size or length > size - offset or length % dtype.itemsize:
            raise FormatError(f"{path}: section {name!r} cannot be at byte {offset} with {length} bytes of {size}")
        array = np.frombuffer(data, np.uint8, length, offset) if length else np.empty(0, np.uint8)
        if checksum(array) != found:
            raise FormatError(f"{path}: section {name!r} at byte {offset} is corrupted (its checksum does not fit)")
        arrays[name] = array.view(dtype)
        placed.append((offset, offset + length))
    check_zeros(path, data, placed)
    if "about" not in arrays:
        raise FormatError(f"{path}: section 'about' is missing")
    return arrays


def check_zeros(path: object, data: Any, placed: list[tuple[int, int]]) -> None:
    """FormatError unless every byte outside the spans [begin, end) that are `placed` is zero."""
    end = 0
    for begin, until in [*sorted(placed), (len(data), len(data))]:
        if begin > end and np.frombuffer(data, np.uint8, begin - end, end).any():
            raise FormatError(f"{path}: bytes {end} to {begin - 1} belong to no section, but are not all zero")
        end = max(end, until)


def read_about(path: object, kind: Kind, text: bytes) -> dict[str, Any]:
    """The numbers and names of a file, after a check of their types."""
    try:
        about = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: section 'about' is not JSON: {error}") from None
    if not isinstance(about, dict) or set(about) != set(kind.about):
        raise FormatError(
            f"{path}: section 'about' holds {sorted(about) if isinstance(about, dict) else about!r}, "
            f"expected {sorted(kind.about)}"
        )
    for name, types in kind.about.items():
        if type(about[name]) not in types:
            raise FormatError(f"{path}: {name} is {about[name]!r}; expected {' or '.join(t.__name__ for t in types)}")
    return about
