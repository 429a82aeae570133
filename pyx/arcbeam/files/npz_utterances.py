"""Utterances of .npz files: one array for each, or one array of all, with their lengths and ids.

Each reader yields an id and what reads its log-probs, which is called before the next is taken, or not at all.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from math import prod
from pathlib import Path

import numpy as np

from arcbeam.core.errors import FormatError
from arcbeam.files.numpy_files import Archive, Rows
from arcbeam.files.reading import Entries

PACKED = ("lengths", "ids")  # arrays that an .npz has besides the log-probs of all utterances
NAMES = 4096  # names that are read at a time


def check_count(shape: tuple[int, ...], path: Path) -> None:
    """FormatError if a few bytes claim any number of utterances, all of them empty."""
    if shape[0] > max(prod(shape), path.stat().st_size):
        raise FormatError(f"{path}: expected utterances with frames, got the shape {shape}")


def read_npz(path: Path, max_bytes: str | None) -> Entries:
    """Yield the utterances of an archive of either layout."""
    with Archive(path, max_bytes) as archive:
        if not archive.names:
            raise FormatError(f"{path}: the archive contains no array")
        if _is_packed(archive.names):
            yield from _read_packed(path, archive)
            return
        for name in archive.names:
            yield name, partial(_read_named, archive, name)


def _read_named(archive: Archive, name: str) -> np.ndarray:
    """An array of an archive that has one for each utterance."""
    array = archive.read(name)
    if array.ndim == 1 and name in PACKED:
        others = ", ".join(repr(other) for other in archive.names if other not in PACKED)
        raise FormatError(
            f"{archive.path}: expected an array 'log_probs' of all utterances, because there is {name!r}, got "
            f"{others or 'no other'}"
        )
    return matrix(array, archive.path, f"array {name!r}")


def _is_packed(names: list[str]) -> bool:
    return "log_probs" in names and ("lengths" in names or "ids" in names or len(names) == 1)


def _read_packed(path: Path, archive: Archive) -> Entries:
    rows = archive.rows("log_probs")
    lengths = archive.read("lengths") if "lengths" in archive.names else None
    if len(rows.shape) not in (2, 3):
        raise FormatError(
            f"{path}: log_probs must be [all frames, columns] or [batch, frames, columns], got the shape {rows.shape}"
        )
    if len(rows.shape) == 3:
        check_count(rows.shape, path)
    if lengths is None:
        count, most = (1, rows.shape[0]) if len(rows.shape) == 2 else rows.shape[:2]
        lengths = np.full(count, most, np.int64)
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu":
        raise FormatError(f"{path}: lengths must be integers [batch], got {lengths.dtype} {list(lengths.shape)}")
    if lengths.size and int(lengths.min()) < 0:
        raise FormatError(f"{path}: lengths must not be negative, got {int(lengths.min())}")
    names = _names(path, archive, len(lengths))
    if len(rows.shape) == 3:
        if len(lengths) != rows.shape[0]:
            raise FormatError(f"{path}: {rows.shape[0]} utterances in log_probs, but {len(lengths)} lengths")
        if lengths.size and int(lengths.max()) > rows.shape[1]:
            raise FormatError(f"{path}: a length of {int(lengths.max())} is beyond the {rows.shape[1]} frames")
        for name, length in zip(names, lengths, strict=True):
            yield from ((name, read) for read in rows.parts(1, partial(_frames, int(length))))
        return
    if (total := sum(map(int, lengths))) != rows.shape[0]:
        raise FormatError(f"{path}: the lengths add up to {total} frames, but log_probs has {rows.shape[0]}")
    yield from ((name, read) for name, length in zip(names, lengths, strict=True) for read in rows.parts(int(length)))


def _frames(count: int, padded: np.ndarray) -> np.ndarray:
    """The first frames of one utterance, [1, frames, columns]."""
    return padded[0, :count]


def _names(path: Path, archive: Archive, count: int) -> Iterable[str]:
    """The names of so many utterances; those of a long list are read in blocks, as text of NumPy is large."""
    if "ids" not in archive.names:
        width = len(str(count - 1))
        return [path.stem] if count == 1 else (f"{path.stem}-{n:0{width}d}" for n in range(count))
    ids = archive.rows("ids")
    if len(ids.shape) != 1 or ids.dtype.kind not in "USiu":
        raise FormatError(f"{path}: ids must be names [batch], got {ids.dtype} {list(ids.shape)}")
    if ids.shape[0] != count:
        raise FormatError(f"{path}: {ids.shape[0]} ids, but {count} lengths")
    return _blocks_of_names(path, ids)


def _blocks_of_names(path: Path, ids: Rows) -> Iterator[str]:
    """The names of an array, as text."""
    for at in range(0, ids.shape[0], NAMES):
        try:
            for name in ids.take(min(NAMES, ids.shape[0] - at)).tolist():
                yield name.decode("utf-8") if isinstance(name, bytes) else str(name)
        except UnicodeDecodeError:
            raise FormatError(f"{path}: ids are bytes that are not UTF-8") from None


def matrix(array: np.ndarray, path: Path, what: str) -> np.ndarray:
    """The array, if it has frames and columns; else a FormatError."""
    if array.ndim != 2:
        raise FormatError(f"{path}: {what} must be [frames, columns], got the shape {array.shape}")
    return array


def count_npz(path: Path, max_bytes: str | None) -> int:
    """The number of utterances of an archive."""
    with Archive(path, max_bytes) as archive:
        if not _is_packed(archive.names):
            return len(archive.names)
        return archive.read("lengths").size if "lengths" in archive.names else 1
