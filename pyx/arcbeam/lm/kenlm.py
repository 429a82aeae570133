"""n-gram language models in KenLM's format, through the library that the package kenlm installs."""

from __future__ import annotations

import codecs
import hashlib
import math
import os
import re
import tempfile
from collections.abc import Container, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from arcbeam.core.calls import lists_options
from arcbeam.core.errors import FormatError
from arcbeam.core.packages import missing_package
from arcbeam.core.show import shown_as
from arcbeam.files.kinds import other_kind
from arcbeam.files.packed_files import blocks
from arcbeam.files.reading import check_is_file
from arcbeam.lm._kenlm import KenLmModel, LibraryError, ModelError
from arcbeam.lm.kenlm_file import WatchedFile, check_counts, is_binary
from arcbeam.lm.language_model import words_of

if TYPE_CHECKING:
    import numpy.typing as npt

LN10 = math.log(10)
SAMPLE = 1_000  # words that are looked up in another case for a message
LONGEST_REASON = 300  # characters of KenLM's message that ours quotes
UNLISTED = -100.0  # log10
MARKED = 1 << 16  # bytes at either end of a file that its mark covers
_NO_MEMORY = ("bad_alloc", "Cannot allocate memory")
_COMPRESSED = (b"\x1f\x8b", b"\xfd7zXZ\x00", b"BZh")


class KenLM:
    """An n-gram language model in KenLM's format, used through the library of the package ``kenlm``.

    Parameters
    ----------
    path : path
        ARPA (plain, .gz, .xz or .bz2) or KenLM's binary format, of any kind of model.
    library : path, optional
        The shared library with KenLM's code; by default the one that the package ``kenlm`` brings.
    max_bytes : int, str or None
        Bytes, or a size such as ``"20GiB"``, that the text of a packed ARPA may have. None: 20 times the size of the
        file, but at least 32 MiB.

    Raises
    ------
    MissingDependencyError
        The package is missing, or its library is not as expected.
    FormatError, OSError
        The file is not a model, or cannot be read.
    MemoryError
        There is not enough memory for the model.

    Notes
    -----
    KenLM trusts the content of its binary files, so a file that was made to do harm can do it. Use such files only from
    people whose programs you would run; `LanguageModel` reads ARPA files, and its own, from anywhere (``SECURITY.md``).

    A model is pickled by its path, and loaded again where it is unpickled; FormatError if the file has been replaced.
    A copy is the model itself, which never changes. A binary file is memory-mapped by KenLM and must not be changed in
    place while the model is in use; FormatError at the next use if it is.

    Attributes
    ----------
    path : Path
    nbytes : int
        Size of the file. A binary one is mapped with this size; the model of an ARPA takes about as much memory.
    """

    @lists_options()
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        library: str | os.PathLike[str] | None = None,
        max_bytes: int | str | None = None,
    ) -> None:
        self.path = Path(path)
        check_is_file(self.path)
        self._source = (
            str(self.path.absolute()),
            None if library is None else os.fspath(library),
            _mark(self.path),
            max_bytes,
        )
        self.nbytes = self.path.stat().st_size
        libraries = [os.fspath(library)] if library is not None else kenlm_libraries()
        self._watched = WatchedFile(self.path) if is_binary(self.path) else None
        if self._watched is not None:
            self._model = self._watched.load(lambda: _load(self.path, self.path, libraries))
            return
        with tempfile.TemporaryDirectory() as folder:
            text = _plain(self.path, Path(folder), max_bytes)
            check_counts(text, self.path)
            self._model = _load(text, self.path, libraries)

    @property
    def order(self) -> int:
        """The n of its n-grams."""
        return int(self._model.order)

    @property
    def mark(self) -> str:
        """What distinguishes the model's file from another one: its size, and a digest of its beginning and end."""
        return self._source[2]

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self._index(word) != 0

    @lists_options()
    def score(self, words: str | Sequence[str], *, bos: bool = True, eos: bool = True) -> float:
        """Natural log of the probability of words, as in :meth:`arcbeam.LanguageModel.score`.

        Parameters
        ----------
        words : str or sequence of str
            A str is split at white space. Words that the model lacks count as its unknown word.
        bos, eos : bool
            Whether they come after the beginning of a sentence, and whether its end is scored after them.

        Raises
        ------
        TypeError
            Neither a str nor a sequence of them.
        FormatError
            The file that KenLM maps has been changed in place.
        """
        return self.score_log10(words, bos=bos, eos=eos) * LN10

    @lists_options()
    def score_log10(self, words: str | Sequence[str], *, bos: bool = True, eos: bool = True) -> float:
        """The log-probability of the words to base 10, as in KenLM: `score` is this times the natural log of 10."""
        self.check_file()
        return float(self._model.score(self.indices(words), bos, eos))

    def indices(self, words: str | Sequence[str]) -> npt.NDArray[np.uint32]:
        """The model's numbers of words; 0 for unknown ones."""
        return np.array([self._index(word) for word in words_of("words", words)], np.uint32)

    @property
    def knows_unknown(self) -> bool:
        """Whether the model lists ``<unk>``; KenLM gives one that does not a score of -100."""
        return bool(self._model.score(np.zeros(1, np.uint32), False, False) != UNLISTED)

    @property
    def model(self) -> KenLmModel:
        """The model, as the engines take it."""
        return self._model

    def check_file(self) -> None:
        """FormatError if the file that KenLM maps has been changed in place."""
        if self._watched is not None:
            self._watched.check()

    def _index(self, word: str) -> int:
        return 0 if "\0" in word else int(self._model.word(word))

    def __reduce__(self) -> Any:
        return _load_same, self._source

    def __copy__(self) -> KenLM:
        return self

    def __deepcopy__(self, _: Any) -> KenLM:
        return self

    def __repr__(self) -> str:
        return shown_as(f"KenLM of order {self.order}", f"{self.nbytes:,} bytes in {str(self.path)!r}")


def case_hint(unknown: Sequence[str], model: Container[str]) -> str:
    """The end of a message about unknown words: a hint if the model has most of them in another case."""
    sample = unknown[:SAMPLE]
    for case, written in (("lower", str.lower), ("upper", str.upper)):
        if 2 * sum(written(word) in model for word in sample) > len(sample):
            return f"; it has them in {case} case"
    return ""


def _load_same(path: str, library: str | None, mark: str, max_bytes: int | str | None) -> KenLM:
    """Unpickles a model; FormatError if its file has been replaced since."""
    if Path(path).is_file() and _mark(Path(path)) != mark:
        raise FormatError(f"{path}: expected the language model that was pickled, but the file has been replaced since")
    return KenLM(path, library=library, max_bytes=max_bytes)


def _mark(path: Path) -> str:
    """The mark that distinguishes a file from one that replaces it: its size, and a digest of its beginning and end."""
    size = path.stat().st_size
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        for start in (0, max(0, size - MARKED)):
            file.seek(start)
            digest.update(file.read(MARKED))
    return f"{size} {digest.hexdigest()}"


def kenlm_libraries() -> list[str]:
    """The files that may have KenLM's code: the library next to the package kenlm, and the package's own extension."""
    spec = find_spec("kenlm")
    if spec is None or spec.origin is None:
        raise missing_package("kenlm", "a KenLM language model")
    beside = [Path(spec.origin).with_name(f"libkenlm{ending}") for ending in (".so", ".dylib")]
    return [str(path) for path in (*beside, Path(spec.origin)) if path.is_file()]


def _load(file: Path, path: Path, libraries: Sequence[str]) -> KenLmModel:
    """The model from the first library that can be used."""
    reasons = []
    for library in libraries:
        try:
            return KenLmModel(library, str(file))
        except LibraryError as error:
            reasons.append(f"{library}: {error}")
        except ModelError as error:
            # The reason opens with the place in KenLM's source, which helps no user.
            reason = re.sub(r"^.*? threw \w+( because `[^']*')?\.?\s*", "", str(error), count=1, flags=re.DOTALL)
            if len(reason) > LONGEST_REASON:  # it may quote a long line of a file that is not a model
                reason = reason[:LONGEST_REASON] + "..."
            kind = MemoryError if any(text in reason for text in _NO_MEMORY) else FormatError
            got = other_kind(file, "an ARPA", "KenLM's")
            if kind is FormatError and got is not None:
                raise FormatError(f"{path}: expected an ARPA or KenLM's binary language model, got {got}") from None
            raise kind(f"{path}: KenLM cannot load it: {reason.strip()}") from None
    raise missing_package("kenlm", "a KenLM language model", f"of which no library can be used ({'; '.join(reasons)})")


def _plain(path: Path, folder: Path, max_bytes: int | str | None) -> Path:
    """The file itself, or its text in a folder: KenLM takes no byte order mark, and may have no decompressor."""
    with path.open("rb") as file:
        head = file.read(8)
    if not head.startswith((*_COMPRESSED, codecs.BOM_UTF8)):
        return path
    plain = folder / "model.arpa"
    with plain.open("wb") as file:
        file.writelines(blocks(path, max_bytes))
    return plain
