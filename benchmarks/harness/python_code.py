"""Tokens of Python and Cython without comments, docstrings and wrapping, the same under every version of Python."""

import re
from dataclasses import dataclass
from functools import cache

_OPERATORS = "**= //= >>= <<= ... -> := ** // << >> <= >= == != += -= *= /= %= &= |= ^= @="
_TOKEN = re.compile(
    r"""
      (?P<string> [A-Za-z]{0,2} (?: (?P<quotes>\"{3}|'{3}) (?:\\.|[^\\])*? (?P=quotes)
                                  | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' ) )
    | (?P<directive> \#[ \t]*(?:cython|distutils)[ \t]*:[^\n]* )
    | (?P<remark> \#[^\n]* | \\\n | [^\S\n]+ )
    | (?P<newline> \n )
    | (?P<number> 0[xX]\w+ | \.?\d(?:[eE][-+]\d|[\w.])* )
    | (?P<name> [^\W\d]\w* )
    | (?P<operator> OPERATORS )
    | (?P<other> . )
    """.replace("OPERATORS", "|".join(map(re.escape, _OPERATORS.split()))),
    re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True)
class Line:
    """What is one statement, or its head: the column where it starts, and its tokens."""

    column: int
    tokens: tuple[str, ...]

    @property
    def is_text(self) -> bool:
        """Whether it is a string that nothing uses, as a docstring is."""
        return all(re.match(r"[bruBRU]*[\"']", token) for token in self.tokens)


@cache
def lines(text: str) -> tuple[Line, ...]:
    """Logical lines, with docstrings and without remarks; a comment that directs Cython is a line."""
    made: list[Line] = []
    tokens: list[str] = []
    depth, column = 0, 0
    text = text.replace("\r\n", "\n")
    start = 0  # of the physical line
    for found in _TOKEN.finditer(text):
        kind, token = found.lastgroup, found[0]
        if kind == "newline":
            start = found.end()
            if not depth and tokens:
                made.append(Line(column, tuple(tokens)))
                tokens = []
        elif kind != "remark":
            if not tokens:
                column = len(text[start : found.start()].expandtabs())
            depth += (token in ("(", "[", "{")) - (token in (")", "]", "}"))
            tokens.append("".join(token.split()) if kind == "directive" else token)
    if tokens:
        made.append(Line(column, tuple(tokens)))
    return tuple(made)


def blocks(columns: list[int], column: int) -> list[str]:
    """Tokens for blocks that end and begin before a line at this column; ``columns``, of open blocks, follows."""
    made = []
    while columns and column < columns[-1]:
        columns.pop()
        made.append("\n<")
    if column > (columns[-1] if columns else 0):
        columns.append(column)
        made.append("\n>")
    return made
