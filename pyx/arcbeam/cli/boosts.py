"""Boost lists on the command line: one for all utterances, or a file that names one for each."""

from collections.abc import Callable, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import typer

from arcbeam.cli.console import explain
from arcbeam.cli.score import named
from arcbeam.cli.terminal import note
from arcbeam.core.errors import FormatError
from arcbeam.ctc.options import DEFAULT_BOOST

if TYPE_CHECKING:
    from arcbeam.ctc.boost.boost import Boost
    from arcbeam.graph.graph import Graph

List = TypeVar("List", bound=Sized)


class BoostFiles(Generic[List]):
    """Finds the boost of an utterance. A file that several utterances name is read once."""

    def __init__(self, read: Callable[[Path], List], common: Path | None, by_utterance: Path | None) -> None:
        self._reader = read  # of a list; `common` is that of utterances that `by_utterance` does not name
        self._read: dict[Path, List] = {}
        self._common = None if common is None else self._list(common)
        if self._common is not None and not len(self._common):
            note(f"note: --boost: {common} has no phrases")
        entries: dict[str, _Entry] = {} if by_utterance is None else _read_map(by_utterance)
        self._paths = {utterance: entry.path for utterance, entry in entries.items()}
        self._waiting = set(self._paths)
        for utterance, entry in entries.items():
            try:
                self._list(entry.path)
            except OSError as error:
                raise FormatError(
                    f"{by_utterance}, line {entry.line}: the list of {utterance!r} cannot be read: {explain(error)}"
                ) from None

    def __call__(self, utterance: str) -> List | None:
        """The boost of an utterance, if it has one."""
        self._waiting.discard(utterance)
        path = self._paths.get(utterance)
        return self._common if path is None else self._list(path)

    def tell_absent(self) -> None:
        """Notes the utterances of the map that the input lacks."""
        if self._waiting:
            note(f"note: --boost-map: the input lacks {named(sorted(self._waiting))}")

    def _list(self, path: Path) -> List:
        if path not in self._read:
            self._read[path] = self._reader(path)
        return self._read[path]


def word_boosts(
    boost: Path | None, boost_map: Path | None, boost_score: float, boost_lexicon: Path | None
) -> "BoostFiles[Boost] | None":
    """The lists of words, if there are any: of all utterances and of single ones."""
    if boost is None and boost_map is None:
        return None
    from arcbeam.ctc.boost.boost import Boost
    from arcbeam.ctc.boost.phrases import checked_score

    try:
        score = checked_score(None, boost_score)
    except ValueError as error:
        raise typer.BadParameter(str(error).partition(": ")[2], param_hint="'--boost-score'") from None
    lists: list[Boost] = []

    def read(path: Path) -> Boost:
        lists.append(Boost.read(path, score, pronunciations=boost_lexicon))
        return lists[-1]

    found = BoostFiles(read, boost, boost_map)  # which reads them all
    given = set[float]().union(*(one.phrases.values() for one in lists if score != DEFAULT_BOOST))
    if given and score not in given:
        note("note: --boost-score: all phrases have scores of their own, so it changes nothing; leave it out")
    return found


def tell_unused(lexicon: Path | None, graph: "Graph") -> None:
    """Notes that a graph has no new words for `lexicon` to spell."""
    if lexicon is not None and graph.open_slot is None:
        note(
            f"note: --boost-lexicon: {lexicon} spells no words, because the graph has no slot for new ones; build it "
            "with arcbeam build-graph --open-slot"
        )


class _Entry(NamedTuple):
    line: int
    path: Path


def _read_map(path: Path) -> dict[str, _Entry]:
    from arcbeam.files.lines import read_lines

    found: dict[str, _Entry] = {}
    for number, line in read_lines(path):
        parts = line.split(maxsplit=1)
        if not parts:
            continue
        if len(parts) == 1 or "\0" in parts[1]:
            raise FormatError(f"{path}, line {number}: expected an utterance and the file of its boost, got {line!r}")
        if parts[0] in found:
            raise FormatError(f"{path}, line {number}: utterance {parts[0]!r} occurs twice")
        found[parts[0]] = _Entry(number, path.parent / parts[1].strip())
    return found
