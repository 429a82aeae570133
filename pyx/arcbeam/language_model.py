"""n-gram language models in KenLM's format, through the library that the package kenlm installs."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from arcbeam._baseline import KenLmModel, LibraryError, ModelError
from arcbeam.errors import FormatError, MissingDependencyError
from arcbeam.lm_automaton import words_of

if TYPE_CHECKING:
    import numpy.typing as npt

_HOW = "pip install 'arcbeam[kenlm]'"
_COMPRESSED = (b"\x1f\x8b", b"\xfd7zXZ\x00", b"BZh")


class KenLM:
    """An n-gram language model in KenLM's format, used through the library of the package ``kenlm``.

    Parameters
    ----------
    path : path
        ARPA (plain, .gz, .xz or .bz2) or KenLM's binary format, of any kind of model.
    library : path, optional
        The shared library with KenLM's code. By default the one that the package ``kenlm`` brings.

    Raises
    ------
    MissingDependencyError
        The package is missing, or its library is not as expected.
    FormatError, OSError
        The file is no model, or cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str], *, library: str | os.PathLike[str] | None = None) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise FileNotFoundError(f"no such language model: {path}")
        libraries = [os.fspath(library)] if library is not None else kenlm_libraries()
        with tempfile.TemporaryDirectory() as folder:
            self._model = _load(_plain(self.path, Path(folder)), self.path, libraries)

    @property
    def order(self) -> int:
        """The n of its n-grams."""
        return int(self._model.order)

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self._index(word) != 0

    def score(self, words: str | Sequence[str], *, bos: bool = True, eos: bool = True) -> float:
        """log10 probability of words (a str is split at white space), between sentence marks if `bos` and `eos`."""
        return float(self._model.score(self.indices(words_of("words", words)), bos, eos))

    def indices(self, words: Sequence[str]) -> npt.NDArray[np.uint32]:
        """The model's numbers of words; 0 for unknown ones."""
        return np.array([self._index(word) for word in words], np.uint32)

    def _index(self, word: str) -> int:
        return 0 if "\0" in word else int(self._model.word(word))

    def __repr__(self) -> str:
        return f"KenLM({str(self.path)!r}, order={self.order})"


def kenlm_libraries() -> list[str]:
    """Where KenLM's code may lie: the library beside the package kenlm, and the package's own extension."""
    spec = find_spec("kenlm")
    if spec is None or spec.origin is None:
        raise MissingDependencyError(f"a KenLM language model needs the package kenlm, which is not installed: {_HOW}")
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
            # Where in KenLM's source it was found, which the reason opens with, helps nobody.
            reason = re.sub(r"^.*? threw \w+( because `[^']*')?\.?\s*", "", str(error), count=1, flags=re.DOTALL)
            raise FormatError(f"{path}: KenLM cannot load it: {reason.strip()}") from None
    raise MissingDependencyError(
        f"a KenLM language model needs KenLM's library, and none can be used ({'; '.join(reasons)}): {_HOW}"
    )


def _plain(path: Path, folder: Path) -> Path:
    """The file itself, or its decompressed text in a folder: KenLM may have been built without a decompressor."""
    with path.open("rb") as file:
        head = file.read(8)
    if not head.startswith(_COMPRESSED):
        return path
    from arcbeam.build.files import blocks

    plain = folder / "model.arpa"
    with plain.open("wb") as file:
        file.writelines(blocks(path))
    return plain
