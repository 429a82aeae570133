"""The code around the kernels, by whose digest a result of a GPU tells that its figures may be others by now.

It is what drives the kernels: Cython modules with all that is compiled into them, and the plans of launches. Their
tokens count; comments, docstrings, wrapping, and the places of files do not. Other code of arcbeam, and that of the
benchmarks, is not looked at, so no such digest proves that a figure stands; the commit of a result is the whole truth.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import backend, python_code

ROOT = Path(__file__).resolve().parents[2]
TRANSDUCER = ("_transducer_engine",)
SEARCH = ("_search_engine", "graph_layout", "lm_placement")
PACKAGE = "arcbeam"
SUFFIXES = (".py", ".pyx", ".pxd")


def digest(kernels: Iterable[str], root: Path = ROOT) -> str:
    """Of what drives the kernels of these fatbins, in the source tree at ``root``."""
    entries = {name for kernel in kernels for name in (TRANSDUCER if kernel == "transducer" else SEARCH)}
    source_digest = backend.load("source_digest")
    return source_digest.digest(sorted(source_digest.digest(unit.tokens) for unit in units(entries, root).values()))


def sources(entries: Iterable[str], root: Path = ROOT) -> list[Path]:
    """Files of these modules of arcbeam, and what they are compiled with."""
    return sorted({path for unit in units(entries, root).values() for path in unit.files})


def units(entries: Iterable[str], root: Path = ROOT) -> dict[Path, Any]:
    """What a compiler reads of each file of these modules, and of those they are built on: ``source_digest.Unit``."""
    package = root / "pyx" / PACKAGE
    found: dict[Path, Any] = {}
    named = [place for name in entries for suffix in SUFFIXES for place in package.rglob(name + suffix)]
    waiting = [path for place in named for path in _files(place, root)]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found[path] = unit_of(path, root)
            if path.suffix in SUFFIXES:
                waiting += [file for place in _references(path, package) for file in _files(place, root)]
    return found


def unit_of(path: Path, root: Path = ROOT) -> Any:
    """The tokens of a file, with those of the headers of ours that it includes."""
    source_digest = backend.load("source_digest")
    folders = [root / name for name in ("cuda", "cpu_reference", "pyx")]  # as setup.py has the compiler look

    def fill(unit: Any) -> None:
        if path.suffix in SUFFIXES:
            unit.files.append(path)
            _take(unit, path, root / "pyx" / PACKAGE)
        else:
            unit.include(path)

    return source_digest.read(fill, folders)


def _files(module: Path, root: Path) -> Iterator[Path]:
    """A module's own, whatever the suffix of its path, and the C++ that goes into it."""
    yield from (path for suffix in SUFFIXES if (path := module.with_suffix(suffix)).exists())
    if module.stem.startswith("_"):
        yield from sorted(module.glob("*.cpp"))
        yield from sorted((root / "cpu_reference").glob(f"**/{module.stem[1:]}/*.cpp"))


def _take(unit: Any, path: Path, package: Path) -> None:
    """Python's lines; for C++ that they bring with them, its tokens."""
    columns: list[int] = []
    in_header = False  # the line before says where C++ comes from, and text after it is C++
    for line in python_code.lines(path.read_text(encoding="utf-8")):
        if line.is_text and in_header:
            unit.take("".join(map(ast.literal_eval, line.tokens)), path)
        elif not line.is_text:
            unit.tokens += python_code.blocks(columns, line.column)
            in_header = line.tokens[1:3] == ("extern", "from")
            named = ast.literal_eval(line.tokens[3]) if in_header and line.tokens[3] != "*" else None
            ours = unit.find(named, path.parent) if named else None
            if ours is not None:
                unit.include(ours)
                unit.tokens += (*line.tokens[:3], *line.tokens[4:], "\n")
            else:
                unit.tokens += (*_without_folders(line.tokens, package), "\n")


def _module(names: Sequence[str], package: Path) -> Path | None:
    """The path of a module, without suffix, by the parts of its name; None for a package and for others' modules."""
    place = package.parent.joinpath(*names)
    known = names[0] == PACKAGE and any(place.with_suffix(suffix).exists() for suffix in SUFFIXES)
    return place if known else None


def _dotted(tokens: Sequence[str], start: int) -> list[str]:
    """The parts of the name that starts there."""
    names = [tokens[start]]
    while tokens[start + 1 : start + 2] == (".",):
        start += 2
        names.append(tokens[start])
    return names


def _without_folders(tokens: tuple[str, ...], package: Path) -> Iterator[str]:
    """The line; if it imports, a module of ours by the last part of its name, and a package of ours as one of any."""
    at = 0
    imports = tokens[0] in ("from", "import", "cimport")
    while at < len(tokens):
        if imports and tokens[at] == PACKAGE and tokens[at - 1] != ".":
            names = _dotted(tokens, at)
            yield names[-1] if _module(names, package) else PACKAGE
            at += 2 * len(names) - 1
        else:
            yield tokens[at]
            at += 1


def _references(path: Path, package: Path) -> Iterator[Path]:
    """Modules that these lines are compiled with, and the plans they call."""
    for line in python_code.lines(path.read_text(encoding="utf-8")):
        tokens = line.tokens
        if tokens[:2] == ("from", PACKAGE):
            names = _dotted(tokens, 1)
            what = 2 * len(names)
            if module := _module(names, package):
                if tokens[what] == "cimport":
                    yield module
            else:
                wanted = (name for name in tokens[what + 1 :] if name.startswith("_") or name.endswith("_plan"))
                yield from (place for name in wanted if (place := _module([*names, name], package)))
