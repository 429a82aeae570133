"""arcbeam's own file format for graphs: a file of sections (`arcbeam.files.section_file`), written and read as a graph.

A damaged file with matching checksums is still harmless: every array is validated before it is used.
"""

import hashlib
import json
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.core.errors import FormatError
from arcbeam.files import section_file
from arcbeam.files._file_map import checksum
from arcbeam.files.kinds import kind_of
from arcbeam.files.reading import reading
from arcbeam.graph import _graph
from arcbeam.graph.open_slot import OpenSlot
from arcbeam.graph.pronunciations import Pronunciations
from arcbeam.graph.symbols import SymbolTable
from arcbeam.graph.token_table import TokenTable

SECTIONS: dict[str, np.dtype[Any]] = {
    "states": _graph.STATE_DTYPE,
    "targets": _graph.TARGET_DTYPE,
    "columns": np.dtype("<u2"),
    "words": np.dtype("<u4"),
    "finals": np.dtype("<f4"),
    "pronunciation.words": np.dtype("<u4"),
    "pronunciation.offsets": np.dtype("<u4"),
    "pronunciation.columns": np.dtype("<u2"),
    "slot.entrances": np.dtype("<u4"),
    "slot.weights": np.dtype("<f4"),
    "slot.exits": np.dtype("<u4"),
    "tokens.ids": np.dtype("<i8"),
    "tokens.offsets": np.dtype("<i8"),
    "tokens.text": np.dtype("u1"),
    "symbols.ids": np.dtype("<i8"),
    "symbols.offsets": np.dtype("<i8"),
    "symbols.text": np.dtype("u1"),
    "about": np.dtype("u1"),
}
TABLE_PARTS = ("ids", "offsets", "text")
PRONUNCIATION_PARTS = ("words", "offsets", "columns")
SLOT_PARTS = ("entrances", "weights", "exits")
ABOUT: dict[str, tuple[type, ...]] = {
    "start": (int,),
    "max_depth": (int,),
    "num_columns": (int,),
    "width_is_exact": (bool,),
    "blank": (int, type(None)),
    "join": (str,),
    "separator": (str, type(None)),
    "separator_column": (int, type(None)),
    "meta": (dict,),
}
KIND = section_file.Kind(
    name="a graph of arcbeam",
    magic=b"\x93ARCBEAM",
    version=1,
    sections=SECTIONS,
    about=ABOUT,
    again="build or import the graph again with this arcbeam",
)


def check_head(path: str | os.PathLike[str], head: bytes) -> None:
    """FormatError unless a file that is none of OpenFst's begins as a graph of arcbeam."""
    if not KIND.begins(head):
        raise FormatError(
            f"{path}: expected a graph of arcbeam or an OpenFst vector or const file, got {kind_of(head)}"
        )


def write(path: str | os.PathLike[str], graph: Any) -> None:
    """Writes a graph; the file appears under its name only when it is complete."""
    section_file.write(path, KIND, sections(graph), facts(graph), graph.check_file)


def sections(graph: Any) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a graph by the names of their sections."""
    arrays: dict[str, npt.NDArray[Any]] = {name: getattr(graph, name) for name in _graph.COLUMNS}
    if graph.pronunciations is not None:
        for part in PRONUNCIATION_PARTS:
            arrays[f"pronunciation.{part}"] = getattr(graph.pronunciations, part)
    if graph.open_slot is not None:
        for part in SLOT_PARTS:
            arrays[f"slot.{part}"] = getattr(graph.open_slot, part)
    if graph.tokens is not None:
        add_table(arrays, "tokens", SymbolTable.from_list(graph.tokens.tokens))
    if graph.word_symbols is not None:
        add_table(arrays, "symbols", graph.word_symbols)
    return arrays


def facts(graph: Any) -> dict[str, Any]:
    """What a file says of a graph besides its arrays."""
    return {name: getattr(graph, name) for name in ABOUT}


def digest(graph: Any) -> str:
    """A digest of all that answers depend on: arrays, symbols and spellings, but not the notes in ``meta``."""
    made = hashlib.blake2b(digest_size=16)
    for name, array in sections(graph).items():
        data = np.ascontiguousarray(array, KIND.sections[name]).view(np.uint8)
        made.update(f"{name} {data.nbytes} {checksum(data)}\n".encode())
    about = {name: value for name, value in facts(graph).items() if name != "meta"}
    made.update(json.dumps(about, sort_keys=True).encode())
    return made.hexdigest()


def add_table(arrays: dict[str, npt.NDArray[Any]], name: str, table: SymbolTable) -> None:
    """Adds the sections of a table."""
    parts: tuple[npt.NDArray[Any], ...] = table.arrays()
    for part, array in zip(TABLE_PARTS, parts, strict=True):
        arrays[f"{name}.{part}"] = array


def read(path: str | os.PathLike[str], *, in_memory: bool = False) -> tuple[dict[str, Any], section_file.Mapped | None]:
    """Maps a file and checks it: the arguments of `Graph`, and the map that has the arrays; None with `in_memory`."""
    with reading(path, KIND.name):
        arrays, about, mapped = section_file.read(path, KIND)
        if not in_memory:
            return read_fields(arrays, about), mapped
        arrays = {name: array.copy() for name, array in arrays.items()}
        mapped.check()
        return read_fields(arrays, about), None


def read_fields(arrays: dict[str, npt.NDArray[Any]], about: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `Graph` from the sections of a file; FormatError or GraphError if they are not valid."""
    check_about(about)
    for name in _graph.COLUMNS:
        if name not in arrays:
            raise FormatError(f"section {name!r} is missing")
    columns = {name: arrays[name] for name in _graph.COLUMNS}
    states, arcs = len(columns["finals"]), len(columns["words"])
    for name, expected in (("states", states + 1), ("targets", arcs), ("columns", arcs)):
        if len(columns[name]) != expected:
            raise FormatError(f"section {name!r} has {len(columns[name])} elements, expected {expected}")
    if not 0 < states <= _graph.MOST_STATES or arcs > _graph.MOST_ARCS:
        raise FormatError(f"{states} states and {arcs} arcs are more than a graph can have")
    for name, most in (("start", states - 1), ("max_depth", states), ("num_columns", _graph.MOST_COLUMNS)):
        if not 0 <= about[name] <= most:
            raise FormatError(f"{name} is {about[name]}; expected 0 to {most}")
    _graph.validate(columns, about["start"], about["max_depth"], about["num_columns"], None)
    tokens = read_table(arrays, "tokens")
    about["tokens"] = None if tokens is None else TokenTable(names_of(tokens), about["blank"])
    about["word_symbols"] = read_table(arrays, "symbols")
    check_columns(about)
    about["pronunciations"] = read_pronunciations(arrays, about["num_columns"])
    about["open_slot"] = read_slot(arrays)
    return {"columns": columns} | about


def check_about(about: dict[str, Any]) -> None:
    """FormatError unless the names are known ones and meta holds plain values."""
    if about["join"] not in ("words", "pieces"):
        raise FormatError(f"join is {about['join']!r}; expected 'words' or 'pieces'")
    for key, value in about["meta"].items():
        if not isinstance(value, (str, int, float)):
            raise FormatError(f"meta {key!r} is {value!r}; expected text or a number")


def read_table(arrays: dict[str, npt.NDArray[Any]], name: str) -> SymbolTable | None:
    """A symbol table from its sections, or None if the file has none."""
    parts = [arrays.get(f"{name}.{part}") for part in TABLE_PARTS]
    if all(part is None for part in parts):
        return None
    ids, offsets, text = parts
    if ids is None or offsets is None or text is None:
        raise FormatError(f"a section of the table {name!r} is missing")
    table = SymbolTable(ids, offsets, text)
    table.check()
    return table


def names_of(tokens: SymbolTable) -> list[str]:
    """The tokens by column; FormatError if one occurs twice."""
    names = list(tokens)
    columns: dict[str, int] = {}
    for column, name in enumerate(names):
        if columns.setdefault(name, column) != column:
            raise FormatError(f"token {name!r} occurs twice, in columns {columns[name]} and {column}")
    return names


def check_columns(about: dict[str, Any]) -> None:
    """FormatError unless the columns that `about` names exist."""
    width = about["num_columns"]
    if about["tokens"] is not None and len(about["tokens"]) != width:
        raise FormatError(f"the table of tokens has {len(about['tokens'])} entries, expected {width}")
    for name in ("blank", "separator_column"):
        if about[name] is not None and not 0 <= about[name] < max(width, 1 if about["width_is_exact"] else 1 << 16):
            raise FormatError(f"{name} is {about[name]}, but there are {width} columns")


def read_pronunciations(arrays: dict[str, npt.NDArray[Any]], num_columns: int) -> Pronunciations | None:
    """Pronunciations from their sections, or None if the file has none."""
    parts = {part: arrays.get(f"pronunciation.{part}") for part in PRONUNCIATION_PARTS}
    if all(part is None for part in parts.values()):
        return None
    if any(part is None for part in parts.values()):
        raise FormatError("a section of the pronunciations is missing")
    pronunciations = Pronunciations(**parts)  # type: ignore[arg-type]
    pronunciations.check(num_columns)
    return pronunciations


def read_slot(arrays: dict[str, npt.NDArray[Any]]) -> OpenSlot | None:
    """The open slot from its sections, or None if the file has none; `Graph` checks it."""
    parts = [arrays[f"slot.{part}"] for part in SLOT_PARTS if f"slot.{part}" in arrays]
    if not parts:
        return None
    if len(parts) != len(SLOT_PARTS):
        raise FormatError("a section of the open slot is missing")
    return OpenSlot(*parts)
