"""Text that is made of pieces."""

from __future__ import annotations

from collections.abc import Container


def stuck_at(text: str, pieces: Container[str], longest: int, mark: str | None) -> str:
    """What no way of cutting a text into pieces gets beyond: a character, with the mark of a word's start before it.

    `longest` is the number of characters of the longest piece.
    """
    reached = [True] + [False] * len(text)
    for end in range(1, len(text) + 1):
        reached[end] = any(reached[at] and text[at:end] in pieces for at in range(max(0, end - longest), end))
    furthest = max(at for at, is_reached in enumerate(reached) if is_reached)
    return text[furthest : furthest + (2 if text[furthest] == mark else 1)]
