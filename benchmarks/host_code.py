"""The code around the kernels, by whose digest a result of a GPU tells that its figures may be others by now.

It is what drives the kernels: Cython modules with all that is compiled into them, and the plans of launches. What is
said of it in comments and docstrings does not count. Other code of arcbeam, and that of the benchmarks, is not looked
at, so no such digest proves that a figure stands; the commit of a result is the whole truth.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON, HEADERS = ROOT / "pyx" / "arcbeam", ("cpu_reference", "pyx/arcbeam", "cuda")
TRANSDUCER = ("_transducer_cuda",)
SEARCH = ("_decode_cuda", "device_layout", "lm_placement")
_MODULES = re.compile(r"^\s*from arcbeam\.(\w+) cimport|^\s*from arcbeam (?:c?import) (.+)$", re.MULTILINE)
_HEADERS = re.compile(r'(?:extern from|#include) "([^"]+)"')
_REMARKS = {
    ".py": r'""".*?"""|#[^\n]*',
    ".hpp": r"//[^\n]*",
}
_REMARKS |= {".pyx": _REMARKS[".py"], ".pxd": _REMARKS[".py"], ".cpp": _REMARKS[".hpp"]}


def digest(kernels: Iterable[str]) -> str:
    """Of what drives the kernels of these fatbins."""
    entries = {name for kernel in kernels for name in (TRANSDUCER if kernel == "transducer" else SEARCH)}
    found = hashlib.sha256()
    for path in sources(entries):
        found.update(f"{path.relative_to(ROOT).as_posix()}\n{code(path)}\n".encode())
    return found.hexdigest()


def code(path: Path) -> str:
    """Its lines without remarks, blanks around them, and empty ones."""
    text = re.sub(_REMARKS[path.suffix], "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


def sources(entries: Iterable[str]) -> list[Path]:
    """Files of these modules of arcbeam, and what they are compiled with."""
    found: set[Path] = set()
    waiting = [path for name in entries for path in _files(name)]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += _references(path)
    return sorted(found)


def _files(module: str) -> Iterator[Path]:
    """A module's own, and the C++ that goes into it."""
    yield from (path for suffix in (".py", ".pyx", ".pxd") if (path := PYTHON / f"{module}{suffix}").exists())
    if module.startswith("_"):
        yield from sorted((ROOT / "cpu_reference" / module[1:]).glob("*.cpp"))


def _references(path: Path) -> Iterator[Path]:
    text = path.read_text(encoding="utf-8")
    for module, names in _MODULES.findall(text):
        for name in [module] if module else re.findall(r"\w+", names):
            if name.startswith("_") or name.endswith("_plan"):
                yield from _files(name)
    for name in _HEADERS.findall(text):
        # What is in cuda/ and no .hpp is of kernels, which have digests of their own.
        yield from (file for folder in HEADERS if (file := ROOT / folder / name).exists() and file.suffix == ".hpp")
