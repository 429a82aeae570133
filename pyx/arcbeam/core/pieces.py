"""Words and texts that are made of the pieces of a tokenizer."""

from __future__ import annotations

from collections.abc import Container, Sequence


def split_piece(piece: str, separator: str | None) -> tuple[bool, str]:
    """Whether a piece ends the word before it, and what it adds to a word, or begins one with; "" for nothing."""
    ends = separator is not None and piece.startswith(separator)
    return ends, piece[len(separator) :] if ends and separator is not None else piece


def join_pieces(pieces: Sequence[str], separator: str | None) -> list[tuple[str, int, int]]:
    """Words of pieces: (word, its first piece, its last); the separator opens a word, or alone ends the one before."""
    words: list[tuple[str, int, int]] = []
    open_word = False
    for i, piece in enumerate(pieces):
        ends, rest = split_piece(piece, separator)
        if ends:
            open_word = False
        if not rest:
            continue
        if open_word:
            word, first, _ = words[-1]
            words[-1] = (word + rest, first, i)
        else:
            words.append((rest, i, i))
        open_word = True
    return words


def stuck_at(text: str, pieces: Container[str], longest: int, mark: str | None) -> str:
    """What no way of cutting a text gets beyond: a character, with the mark of a word's start before it."""
    reached = [True] + [False] * len(text)
    for end in range(1, len(text) + 1):
        reached[end] = any(reached[at] and text[at:end] in pieces for at in range(max(0, end - longest), end))
    furthest = max(at for at, is_reached in enumerate(reached) if is_reached)
    return text[furthest : furthest + (2 if text[furthest] == mark else 1)]
