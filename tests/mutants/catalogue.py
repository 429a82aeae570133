"""The mutants: wrong rules in kernels, in the host's code beside them and in the twin's beam search of transducers,
each of which one test must see. ``mutants.toml`` holds them.

A mutant is a number, what is wrong, the text that it changes, and the function that kills it. The text is code of
one place in them, without regard to white space, comments and the file it stands in, so that code may move;
``[[`` and ``]]`` enclose what changes. Numbers have no gap: a mutant that goes leaves its number with the reason.
"""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.simt.build import ENGINE, HERE, ROOT

LIST = Path(__file__).with_name("mutants.toml")
PLACES = (
    ROOT / "cuda", HERE / "kernels", ENGINE / "models" / "_requests", ENGINE / "_lattice_memory",
    ROOT / "cpu_reference" / "transducer" / "beam",
)  # fmt: skip
OF_THE_CODE = {".cu", ".cuh", ".hpp", ".cpp"}
_SKIPPED = re.compile(r"\s+|//[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True)
class Mutant:
    """
    Attributes
    ----------
    number : int
        What ``arcbeam_mutant`` is while this one runs.
    text, instead : str
        Code around the change, which is in double brackets, and what stands there instead. A change that ends with a
        semicolon is a statement, else it is an expression.
    killer : str
        The function of `tests.mutants.killers` that fails, or of `tests.mutants.twin_killers` if its name begins with
        ``twin_``.
    says : str
        How its message begins, as a pattern.
    """

    number: int
    text: str
    killer: str
    instead: str = ""
    says: str = ""

    @property
    def id(self) -> str:
        return f"{self.number:03} {' '.join(self.text.split())} > {self.instead}"


@dataclass(frozen=True)
class Change:
    """Where a mutant changes the text of a file: from `begin` to before `end`."""

    path: Path
    begin: int
    end: int


def read() -> tuple[dict[int, Mutant], dict[int, str]]:
    """The mutants by number, and why others went."""
    entries = tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]
    living = {entry["number"]: Mutant(**entry) for entry in entries if "removed" not in entry}
    return living, {entry["number"]: entry["removed"] for entry in entries if "removed" in entry}


def sources() -> dict[Path, str]:
    return {
        path: path.read_text(encoding="utf-8")
        for place in PLACES
        for path in sorted(place.rglob("*"))
        if path.suffix in OF_THE_CODE
    }


def squeezed(text: str) -> tuple[str, list[int]]:
    """The text without white space and comments, and where each of its characters stood; and where the text ends."""
    kept, places, at = [], [], 0
    for skipped in [*_SKIPPED.finditer(text), None]:
        end = skipped.start() if skipped else len(text)
        kept.append(text[at:end])
        places += range(at, end)
        at = skipped.end() if skipped else end
    return "".join(kept), [*places, len(text)]


def find(mutant: Mutant, texts: dict[Path, tuple[str, list[int]]]) -> Change:
    """Where the mutant's text stands. Raises LookupError unless it is one place.

    texts : what `squeezed` makes of each source
    """
    before, changed, after = (squeezed(part)[0] for part in re.fullmatch(r"(.*)\[\[(.*)\]\](.*)", mutant.text).groups())
    whole = before + changed + after
    found = [
        (path, at) for path, (text, _) in texts.items() for at in _all(text, whole)
    ]  # fmt: skip
    if len(found) != 1:
        where = ", ".join(str(path.relative_to(ROOT)) for path, _ in found) or "nowhere"
        raise LookupError(f"mutant {mutant.id}: expected its text once in the sources, found it in {where}: follow it")
    path, at = found[0]
    _, places = texts[path]
    first = at + len(before)
    return Change(path, places[first], places[first + len(changed) - 1] + 1)


def _all(text: str, part: str) -> list[int]:
    return [match.start() for match in re.finditer(f"(?={re.escape(part)})", text)]
