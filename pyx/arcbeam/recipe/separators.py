"""What stands between words, or at their beginnings, in the tokens of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from arcbeam.core.warn import warn

if TYPE_CHECKING:
    from arcbeam.graph.token_table import TokenTable

WORD_START = "\u2581"  # SentencePiece's mark of a word's first piece
MOST_CANDIDATES = 5  # tokens that a message offers as the separator
MAY_BE = ("space", "sp", "sil", "_", "~")  # names that a separator may have, in brackets or not
_SEPARATORS = ("<space>", " ", "|", WORD_START, "<sp>", "[SPACE]", "<SPACE>")


def find_separator(tokens: TokenTable) -> str | None:
    """The token between words, or SentencePiece's mark if tokens begin with it, or None; ValueError for several.

    The blank is never the token between words.
    """
    column = column_finder(tokens)
    if any(token.startswith(WORD_START) and token != WORD_START for token in tokens.tokens):
        return WORD_START
    found = [s for s in _SEPARATORS if column(s) not in (None, tokens.blank)]
    if len(found) > 1:
        raise ValueError(f"expected one separator between words, got {found}: name the right one")
    return found[0] if found else None


def warn_of_another_name(tokens: TokenTable, name: str) -> None:
    """Warns if none of the tokens has a usual name of the separator, but one is likely to be it; `name`: its option."""
    found = [token for token in tokens.tokens if token.lower().strip("<>[]") in MAY_BE]
    found = [token for token in dict.fromkeys(found) if not is_blank(tokens, token)]
    if len(found) == 1:
        warn(
            f"{name}: no token has a usual name of the separator between words; is it {found[0]!r}? "
            f"{name}={found[0]!r} names it; without a separator words are found without a pause between them"
        )


def separator_of(tokens: TokenTable, separator: str | None) -> str | None:
    """The separator of pieces, which `find_separator` finds for "auto"; ValueError unless tokens begin with it."""
    if separator == "auto":
        return find_separator(tokens)
    if separator is not None and not isinstance(separator, str):
        raise TypeError(f'separator: expected a token, a mark, "auto" or None, got {type(separator).__name__}')
    if separator is not None:
        check_is_not_blank(tokens, separator)
    if separator is not None and not (separator and any(token.startswith(separator) for token in tokens.tokens)):
        column_of_separator(tokens, separator)
    return separator


def is_blank(tokens: TokenTable, separator: str) -> bool:
    """Whether a separator is the blank."""
    column = column_finder(tokens)(separator)
    return column is not None and column == tokens.blank


def check_is_not_blank(tokens: TokenTable, separator: str, name: str = "separator") -> None:
    """ValueError if the separator that a caller gives is the blank, which no path writes."""
    if is_blank(tokens, separator):
        raise ValueError(f"{name}: expected the token between words, got {separator!r}, which is the blank")


def column_of_separator(tokens: TokenTable, separator: str) -> int:
    """The column of the token between words; ValueError that lists the tokens that may be meant."""
    column = column_finder(tokens)
    found = column(separator)
    if found is not None:
        return found
    likely = [s for s in _SEPARATORS if column(s) is not None] or [
        token for token in tokens.tokens if not any(map(str.isalnum, token)) and column(token) != tokens.blank
    ]
    if likely:
        may_be = ", ".join(f"{token!r} (column {column(token)})" for token in likely[:MOST_CANDIDATES])
        hint = f"; it may be {may_be}"
    else:
        hint = "; none of the tokens looks like one: leave the separator out, or give the file of the model's tokens"
    raise ValueError(f"separator: expected one of the {len(tokens):,} tokens, got {separator!r}{hint}")


def column_finder(tokens: TokenTable) -> Callable[[str], int | None]:
    """A function that gives the first column of a token, or None."""
    columns: dict[str, int] = {}
    for column, token in enumerate(tokens.tokens):
        columns.setdefault(token, column)
    return columns.get
