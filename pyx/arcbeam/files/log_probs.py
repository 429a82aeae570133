"""Readers of log-probs: NumPy files, Kaldi archives, manifests, folders, as a stream of entries read on demand.

Of a folder, an archive that an index names is read once; manifests in it are not inputs. float64 is rounded to float32;
other types are refused.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np

from arcbeam.core.axes import has_more_utterances_than_frames, why_time_first
from arcbeam.core.calls import lists_options
from arcbeam.core.errors import FormatError
from arcbeam.core.sizes import as_bytes
from arcbeam.core.warn import warn
from arcbeam.files import kaldi_matrices, kaldi_specifiers, manifests
from arcbeam.files.ids import Ids
from arcbeam.files.kaldi_archives import scp_entries
from arcbeam.files.kinds import other_kind
from arcbeam.files.npz_utterances import check_count, count_npz, matrix, read_npz
from arcbeam.files.numpy_files import map_npy
from arcbeam.files.reading import Entries

SUFFIXES = (".npz", ".npy", ".ark", ".scp")
AUDIO = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a", ".aac", ".webm", ".sph", ".mp4")
MODELS = (".onnx", ".nemo", ".pt", ".pth", ".ckpt", ".safetensors")
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


@dataclass(frozen=True, slots=True)
class Entry:
    """An utterance that is not read yet; `read` is called before the next entry of the file is taken, or not at all."""

    id: str
    source: Path
    read: "Callable[[], np.ndarray]"

    def load(self) -> Utterance:
        """The utterance with its log-probs."""
        return Utterance(self.id, _as_float(self.read(), self.id, self.source), self.source)


@dataclass(frozen=True, slots=True)
class Input:
    """One file of log-probs; `max_bytes` limits the size of a packed one, see `arcbeam.files.reading.Budget`."""

    path: Path
    read: "Reader"
    max_bytes: str | None = None

    @property
    def is_pipe(self) -> bool:
        """Whether the file can be read only once."""
        return self.read is _read_standard_input

    @property
    def may_be_packed(self) -> bool:
        """Whether the file may be smaller than what it holds."""
        return self.read is read_npz

    def entries(self) -> Iterator[Entry]:
        """Yield the utterances of the file."""
        for name, read in self.read(self.path, self.max_bytes):
            yield Entry(name, self.path, read)


Reader: TypeAlias = Callable[[Path, str | None], Entries]


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
        ``scp:FILE``), or a folder of these; or a manifest (``.tsv``, ``.jsonl``, ``.json``, ``.jsonl.gz``); ``ark:-``
        is an archive from the standard input.
    max_bytes : int, str or None
        The most that a compressed ``.npz`` may come to, such as ``"20GiB"``. None: 20 times its size, but at least 32
        MiB.

    Yields
    ------
    id : str
        The utterance, unique among those of `path`: the name of its array, entry or file.
    log_probs : numpy.ndarray
        [frames, columns], float16 or float32; float64 is rounded to float32. It may be read-only.

    Raises
    ------
    TypeError
        `path` is not the path of one file or folder, or `max_bytes` not a size, at once.
    FormatError
        A file of an unknown kind, at once; or, when it is reached, one that is damaged or holds something else, or an
        id that occurs twice. The message names the file.
    FileNotFoundError
        There is no such file or folder, at once.
    MissingDependencyError
        Compressed and text archives of Kaldi need the package kaldiio, and cuts of Lhotse need lhotse.

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


def find_inputs(paths: Iterable[str], max_bytes: str | None = None, *, may_be_missing: bool = False) -> list[Input]:
    """Return the files that `paths` name, and the files in folders among them.

    `may_be_missing`: paths where there is nothing are found, too, and fail when they are read.
    """
    return [Input(file, read, max_bytes) for path in paths for file, read in _find(path, may_be_missing)]


def read_all(inputs: Iterable[Input]) -> Iterator[Utterance]:
    """Yield the utterances of all `inputs`; an id that occurs twice is a `FormatError` that names both files."""
    inputs = list(inputs)
    unique = Unique(inputs)
    for source in inputs:
        for entry in source.entries():
            unique.add(entry)
            yield entry.load()


class Unique:
    """The ids of the entries that were taken so far, in order, of `inputs`."""

    # An id takes a few bytes, because there may be millions: if it seems to occur twice, the names are read once more.

    def __init__(self, inputs: list[Input]) -> None:
        self._inputs, self._ids, self._count = inputs, Ids(), 0

    def add(self, entry: Entry) -> None:
        """The next entry; a `FormatError` if its id has occurred."""
        self._count += 1
        if not self._ids.add(entry.id) and (first := self._first(entry.id)) is not None:
            raise FormatError(f"the utterance id {entry.id!r} occurs twice: in {first} and in {entry.source}")

    def _first(self, name: str) -> Path | None:
        """The file in which an id has occurred before, if it has."""
        left = self._count - 1
        for source in self._inputs:
            if source.is_pipe:  # whose names cannot be read again
                return source.path
            with suppress(ValueError, OSError):  # of a damaged file, which may have been left out
                for other in source.entries():
                    if left == 0:
                        return None
                    if other.id == name:
                        return other.source
                    left -= 1
        return None


def count(inputs: Iterable[Input]) -> int | None:
    """Return how many utterances `inputs` have, or None if they would have to be read to the end."""
    total = 0
    for source in inputs:
        if source.read not in COUNTERS or not source.path.is_file():
            return None
        total += COUNTERS[source.read](source.path, source.max_bytes)
    return total


def _find(path: str, may_be_missing: bool = False) -> Iterator[tuple[Path, Reader]]:
    specifier = kaldi_specifiers.read(path)
    if path == kaldi_specifiers.STANDARD and not Path(path).exists():
        raise FormatError("-: expected a file; ark:- is an archive of Kaldi from the standard input")
    if specifier == ("ark", kaldi_specifiers.STANDARD):
        yield Path(specifier[1]), _read_standard_input
        return
    file = Path(path if specifier is None else specifier[1])
    if may_be_missing and not file.exists():
        yield file, _read_missing
        return
    file.stat()  # the FileNotFoundError or PermissionError of the system names the path
    if specifier is not None:
        yield file, READERS[f".{specifier[0]}"]
    elif file.is_dir():
        yield from _find_in_folder(file)
    elif file.suffix.lower() in READERS:
        yield file, READERS[file.suffix.lower()]
    elif file.name.lower().endswith(manifests.SUFFIXES):
        yield file, _read_manifest
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
            f"{file}: unknown kind of input {file.suffix!r}, expected one of "
            f"{', '.join((*SUFFIXES, *manifests.SUFFIXES))}, or ark:FILE or scp:FILE"
            f"{swapped or (kind and f', got {kind}') or ''}"
        )


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


def _read_missing(path: Path, _: str | None) -> Entries:
    path.stat()  # the error of the system names the path
    raise FormatError(f"{path}: was not there when the run began")


def _read_standard_input(path: Path, _: str | None) -> Entries:
    return kaldi_matrices.read_piped_ark(sys.stdin.buffer, path)


def _read_manifest(path: Path, max_bytes: str | None) -> Entries:
    return manifests.read(path, lambda target: _only_array(target, max_bytes))


def _only_array(path: Path, max_bytes: str | None) -> np.ndarray:
    """The log-probs of a file that has those of one utterance, which a manifest names."""
    reader = {".npy": _read_npy, ".npz": read_npz}.get(path.suffix.lower())
    if reader is None:
        raise FormatError(f"{path}: expected a .npy or .npz file of one utterance, got {path.suffix!r}")
    found = None
    for number, (_, read) in enumerate(reader(path, max_bytes)):
        if number:
            raise FormatError(f"{path}: expected one utterance, as a manifest names it, got several; give the file")
        found = read()
    if found is None:
        raise FormatError(f"{path}: expected an utterance, got none")
    return found


def _read_npy(path: Path, _: str | None) -> Entries:
    array = map_npy(path)
    if array.ndim == 3:
        check_count(array.shape, path)
        if has_more_utterances_than_frames(array) and array.dtype.kind == "f" and (why := why_time_first(array)):
            warn(
                f"{path}: expected [batch, frames, columns], got {list(array.shape)}, {why}: is it [frames, batch, "
                "columns]? Transpose it, as in array.transpose(1, 0, 2)"
            )
        width = len(str(len(array) - 1))
        yield from ((f"{path.stem}-{n:0{width}d}", partial(array.__getitem__, n)) for n in range(len(array)))
    else:
        yield path.stem, partial(matrix, array, path, "the array")


READERS: dict[str, Reader] = {
    ".npz": read_npz,
    ".npy": _read_npy,
    ".ark": lambda path, _: kaldi_matrices.read_ark(path),
    ".scp": lambda path, _: kaldi_matrices.read_scp(path),
}


def _count_npy(path: Path, _: str | None) -> int:
    array = map_npy(path)
    return len(array) if array.ndim == 3 else 1


#: Functions that return the number of utterances without reading them. A Kaldi archive does not contain it.
COUNTERS: dict[Reader, Callable[[Path, str | None], int]] = {
    read_npz: count_npz,
    _read_npy: _count_npy,
    READERS[".scp"]: lambda path, _: sum(1 for _ in scp_entries(path)),
    _read_manifest: lambda path, _: manifests.count(path),
}
