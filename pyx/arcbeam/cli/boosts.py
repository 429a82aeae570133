"""The boost lists of ``arcbeam decode``: one for all utterances, or a file that names one for each."""

from pathlib import Path

from arcbeam.ctc.boost import Boost
from arcbeam.errors import FormatError


class BoostFiles:
    """Finds the boost of an utterance. A file that several utterances name is read once.

    Parameters
    ----------
    common : path or None
        The list of all utterances that `by_utterance` does not name.
    by_utterance : path or None
        A file whose lines are an utterance, white space, and the path of a list, seen from the folder of that file.
    score : float or None
        Of phrases that come without.
    lexicon : path, optional
        A file of spellings of words that the graph lacks.
    """

    def __init__(
        self, common: Path | None, by_utterance: Path | None, score: float | None, lexicon: Path | None = None
    ) -> None:
        self._score, self._lexicon = score, lexicon
        self._read: dict[Path, Boost] = {}
        self._common = None if common is None else self._list(common)
        self._paths: dict[str, Path] = {} if by_utterance is None else _read_map(by_utterance)
        self._waiting = set(self._paths)
        for path in self._paths.values():
            self._list(path)

    def __call__(self, utterance: str) -> Boost | None:
        """The boost of an utterance, if it has one."""
        self._waiting.discard(utterance)
        path = self._paths.get(utterance)
        return self._common if path is None else self._list(path)

    @property
    def absent(self) -> list[str]:
        """Utterances that the map names and that have not been asked for."""
        return sorted(self._waiting)

    def _list(self, path: Path) -> Boost:
        if path not in self._read:
            self._read[path] = Boost.read(path, self._score, pronunciations=self._lexicon)
        return self._read[path]


def _read_map(path: Path) -> dict[str, Path]:
    from arcbeam.graph.symbols import read_lines

    found: dict[str, Path] = {}
    for number, line in read_lines(path):
        parts = line.split(maxsplit=1)
        if not parts:
            continue
        if len(parts) == 1:
            raise FormatError(f"{path}, line {number}: expected an utterance and the file of its boost, got {line!r}")
        if parts[0] in found:
            raise FormatError(f"{path}, line {number}: utterance {parts[0]!r} occurs twice")
        found[parts[0]] = path.parent / parts[1].strip()
    return found
