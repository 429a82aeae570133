"""Lines of a text, and the runs of words in a line."""

import lzma
from collections.abc import Iterator
from itertools import islice
from pathlib import Path


def text_lines(path: str | Path, first: int = 0, last: int | None = None) -> Iterator[str]:
    """Lines [first, last) of a text, plain or .xz."""
    opener = lzma.open if str(path).endswith(".xz") else open
    with opener(path, "rt", encoding="utf-8") as file:
        yield from (line.strip() for line in islice(file, first, last))


def runs(text: str, count: int) -> list[str]:
    """All runs of so many words."""
    words = text.split()
    return [" ".join(words[i : i + count]) for i in range(len(words) - count + 1)]
