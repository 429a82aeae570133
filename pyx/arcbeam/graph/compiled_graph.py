"""The arrays of a compiled graph and what is known of them, checked against each other."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from arcbeam.core.calls import lists_options
from arcbeam.core.errors import GraphError
from arcbeam.files.section_file import Mapped
from arcbeam.graph import _graph
from arcbeam.graph.inputs import Wording, WordingKeywords, blank_column, check_words, separator_column
from arcbeam.graph.open_slot import OpenSlot
from arcbeam.graph.symbols import SymbolTable
from arcbeam.graph.token_table import TokenTable

#: The arguments of `Graph` besides its columns; each is an attribute, too.
FIELDS = (
    "start", "max_depth", "num_columns", "width_is_exact", "tokens", "word_symbols", "blank", "pronunciations", "join",
    "separator", "separator_column", "meta", "open_slot",
)  # fmt: skip


class CompiledGraph:
    """The columns of a graph, its fields, and the file that they are mapped from; `Graph` says what each is."""

    states: npt.NDArray[Any]
    targets: npt.NDArray[Any]
    columns: npt.NDArray[np.uint16]
    words: npt.NDArray[np.uint32]
    finals: npt.NDArray[np.float32]

    @lists_options(Wording, opened_by="Graph.load")
    def __init__(
        self,
        columns: Mapping[str, npt.NDArray[Any]],
        *,
        start: int,
        max_depth: int,
        num_columns: int,
        width_is_exact: bool = False,
        tokens: TokenTable | None = None,
        word_symbols: SymbolTable | None = None,
        blank: str | int | None = None,
        open_slot: OpenSlot | None = None,
        **wording: Unpack[WordingKeywords],
    ) -> None:
        said = Wording(**wording)
        for name in _graph.COLUMNS:
            array = columns[name]
            array.flags.writeable = False
            setattr(self, name, array)
        self.start = int(start)
        self.num_states = len(self.finals)
        self.num_arcs = len(self.words)
        self.max_depth = int(max_depth)
        self.num_columns = int(num_columns)
        self.width_is_exact = bool(width_is_exact)
        self.tokens = tokens
        self.word_symbols = word_symbols
        self.blank = blank_column(tokens, blank, self.num_columns, self.width_is_exact)
        self.pronunciations = pronunciations = said.pronunciations
        self.join = said.join
        self.separator = said.separator
        found = said.separator_column
        self.separator_column = separator_column(tokens, self.separator) if found is None else found
        self.meta: dict[str, str | int | float] = dict(said.meta or {})
        self.open_slot = open_slot
        self._file: tuple[str, bytes] | None = None  # path and head of the file that the graph is mapped from
        self._map: Mapped | None = None
        if tokens is not None and len(tokens) != self.num_columns:
            raise ValueError(f"tokens: expected {self.num_columns} columns, got {len(tokens)}")
        if pronunciations is not None:
            pronunciations.check(self.num_columns)
            for array in (pronunciations.words, pronunciations.offsets, pronunciations.columns):
                array.flags.writeable = False
        if word_symbols is not None:
            check_words(self._columns(), word_symbols)
        if open_slot is not None:
            if word_symbols is None or self.join == "pieces":
                raise GraphError("open_slot: expected a graph of words with word symbols, got one without")
            open_slot.check(self.states, self.num_states)
            for array in (open_slot.entrances, open_slot.weights, open_slot.exits):
                array.flags.writeable = False

    def check_file(self) -> None:
        """FormatError if the file that the graph is mapped from has been changed in place."""
        if self._map is not None:
            self._map.check()

    @cached_property
    def word_marks(self) -> npt.NDArray[np.uint8]:
        """uint8 [num_arcs / 8, rounded up]: a bit for each arc, the lowest first, that says whether it writes a word.

        Few arcs do, and the bits of all lie in a cache, which `words` does not.
        """
        return np.packbits(self.words != 0, bitorder="little")

    @property
    def weights(self) -> npt.NDArray[np.float32]:
        """float32 [num_arcs]: the weights of the arcs."""
        weights: npt.NDArray[np.float32] = self.targets["weight"]
        return weights

    def fields(self) -> dict[str, Any]:
        """The arguments that make an equal graph."""
        return {"columns": self._columns()} | {name: getattr(self, name) for name in FIELDS}

    def _columns(self) -> dict[str, npt.NDArray[Any]]:
        return {name: getattr(self, name) for name in _graph.COLUMNS}
