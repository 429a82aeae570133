"""The lexicon of a baseline decoder: spellings from a `Lexicon` or a dictionary, checked once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from arcbeam.graph.token_table import TokenTable


@dataclass(frozen=True)
class Spellings:
    """Words and their spellings, with the names of :class:`arcbeam.recipe.lexicon.Lexicon`."""

    words: tuple[str, ...]
    word_index: npt.NDArray[np.uint32]  # [spellings]
    offsets: npt.NDArray[np.uint32]  # [spellings + 1]
    columns: npt.NDArray[np.uint16]  # [offsets[-1]]
    separator_column: int | None

    @classmethod
    def of(cls, lexicon: Any, tokens: TokenTable) -> Self:
        """From a Lexicon, its file, or a dictionary of words and their tokens; TypeError, ValueError."""
        if isinstance(lexicon, Mapping):
            words, *arrays = _flatten(lexicon, tokens)
            return cls._check(words, arrays, None, tokens)
        if isinstance(lexicon, (str, os.PathLike)):
            from arcbeam.recipe.lexicon import Lexicon

            lexicon = Lexicon.from_file(lexicon, tokens)
        if not all(hasattr(lexicon, name) for name in ("words", "word_index", "offsets", "columns")):
            raise TypeError(f"lexicon: expected a Lexicon, its path, or tokens by word, got {type(lexicon).__name__}")
        arrays = [_integers(name, getattr(lexicon, name)) for name in ("word_index", "offsets", "columns")]
        words = tuple(lexicon.words)
        _check_shapes(words, *arrays)
        return cls._check(words, arrays, getattr(lexicon, "separator_column", None), tokens)

    @classmethod
    def _check(cls, words: tuple[str, ...], arrays: Sequence[Any], separator: int | None, tokens: TokenTable) -> Self:
        word_index, offsets, columns = arrays
        if not len(word_index):
            raise ValueError("lexicon: expected words, got none")

        def owner(position: int) -> str:
            return words[word_index[int(np.searchsorted(offsets, position, side="right")) - 1]]

        if len(empty := np.flatnonzero(offsets[1:] == offsets[:-1])):
            raise ValueError(f"lexicon: expected tokens, got none for the word {words[word_index[empty[0]]]!r}")
        if len(beyond := np.flatnonzero((columns < 0) | (columns >= len(tokens)))):
            raise ValueError(
                f"lexicon: expected columns below {len(tokens)}, got {columns[beyond[0]]} in the word "
                f"{owner(beyond[0])!r}; was it made for other tokens?"
            )
        if len(blanks := np.flatnonzero(columns == tokens.blank)):
            raise ValueError(f"lexicon: expected tokens, got the blank in the word {owner(blanks[0])!r}")
        return cls(
            words,
            np.ascontiguousarray(word_index, np.uint32),
            np.ascontiguousarray(offsets, np.uint32),
            np.ascontiguousarray(columns, np.uint16),
            None if separator is None else int(separator),
        )


def _flatten(lexicon: Mapping[str, Iterable[str]], tokens: TokenTable) -> tuple[tuple[str, ...], Any, Any, Any]:
    """Words of a dictionary, and word_index, offsets and columns of their spellings."""
    columns: list[int] = []
    offsets = [0]
    for word, spelling in lexicon.items():
        if not isinstance(word, str):
            raise TypeError(f"lexicon: expected words as str, got {type(word).__name__} ({word!r})")
        if isinstance(spelling, str | bytes | Mapping | Set) or not isinstance(spelling, Iterable):
            raise TypeError(f"lexicon: expected a sequence of tokens for {word!r}, got {type(spelling).__name__}")
        for token in spelling:
            if not isinstance(token, str):
                raise TypeError(f"lexicon: expected tokens as str, got {type(token).__name__} ({token!r}) in {word!r}")
            if token not in tokens:
                raise ValueError(f"lexicon: expected one of the {len(tokens)} tokens, got {token!r} in {word!r}")
            columns.append(tokens.column(token))
        offsets.append(len(columns))
    return tuple(lexicon), np.arange(len(offsets) - 1), np.array(offsets), np.array(columns, np.int64)


def _integers(name: str, values: Any) -> Any:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise TypeError(f"lexicon.{name}: expected integers in one dimension, got {array.dtype} {list(array.shape)}")
    return array.astype(np.int64)


def _check_shapes(words: tuple[str, ...], word_index: Any, offsets: Any, columns: Any) -> None:
    """ValueError unless every spelling lies within the columns and belongs to a word."""
    if len(offsets) != len(word_index) + 1 or offsets[0] != 0 or offsets[-1] != len(columns):
        raise ValueError(
            f"lexicon: {len(word_index)} spellings, {len(offsets)} offsets and {len(columns)} columns do not fit "
            "together"
        )
    if np.any(offsets[1:] < offsets[:-1]):
        raise ValueError("lexicon: expected ascending offsets, got others")
    if len(word_index) and (word_index.min() < 0 or word_index.max() >= len(words)):
        raise ValueError(f"lexicon: expected the {len(words)} words to be counted from 0, got {word_index.max()}")
