"""A digest of C++ and CUDA as a compiler reads it: comments, white space and the places of our own files do not count.

No conditions are decided: the code of all branches counts, and headers of others by their names.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

_SPLICE = "\0"  # stands for a backslash at the end of a line, which is no part of the code but in a raw string
_OPERATORS = (
    "%:%: <<= >>= <=> <<< >>> ->* ... :: .* -> ++ -- << >> <= >= == != && || += -= *= /= %= &= |= ^= ## <: :> <% %> %:"
)
_TOKEN = re.compile(
    r"""
      (?P<raw> (?:u8|[uUL])? R"(?P<fence>[^\s()\\]*) \( .*? \) (?P=fence) " \w* )
    | (?P<comment> /\0*/ [^\n]* | /\0*\* .*? \*\0*/ )
    | (?P<literal> (?:u8|[uUL])? (?: "(?:\\\0*.|[^"\\\n])*" | '(?:\\\0*.|[^'\\\n])*' ) \w* )
    | (?P<number> \.?\d (?: [eEpP]\0*[-+] | \0*'\0*\w | [\w.\0] )* )
    | (?P<name> (?:[^\W\d]|\$) [\w$\0]* )
    | (?P<newline> \n )
    | (?P<blank> [^\S\n] | \0 )
    | (?P<operator> <(?=::[^:>]) | OPERATORS )
    | (?P<other> . )
    """.replace("OPERATORS", "|".join(r"\0*".join(map(re.escape, name)) for name in _OPERATORS.split())),
    re.DOTALL | re.VERBOSE,
)
_HEADER = re.compile(r"<[^>\n]*>")  # after #include one token, in which white space counts
_INCLUDING = [["include"], ["include_next"], ["import"], ["embed"]]
_LINE = "\n"  # where a preprocessor line begins and ends


@dataclass(frozen=True)
class Line:
    """The tokens of a preprocessor line, or of the code between two such lines; a blank is " "."""

    tokens: tuple[str, ...]
    is_directive: bool = False


@cache
def lines(text: str, blanks: bool = False) -> tuple[Line, ...]:
    """The code of a file, and its preprocessor lines; ``blanks`` tells also where white space is."""
    text = text.replace("\r\n", "\n").replace("\\\n", _SPLICE)
    made: list[Line] = []
    tokens: list[str] = []
    in_directive, starts_line, after_blank = False, True, False
    at = 0
    while at < len(text):
        header = _HEADER.match(text, at) if in_directive and tokens[1:] in _INCLUDING else None
        found = header or _TOKEN.match(text, at)
        assert found is not None  # some character matches always
        at = found.end()
        kind = "header" if header else found.lastgroup
        if kind == "newline":
            if in_directive:
                made.append(Line(tuple(tokens), is_directive=True))
                tokens, in_directive = [], False
            starts_line = True
        if kind in ("newline", "blank", "comment"):
            after_blank = True
            continue
        token = found[0].replace(_SPLICE, "\\\n" if kind == "raw" else "")
        if token in ("#", "%:") and starts_line:
            made.append(Line(tuple(tokens)))
            tokens, in_directive = [], True
        # The name of a macro with arguments, and that of one whose text starts with a parenthesis.
        if in_directive and tokens[1:] == ["define"] and text.startswith("(", at):
            token += "("
        if blanks and after_blank and len(tokens) >= (3 if in_directive else 1):
            tokens.append(" ")
        tokens.append(token)
        starts_line = after_blank = False
    made.append(Line(tuple(tokens), in_directive))
    return tuple(line for line in made if line.tokens)


@dataclass
class Unit:
    """The tokens of a translation unit, and the files they come from."""

    folders: Sequence[Path]
    blanks: bool = False
    tokens: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    stringifies: bool = False  # a macro makes text of its arguments, in which white space counts
    _once: set[Path] = field(default_factory=set)
    _conditions: list[int] = field(default_factory=list)  # a number for each branch around what is read
    _branches: int = 0
    _places: dict[Path, tuple[list[int], int]] = field(default_factory=dict)  # of first inclusions
    _ends: dict[Path, int] = field(default_factory=dict)
    _open: set[Path] = field(default_factory=set)
    _found: dict[tuple[str, Path | None], Path | None] = field(default_factory=dict)

    def find(self, name: str, beside: Path | None) -> Path | None:
        """The file of ours that an include names: next to the one that includes it, or in the folders."""
        if (name, beside) not in self._found:
            places = [folder / name for folder in ([] if beside is None else [beside]) + list(self.folders)]
            self._found[name, beside] = next((place.resolve() for place in places if place.is_file()), None)
        return self._found[name, beside]

    def include(self, path: Path) -> None:
        """A file of ours, as ``#include`` has it read."""
        if path in self._once or path in self._open:
            conditions, start = self._places[path]
            # It says nothing where the first inclusion holds whenever this one does; else it says which text comes.
            if path not in self._once or self._conditions[: len(conditions)] != conditions:
                self.tokens.append(f"\ninclude {start} {self._ends.get(path)}")
            return
        if path not in self._places:
            self._places[path] = list(self._conditions), len(self.tokens)
            self.files.append(path)
        self._open.add(path)
        self.take(path.read_text(encoding="utf-8"), path)
        self._open.remove(path)
        self._ends[path] = len(self.tokens)

    def take(self, text: str, path: Path) -> None:
        """Text that stands in this file."""
        for line in lines(text, self.blanks):
            if line.is_directive:
                self._direct(line.tokens, path)
            else:
                self.tokens += line.tokens

    def _direct(self, tokens: tuple[str, ...], path: Path) -> None:
        what = tokens[1] if len(tokens) > 1 else ""
        if what == "pragma" and tokens[2:] == ("once",):
            self._once.add(path)
            return
        if [what] in _INCLUDING:
            if what != "include" or len(tokens) != 3 or tokens[2][0] not in '"<':
                # What comes of it would be missing.
                said = " ".join(tokens[1:])
                raise ValueError(f'{path}: expected #include "FILE" or #include <FILE>, got #{said}: name the file')
            ours = self.find(tokens[2][1:-1], path.parent if tokens[2][0] == '"' else None)
            if ours is not None:
                self.include(ours)
                return
        if what.startswith("el") or what == "endif":
            del self._conditions[-1:]
        if what.startswith(("if", "el")):
            self._branches += 1
            self._conditions.append(self._branches)
        if what == "define" and tokens[2:] and tokens[2].endswith("(") and "#" in tokens[3:]:
            self.stringifies = True
        self.tokens += (_LINE, *tokens, _LINE)


def read(fill: Callable[[Unit], None], folders: Sequence[Path]) -> Unit:
    """A unit that ``fill`` has read; its white space counts where macros make text of code."""
    unit = Unit(folders)
    fill(unit)
    if unit.stringifies:
        unit = Unit(folders, blanks=True)
        fill(unit)
    return unit


def unit_of(path: Path, folders: Sequence[Path]) -> Unit:
    """A source file with all of ours that it includes; ValueError where only a compiler knows what is included."""
    return read(lambda unit: unit.include(path), folders)


def digest(tokens: Iterable[str]) -> str:
    """SHA-256 of tokens."""
    return hashlib.sha256("\0".join(tokens).encode()).hexdigest()
