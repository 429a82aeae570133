"""The tokens of a model: what its columns are called, and how it cuts a word into them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from arcbeam.core.warn import warn
from arcbeam.graph.token_table import BLANK_NAMES, TokenTable, find_blank

WORD_START = "\u2581"  # SentencePiece's mark of a word's first piece
INSIDE_WORD = "##"  # WordPiece's mark of all pieces but a word's first
NAMED_BLANK = "<blank>"

Cut = Callable[[str], Sequence[str] | None]


@dataclass(frozen=True)
class Cutter:
    """Cuts words into pieces; `identity` is equal for two of them if they cut alike."""

    cut: Cut
    identity: str


@dataclass(frozen=True)
class ModelTokens:
    """The tokens of a model, in the order of its columns."""

    names: tuple[str, ...]
    source: str  # what messages call it
    blank: str | int | None = None  # if the format says so; a column after the last token is the blank's own
    word_delimiter: str | None = None  # if the format says so
    cutter: Cutter | None = None  # None: words are spelled by characters
    frame_shift: float | None = None  # seconds, if the model says so


def digest_of(content: bytes) -> str:
    """An identity of what `content` holds."""
    return hashlib.sha256(content).hexdigest()


def table_of(tokens: ModelTokens, blank: str | int | None) -> TokenTable:
    """The table of a model's columns, with its blank; ValueError unless that is known."""
    names, source = tokens.names, tokens.source
    blank = tokens.blank if blank is None else blank
    if blank == len(names) and not isinstance(blank, str):
        if NAMED_BLANK in names:
            raise ValueError(
                f"blank: expected column {names.index(NAMED_BLANK)}, whose token is {NAMED_BLANK!r}, got {blank}, the "
                "column after the last token"
            )
        return TokenTable.from_list([*names, NAMED_BLANK], len(names))
    return TokenTable.from_list(names, _blank_of(names, source) if blank is None else blank)


def _blank_of(names: Sequence[str], source: str) -> int:
    try:
        found = find_blank(names, None)
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None
    if found is None and names[0] == "-" and "|" in names:  # the labels of torchaudio's models
        warn(f"{source}: the blank is taken to be '-', column 0, because no token has a usual name of it; blank= says")
        found = 0
    if found is None:
        usual = ", ".join(sorted(BLANK_NAMES))
        raise ValueError(
            f"{source}: expected a token that is the blank ({usual}), got none among {len(names)}; give blank=, its "
            f"token or its column: blank={len(names)} if it is the column after the last token, as in NeMo"
        )
    return found


def with_marked_starts(table: TokenTable) -> TokenTable:
    """Pieces of WordPiece with the mark of SentencePiece, so that they can be put together; others as they are."""
    if not any(map(_is_inside, table.tokens)):
        return table
    marked = [name.removeprefix(INSIDE_WORD) if _is_inside(name) else WORD_START + name for name in table.tokens]
    return TokenTable.from_list(marked, table.blank)


def _is_inside(name: str) -> bool:
    return name.startswith(INSIDE_WORD) and name != INSIDE_WORD


def with_marked_pieces(tokens: ModelTokens) -> ModelTokens:
    """The same; tokens with marks of pieces get a cutter if their format has none: the longest piece first."""
    if tokens.cutter is not None:
        return tokens
    known = frozenset(tokens.names)
    if any(map(_is_inside, known)):  # WordPiece's own rule
        return replace(tokens, cutter=Cutter(lambda word: longest_pieces(word, known, "", INSIDE_WORD), "wordpiece"))
    if any(name.startswith(WORD_START) and name != WORD_START for name in known):
        return replace(tokens, cutter=Cutter(_warned(known, tokens.source), "longest"))
    return tokens


def _warned(known: frozenset[str], source: str) -> Cut:
    """Cuts by the longest piece, which is a guess, and says so at the first word."""
    said: list[bool] = []

    def cut(word: str) -> list[str] | None:
        if not said:
            said.append(True)
            warn(
                f"{source}: words are cut into the longest pieces, because there is no model that cuts them; the "
                "acoustic model may write other pieces: give the SentencePiece model as tokens, or a lexicon"
            )
        return longest_pieces(WORD_START + word, known, "", "")

    return cut


def longest_pieces(word: str, known: frozenset[str], first: str, inside: str) -> list[str] | None:
    """A word as pieces, each the longest that fits, with the marks of the first and of the others; None if none."""
    pieces, begin, longest = list[str](), 0, max(map(len, known))
    while begin < len(word):
        mark = inside if begin else first
        for end in range(min(len(word), begin + longest), begin, -1):
            if mark + word[begin:end] in known:
                break
        else:
            return None
        pieces.append(mark + word[begin:end])
        begin = end
    return pieces
