"""Words from the pieces of a tokenizer."""

from __future__ import annotations


def join_pieces(pieces: list[str], separator: str | None) -> list[tuple[str, int, int]]:
    """Puts words together from pieces: (word, index of its first piece, index of its last).

    A piece that starts with the separator opens a word; one that is the separator alone only ends the word before.
    """
    words: list[tuple[str, int, int]] = []
    open_word = False
    for i, piece in enumerate(pieces):
        opens = separator is not None and piece.startswith(separator)
        rest = piece[len(separator) :] if opens and separator is not None else piece
        if opens:
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
