"""Readers of log-probs: NumPy files, Kaldi archives, folders of them, as a stream of `Utterance` read on demand.

Of a folder, an archive that an index names is read once. float64 is rounded to float32; other types are refused.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from arcbeam.core.axes import has_more_utterances_than_frames, why_time_first
from arcbeam.core.calls import lists_options
from arcbeam.core.errors import FormatError
from arcbeam.core.sizes import as_bytes
from arcbeam.core.warn import warn
from arcbeam.files import kaldi_matrices, kaldi_specifiers
from arcbeam.files.kaldi_archives import scp_entries
from arcbeam.files.kinds import other_kind
from arcbeam.files.numpy_files import Archive, map_npy

SUFFIXES = (".npz", ".npy", ".ark", ".scp")
AUDIO = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a", ".aac", ".webm", ".sph", ".mp4")
MODELS = (".onnx", ".nemo", ".pt", ".pth", ".ckpt", ".safetensors")
PACKED = ("lengths", "ids")  # arrays that an .npz has besides the log-probs of all utterances
GRAPH_SUFFIXES = (".arcbeam", ".fst")


@dataclass(frozen=True)
class Utterance:
    """One utterance to decode.

    Attributes
    ----------
    id : str
        Its name, unique among the inputs.
    log_probs : numpy.ndarray
        Natural log-probabilities [frames, columns], float16 or float32.
    source : pathlib.Path
        The file it was read from, for messages.
    """

    id: str
    log_probs: np.ndarray
    source: Path


@dataclass(frozen=True)
class Input:
    """One file of log-probs; `max_bytes` limits the size of a packed one, see `arcbeam.files.reading.Budget`."""

    path: Path
    read: "Reader"
    max_bytes: str | None = None

    @property
    def may_be_packed(self) -> bool:
        """Whether the file may be smaller than what it holds."""
        return self.read is _read_npz

    def utterances(self) -> Iterator[Utterance]:
        """Yield the utterances of the file."""
        for name, log_probs in self.read(self.path, self.max_bytes):
            yield Utterance(name, _as_float(log_probs, name, self.path), self.path)


Reader = Callable[[Path, str | None], Iterator[tuple[str, np.ndarray]]]


@lists_options()
def read_log_probs(
    path: str | os.PathLike[str], *, max_bytes: int | str | None = None
) -> Iterator[tuple[str, np.ndarray]]:
    """Reads log-probs, or the output of an encoder, from the files that the command line takes: (id, array) one by one.

    One utterance is in memory at a time, in the order of the file, or of the files of a folder by name.

    Parameters
    ----------
    path : path
        An ``.npz``, an ``.npy``, a Kaldi archive (``.ark``, also ``ark:FILE``) or an index of one (``.scp``, also
        ``scp:FILE``), or a folder of these; ``ark:-`` is an archive from the standard input.
    max_bytes : int, str or None
        The most that a packed ``.npz`` may unpack to, such as ``"20GiB"``. None: 20 times its size, but at least 32
        MiB.

    Yields
    ------
    id : str
        The utterance, unique among those of `path`: the name of its array, entry or file.
    log_probs : numpy.ndarray
        [frames, columns], float16 or float32; float64 is rounded to float32. It may be read-only.

    Raises
    ------
    FormatError
        A file of an unknown kind, at once; or, when it is reached, one that is damaged or holds something else, or an
        id that occurs twice. The message names the file.
    FileNotFoundError
        There is no such file or folder, at once.
    MissingDependencyError
        Compressed and text archives of Kaldi need the package kaldiio.

    Examples
    --------
    >>> for utterance, log_probs in arcbeam.read_log_probs("log_probs.scp"):
    ...     print(utterance, decoder.decode(log_probs).text)
    """
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"path: expected the path of one file or folder, got {type(path).__name__}")
    limit = None if max_bytes is None else str(as_bytes("max_bytes", max_bytes))
    utterances = read_all(find_inputs([os.fsdecode(path)], limit))
    return ((utterance.id, utterance.log_probs) for utterance in utterances)


def find_inputs(paths: Iterable[str], max_bytes: str | None = None) -> list[Input]:
    """Return the files that `paths` name, and the files in folders among them."""
    return [Input(file, read, max_bytes) for path in paths for file, read in _find(path)]


def read_all(inputs: Iterable[Input]) -> Iterator[Utterance]:
    """Yield the utterances of all `inputs`; an id that occurs twice is a `FormatError` that names both files."""
    seen: dict[str, Path] = {}
    for source in inputs:
        for utterance in source.utterances():
            if utterance.id in seen:
                raise FormatError(
                    f"the utterance id {utterance.id!r} occurs twice: in {seen[utterance.id]} and in {utterance.source}"
                )
            seen[utterance.id] = utterance.source
            yield utterance


def count(inputs: Iterable[Input]) -> int | None:
    """Return how many utterances `inputs` have, or None if they would have to be read to the end."""
    total = 0
    for source in inputs:
        if source.read not in COUNTERS or not source.path.is_file():
            return None
        total += COUNTERS[source.read](source.path, source.max_bytes)
    return total


def _find(path: str) -> Iterator[tuple[Path, Reader]]:
    specifier = kaldi_specifiers.read(path)
    if path == kaldi_specifiers.STANDARD and not Path(path).exists():
        raise FormatError("-: expected a file; ark:- is an archive of Kaldi from the standard input")
    if specifier == ("ark", kaldi_specifiers.STANDARD):
        yield Path(specifier[1]), lambda name, _: kaldi_matrices.read_piped_ark(sys.stdin.buffer, name)
        return
    if specifier is not None:
        yield _existing(Path(specifier[1])), READERS[f".{specifier[0]}"]
        return
    file = _existing(Path(path))
    if file.is_dir():
        yield from _find_in_folder(file)
    elif file.suffix.lower() in READERS:
        yield file, READERS[file.suffix.lower()]
    else:
        suffix, swapped = file.suffix.lower(), ""
        kind = other_kind(file)
        if file.suffix in GRAPH_SUFFIXES or (kind and kind.startswith("a graph of arcbeam")):
            swapped = "; commands that take a graph take it first, then the log-probs; greedy takes none"
        elif suffix in AUDIO or suffix in MODELS:
            kind = "audio" if suffix in AUDIO else "an acoustic model"
            raise FormatError(
                f"{file}: expected the log-probs that a model makes of audio, got {kind}; run the model first, "
                f"and save its output, for example with numpy.savez: docs/guide/batch-jobs.md shows how"
            )
        raise FormatError(
            f"{file}: unknown kind of input {file.suffix!r}, expected one of {', '.join(SUFFIXES)}, "
            f"or ark:FILE or scp:FILE{swapped or (kind and f', got {kind}') or ''}"
        )


def _existing(path: Path) -> Path:
    path.stat()  # the FileNotFoundError or PermissionError of the system names the path
    return path


def _find_in_folder(folder: Path) -> Iterator[tuple[Path, Reader]]:
    files = sorted(f for f in folder.iterdir() if f.suffix.lower() in READERS and f.is_file())
    if not files:
        raise FormatError(f"{folder}: the folder contains no input ({', '.join(SUFFIXES)})")
    indexed = {entry[1].resolve() for f in files if f.suffix.lower() == ".scp" for entry in scp_entries(f)}
    for file in files:
        if file.suffix.lower() != ".ark" or file.resolve() not in indexed:
            yield file, READERS[file.suffix.lower()]


def _as_float(log_probs: np.ndarray, name: str, path: Path) -> np.ndarray:
    if log_probs.dtype.kind != "f" or log_probs.dtype.itemsize > 8:
        raise FormatError(
            f"{path}: utterance {name!r}: log-probs must be float16, float32 or float64, got {log_probs.dtype}"
        )
    if log_probs.dtype.itemsize == 8 or not log_probs.dtype.isnative:
        return log_probs.astype(np.float16 if log_probs.dtype.itemsize == 2 else np.float32)
    return log_probs


def _read_npy(path: Path, _: str | None) -> Iterator[tuple[str, np.ndarray]]:
    array = map_npy(path)
    if array.ndim == 3:
        _check_count(array.shape, path)
        if has_more_utterances_than_frames(array) and array.dtype.kind == "f" and (why := why_time_first(array)):
            warn(
                f"{path}: expected [batch, frames, columns], got {list(array.shape)}, {why}: is it [frames, batch, "
                "columns]? Transpose it, as in array.transpose(1, 0, 2)"
            )
        width = len(str(len(array) - 1))
        yield from ((f"{path.stem}-{n:0{width}d}", utterance) for n, utterance in enumerate(array))
    else:
        yield path.stem, _matrix(array, path, "the array")


def _check_count(shape: tuple[int, ...], path: Path) -> None:
    """FormatError if a few bytes claim any number of utterances, all of them empty."""
    if shape[0] > max(prod(shape), path.stat().st_size):
        raise FormatError(f"{path}: expected utterances with frames, got the shape {shape}")


def _read_npz(path: Path, max_bytes: str | None) -> Iterator[tuple[str, np.ndarray]]:
    with Archive(path, max_bytes) as archive:
        if not archive.names:
            raise FormatError(f"{path}: the archive contains no array")
        if _is_packed(archive.names):
            yield from _read_packed(path, archive)
            return
        for name in archive.names:
            array = archive.read(name)
            if array.ndim == 1 and name in PACKED:
                others = ", ".join(repr(other) for other in archive.names if other not in PACKED)
                raise FormatError(
                    f"{path}: expected an array 'log_probs' of all utterances, because there is {name!r}, got "
                    f"{others or 'no other'}"
                )
            yield name, _matrix(array, path, f"array {name!r}")


def _is_packed(names: list[str]) -> bool:
    return "log_probs" in names and ("lengths" in names or "ids" in names or len(names) == 1)


def _read_packed(path: Path, archive: Archive) -> Iterator[tuple[str, np.ndarray]]:
    rows = archive.rows("log_probs")
    lengths = archive.read("lengths") if "lengths" in archive.names else None
    if len(rows.shape) not in (2, 3):
        raise FormatError(
            f"{path}: log_probs must be [all frames, columns] or [batch, frames, columns], got the shape {rows.shape}"
        )
    if len(rows.shape) == 3:
        _check_count(rows.shape, path)
    if lengths is None:
        count, most = (1, rows.shape[0]) if len(rows.shape) == 2 else rows.shape[:2]
        lengths = np.full(count, most, np.int64)
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu":
        raise FormatError(f"{path}: lengths must be integers [batch], got {lengths.dtype} {list(lengths.shape)}")
    if lengths.size and int(lengths.min()) < 0:
        raise FormatError(f"{path}: lengths must not be negative, got {int(lengths.min())}")
    frames = [int(length) for length in lengths]
    names = _names(path, archive, len(frames))
    if len(rows.shape) == 3:
        if len(frames) != rows.shape[0]:
            raise FormatError(f"{path}: {rows.shape[0]} utterances in log_probs, but {len(frames)} lengths")
        if frames and max(frames) > rows.shape[1]:
            raise FormatError(f"{path}: a length of {max(frames)} is beyond the {rows.shape[1]} frames")
        yield from ((name, rows.take(1)[0, :length]) for name, length in zip(names, frames, strict=True))
        return
    if sum(frames) != rows.shape[0]:
        raise FormatError(f"{path}: the lengths add up to {sum(frames)} frames, but log_probs has {rows.shape[0]}")
    yield from ((name, rows.take(length)) for name, length in zip(names, frames, strict=True))


def _names(path: Path, archive: Archive, count: int) -> list[str]:
    if "ids" not in archive.names:
        return [path.stem] if count == 1 else [f"{path.stem}-{n:0{len(str(count - 1))}d}" for n in range(count)]
    ids = archive.read("ids")
    if ids.ndim != 1 or ids.dtype.kind not in "USiu":
        raise FormatError(f"{path}: ids must be names [batch], got {ids.dtype} {list(ids.shape)}")
    if len(ids) != count:
        raise FormatError(f"{path}: {len(ids)} ids, but {count} lengths")
    try:
        return [name.decode("utf-8") if isinstance(name, bytes) else str(name) for name in ids.tolist()]
    except UnicodeDecodeError:
        raise FormatError(f"{path}: ids are bytes that are not UTF-8") from None


def _matrix(array: np.ndarray, path: Path, what: str) -> np.ndarray:
    if array.ndim != 2:
        raise FormatError(f"{path}: {what} must be [frames, columns], got the shape {array.shape}")
    return array


READERS: dict[str, Reader] = {
    ".npz": _read_npz,
    ".npy": _read_npy,
    ".ark": lambda path, _: kaldi_matrices.read_ark(path),
    ".scp": lambda path, _: kaldi_matrices.read_scp(path),
}


def _count_npy(path: Path, _: str | None) -> int:
    array = map_npy(path)
    return len(array) if array.ndim == 3 else 1


def _count_npz(path: Path, max_bytes: str | None) -> int:
    with Archive(path, max_bytes) as archive:
        if not _is_packed(archive.names):
            return len(archive.names)
        return archive.read("lengths").size if "lengths" in archive.names else 1


#: Functions that return the number of utterances without reading them. A Kaldi archive does not contain it.
COUNTERS: dict[Reader, Callable[[Path, str | None], int]] = {
    _read_npz: _count_npz,
    _read_npy: _count_npy,
    READERS[".scp"]: lambda path, _: sum(1 for _ in scp_entries(path)),
}
