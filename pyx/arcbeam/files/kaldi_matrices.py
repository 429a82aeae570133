"""Kaldi archives of matrices: ``.ark`` (binary, compressed or text) and ``.scp`` (the place of each matrix).

Sizes are checked against the file before memory is allocated; pickles and shell commands are refused.
"""

import os
import struct
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from arcbeam.core.errors import FormatError
from arcbeam.core.packages import require
from arcbeam.files.kaldi_archives import open_archive, read_id, scp_entries, whole_pipe
from arcbeam.files.reading import Entries, check_is_file, reading

FLOATS: dict[bytes, np.dtype] = {b"FM": np.dtype("<f4"), b"DM": np.dtype("<f8")}
# Bytes of a compressed matrix after its 16-byte header: (for each column, for each element).
COMPRESSED = {b"CM": (8, 1), b"CM2": (0, 2), b"CM3": (0, 1)}


def read_ark(path: Path) -> Entries:
    """Yield each entry of an archive."""
    check_is_file(path)
    with open(path, "rb") as file:
        yield from _entries(file, path)


def read_piped_ark(pipe: BinaryIO, name: Path) -> Entries:
    """Yield each entry of an archive that comes through a pipe, which is read to its end first."""
    with whole_pipe(pipe) as file:
        yield from _entries(file, name)


def _entries(file: Any, path: Path) -> Entries:
    size = os.fstat(file.fileno()).st_size
    while (utterance := read_id(file, path)) is not None:
        where, start = f"{path}: {utterance!r}", file.tell()
        yield utterance, partial(_read_matrix, file, size, where)
        if file.tell() == start:
            _pass_over(file, size, where)


def read_scp(path: Path) -> Entries:
    """Yield each matrix of an index, in its order; relative paths: of the working folder, then of the index's."""
    opened: dict[Path, BinaryIO] = {}  # the archive of the last matrix that was read
    try:
        for utterance, target, offset, rows in scp_entries(path):
            where = f"{path}: {utterance!r} ({target}:{offset})"
            yield utterance, partial(_read_indexed, opened, path, target, offset, rows, where)
    finally:
        for file in opened.values():
            file.close()


def _read_indexed(
    opened: dict[Path, BinaryIO], index: Path, target: Path, offset: int, rows: str, where: str
) -> np.ndarray:
    """A matrix, or a range of it, at the place that an index names."""
    if target not in opened:
        file = open_archive(target, index)
        for other in opened.values():
            other.close()
        opened.clear()
        opened[target] = file
    file = opened[target]
    size = os.fstat(file.fileno()).st_size
    if offset > size:
        raise FormatError(f"{where}: starts beyond the end of the file, which has {size} bytes")
    file.seek(offset)
    return _cut(_read_matrix(file, size, where), rows, where)


def _pass_over(file: BinaryIO, size: int, where: str) -> None:
    """Goes to the end of a matrix; one that is text has to be read to find it."""
    start = file.tell()
    if file.read(2) == b"\0B":
        file.seek(_header(file, size, where)[-1], os.SEEK_CUR)
    else:
        file.seek(start)
        _read_matrix(file, size, where)


def _read_matrix(file: BinaryIO, size: int, where: str) -> np.ndarray:
    start = file.tell()
    if file.read(2) == b"\0B":
        matrix = _read_binary(file, size, where)
    else:
        file.seek(start)
        matrix = _read_text(file, where)
    if matrix.ndim != 2:
        raise FormatError(f"{where}: expected a matrix [frames, columns], got a vector of {matrix.size}")
    return matrix


def _header(file: BinaryIO, size: int, where: str) -> tuple[bytes, int, int, int]:
    """The type of a binary matrix, its rows and columns, and the bytes of its values, which come next."""
    start = file.tell() - 2
    kind = file.read(4).split(b" ")[0].rstrip(b"\4")
    if kind.startswith(b"\4"):  # the size of what comes first, the number of integers
        raise FormatError(f"{where}: expected a matrix [frames, columns], got a vector of integers, as of an alignment")
    if kind not in FLOATS and kind not in COMPRESSED:
        raise FormatError(f"{where}: expected a matrix (FM, DM, CM, CM2 or CM3), got the type {kind!r}")
    file.seek(start + 2 + len(kind) + 1)
    if kind in FLOATS:
        header = file.read(10)
        if len(header) < 10 or header[0] != 4 or header[5] != 4:
            raise FormatError(f"{where}: the header of the matrix is damaged")
        rows, columns = struct.unpack("<i", header[1:5])[0], struct.unpack("<i", header[6:])[0]
        needed = rows * columns * FLOATS[kind].itemsize
    else:
        header = file.read(16)
        if len(header) < 16:
            raise FormatError(f"{where}: the header of the matrix is damaged")
        rows, columns = struct.unpack("<ii", header[8:])
        per_column, per_element = COMPRESSED[kind]
        needed = columns * per_column + rows * columns * per_element
    left = size - file.tell()
    if rows < 0 or columns < 0 or needed > left:
        raise FormatError(f"{where}: a matrix of {rows} x {columns} does not fit in the {left} bytes that are left")
    return kind, rows, columns, needed


def _read_binary(file: BinaryIO, size: int, where: str) -> np.ndarray:
    start = file.tell() - 2
    kind, rows, columns, needed = _header(file, size, where)
    if kind in FLOATS:
        return np.frombuffer(file.read(needed), FLOATS[kind]).reshape(rows, columns)
    end = file.tell() + needed
    file.seek(start)
    try:
        with reading(where, "a compressed matrix"):
            return np.ascontiguousarray(_kaldiio().read_matrix_or_vector(file), dtype=np.float32)
    finally:
        file.seek(end)


def _read_text(file: BinaryIO, where: str) -> np.ndarray:
    head = file.read(64)
    if not head.lstrip().startswith(b"["):
        raise FormatError(f"{where}: expected a Kaldi matrix, binary or text, got {head[:8]!r}")
    file.seek(-len(head), os.SEEK_CUR)
    with reading(where, "a matrix as text"):
        return np.asarray(_kaldiio().read_ascii_mat(file), dtype=np.float32)


def _kaldiio() -> Any:
    return require("kaldiio", "a compressed Kaldi matrix, or one as text,").matio


def _cut(matrix: np.ndarray, rows: str, where: str) -> np.ndarray:
    """Apply a range such as ``[0:51]`` or ``[0:51,3:9]``, first and last included."""
    if not rows:
        return matrix
    for axis, part in enumerate(rows[1:-1].split(",")):
        if part in ("", ":"):
            continue
        first, colon, last = part.partition(":")
        start, end = int(first or -1), int(last or -1) if colon else int(first)
        if not 0 <= start <= end < matrix.shape[axis]:
            raise FormatError(f"{where}: the range {rows} does not fit a matrix of {matrix.shape}")
        matrix = matrix[start : end + 1] if axis == 0 else matrix[:, start : end + 1]
    return matrix
