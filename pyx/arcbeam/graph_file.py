"""arcbeam's own file format for graphs: what is where, writing, and memory-mapped reading.

Little endian throughout::

    header    64 bytes   magic (8 bytes), version u4, number of sections u4, size of the file u8,
                         checksum of the section table u8, checksum of the 32 bytes before it u8, zeros
    sections  64 bytes each: name (32 bytes, padded with zeros), offset u8, size u8, checksum u8, zeros
    data      the sections, each at a multiple of 64 bytes, zeros between them

A section is one array of `SECTIONS`, or ``about``: a JSON object with the numbers and names that are no arrays.
Checksums find accidents. A file whose checksums were made to fit its damage is still harmless: every array is
validated before it is used, as arcs from elsewhere are.
"""

import json
import mmap
import os
import secrets
import struct
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from arcbeam import _graph
from arcbeam.errors import FormatError, GraphError
from arcbeam.pronunciations import Pronunciations
from arcbeam.symbols import SymbolTable, TokenTable

MAGIC = b"\x93ARCBEAM"
VERSION = 1
HEADER = struct.Struct("<8sIIQQQ24x")
SECTION = struct.Struct("<32sQQQ8x")
HEADER_USED = 40  # bytes of the header that are not zeros to the end
SEALED = 32  # bytes of the header that its own checksum covers
ALIGNMENT = 64
MOST_SECTIONS = 64

SECTIONS: dict[str, np.dtype[Any]] = {
    "states": _graph.STATE_DTYPE,
    "targets": _graph.TARGET_DTYPE,
    "columns": np.dtype("<u2"),
    "words": np.dtype("<u4"),
    "finals": np.dtype("<f4"),
    "pronunciation.words": np.dtype("<u4"),
    "pronunciation.offsets": np.dtype("<u4"),
    "pronunciation.columns": np.dtype("<u2"),
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


def is_ours(head: bytes) -> bool:
    """Whether a file that begins so is one of these."""
    return head[: len(MAGIC)] == MAGIC


def write(path: str | os.PathLike[str], graph: Any) -> None:
    """Writes a graph; the file appears under its name only when it is complete."""
    arrays: dict[str, npt.NDArray[Any]] = {name: getattr(graph, name) for name in _graph.COLUMNS}
    if graph.pronunciations is not None:
        for part in PRONUNCIATION_PARTS:
            arrays[f"pronunciation.{part}"] = getattr(graph.pronunciations, part)
    if graph.tokens is not None:
        add_table(arrays, "tokens", SymbolTable.from_list(graph.tokens.tokens))
    if graph.word_symbols is not None:
        add_table(arrays, "symbols", graph.word_symbols)
    about = {name: getattr(graph, name) for name in ABOUT}
    text = json.dumps(about, ensure_ascii=False, sort_keys=True)
    arrays["about"] = np.frombuffer(text.encode(), np.uint8)

    path = os.fspath(path)
    folder, name = os.path.split(path)
    partial = os.path.join(folder, f".{name}.{secrets.token_hex(4)}.partial")
    try:
        with open(partial, "xb") as out:
            write_sections(out, arrays)
        os.replace(partial, path)
    except BaseException:
        if os.path.exists(partial):
            os.unlink(partial)
        raise


def add_table(arrays: dict[str, npt.NDArray[Any]], name: str, table: SymbolTable) -> None:
    """Adds the sections of a table."""
    parts: tuple[npt.NDArray[Any], ...] = table.arrays()
    for part, array in zip(TABLE_PARTS, parts, strict=True):
        arrays[f"{name}.{part}"] = array


def write_sections(out: IO[bytes], arrays: dict[str, npt.NDArray[Any]]) -> None:
    """Writes header, section table and sections."""
    offset = aligned(HEADER.size + SECTION.size * len(arrays))
    table = b""
    placed: list[tuple[int, npt.NDArray[np.uint8]]] = []
    end = offset
    for name, array in arrays.items():
        data = np.ascontiguousarray(array, SECTIONS[name]).view(np.uint8)
        table += SECTION.pack(name.encode(), offset, data.nbytes, _graph.checksum(data))
        placed.append((offset, data))
        end = offset + data.nbytes
        offset = aligned(end)
    out.write(seal_header(len(arrays), end, table) + table)
    for at, data in placed:
        out.write(bytes(at - out.tell()))
        out.write(data.data)


def seal_header(sections: int, size: int, table: bytes) -> bytes:
    """A header with its checksums."""
    sealed = HEADER.pack(MAGIC, VERSION, sections, size, _graph.checksum(table), 0)[:SEALED]
    return HEADER.pack(MAGIC, VERSION, sections, size, _graph.checksum(table), _graph.checksum(sealed))


def aligned(offset: int) -> int:
    """The next multiple of the alignment."""
    return -(-offset // ALIGNMENT) * ALIGNMENT


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Maps a file and checks it; returns the arguments of `Graph`, whose arrays lie in the map.

    Raises
    ------
    FormatError
        The file is of another kind or version, truncated or corrupted.
    GraphError
        The graph in it breaks a rule, which only a forged file does.
    OSError
        The file cannot be read.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < HEADER.size:
            raise FormatError(f"{path}: expected a graph of arcbeam with a header of {HEADER.size} bytes, got {size}")
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if hasattr(data, "madvise"):
        data.madvise(mmap.MADV_WILLNEED)
    arrays = read_sections(path, data, len(data))
    about = read_about(path, arrays.pop("about").tobytes())
    for name in _graph.COLUMNS:
        if name not in arrays:
            raise FormatError(f"{path}: section {name!r} is missing")
    columns = {name: arrays[name] for name in _graph.COLUMNS}
    states, arcs = len(columns["finals"]), len(columns["words"])
    for name, expected in (("states", states + 1), ("targets", arcs), ("columns", arcs)):
        if len(columns[name]) != expected:
            raise FormatError(f"{path}: section {name!r} has {len(columns[name])} elements, expected {expected}")
    if not 0 < states <= _graph.MOST_STATES or arcs > _graph.MOST_ARCS:
        raise FormatError(f"{path}: {states} states and {arcs} arcs are beyond what a graph can have")
    for name, most in (("start", states - 1), ("max_depth", states - 1), ("num_columns", _graph.MOST_COLUMNS)):
        if not 0 <= about[name] <= most:
            raise FormatError(f"{path}: {name} is {about[name]}; expected 0 to {most}")
    _graph.validate(columns, about["start"], about["max_depth"], about["num_columns"], path)
    try:
        tokens = read_table(arrays, "tokens")
        about["tokens"] = None if tokens is None else TokenTable([token for _, token in tokens.items()], about["blank"])
        about["word_symbols"] = read_table(arrays, "symbols")
        check_columns(about)
        about["pronunciations"] = read_pronunciations(arrays, about["num_columns"])
    except (FormatError, GraphError, ValueError) as error:
        raise FormatError(f"{path}: {error}") from None
    return {"columns": columns} | about


def read_sections(path: object, data: Any, size: int) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a file by name, after header, section table and checksums were found in order."""
    magic, version, sections, expected, table_sum, header_sum = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise FormatError(f"{path}: expected a graph of arcbeam (magic {MAGIC!r}), got {magic!r}")
    if version != VERSION:
        raise FormatError(
            f"{path}: expected version {VERSION} of the format, got {version}; build or import the graph "
            f"again with this arcbeam"
        )
    if header_sum != _graph.checksum(data[:SEALED]):
        raise FormatError(f"{path}: the header is corrupted (its checksum does not fit)")
    if expected != size:
        what = "truncated" if size < expected else "too long"
        raise FormatError(f"{path}: the file is {what}: expected {expected} bytes, got {size}")
    if sections > MOST_SECTIONS or HEADER.size + SECTION.size * sections > size:
        raise FormatError(f"{path}: {sections} sections do not fit into the file")
    table = data[HEADER.size : HEADER.size + SECTION.size * sections]
    if table_sum != _graph.checksum(table):
        raise FormatError(f"{path}: the section table is corrupted (its checksum does not fit)")
    arrays: dict[str, npt.NDArray[Any]] = {}
    placed = [(0, HEADER_USED), (HEADER.size, HEADER.size + SECTION.size * sections)]
    for raw_name, offset, length, found in SECTION.iter_unpack(table):
        name = raw_name.rstrip(b"\0").decode("ascii", "replace")
        dtype = SECTIONS.get(name)
        if dtype is None or name in arrays:
            raise FormatError(f"{path}: section {name!r} is {'not known' if dtype is None else 'there twice'}")
        if offset % ALIGNMENT or offset > size or length > size - offset or length % dtype.itemsize:
            raise FormatError(f"{path}: section {name!r} cannot be at byte {offset} with {length} bytes of {size}")
        array = np.frombuffer(data, np.uint8, length, offset) if length else np.empty(0, np.uint8)
        if _graph.checksum(array) != found:
            raise FormatError(f"{path}: section {name!r} at byte {offset} is corrupted (its checksum does not fit)")
        arrays[name] = array.view(dtype)
        placed.append((offset, offset + length))
    check_zeros(path, data, placed)
    if "about" not in arrays:
        raise FormatError(f"{path}: section 'about' is missing")
    return arrays


def check_zeros(path: object, data: Any, placed: list[tuple[int, int]]) -> None:
    """FormatError unless every byte outside the spans [begin, end) that are `placed` is zero."""
    end = 0
    for begin, until in [*sorted(placed), (len(data), len(data))]:
        if begin > end and np.frombuffer(data, np.uint8, begin - end, end).any():
            raise FormatError(f"{path}: bytes {end} to {begin - 1} belong to no section, but are not all zero")
        end = max(end, until)


def read_about(path: object, text: bytes) -> dict[str, Any]:
    """The numbers and names of a file, each of its type."""
    try:
        about = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: section 'about' is not JSON: {error}") from None
    if not isinstance(about, dict) or set(about) != set(ABOUT):
        raise FormatError(
            f"{path}: section 'about' holds {sorted(about) if isinstance(about, dict) else about!r}, "
            f"expected {sorted(ABOUT)}"
        )
    for name, types in ABOUT.items():
        if type(about[name]) not in types:
            raise FormatError(f"{path}: {name} is {about[name]!r}; expected {' or '.join(t.__name__ for t in types)}")
    if about["join"] not in ("words", "pieces"):
        raise FormatError(f"{path}: join is {about['join']!r}; expected 'words' or 'pieces'")
    for key, value in about["meta"].items():
        if not isinstance(value, (str, int, float)):
            raise FormatError(f"{path}: meta {key!r} is {value!r}; expected text or a number")
    return about


def read_table(arrays: dict[str, npt.NDArray[Any]], name: str) -> SymbolTable | None:
    """A symbol table from its sections, or None where the file has none."""
    parts = [arrays.get(f"{name}.{part}") for part in TABLE_PARTS]
    if all(part is None for part in parts):
        return None
    ids, offsets, text = parts
    if ids is None or offsets is None or text is None:
        raise FormatError(f"a section of the table {name!r} is missing")
    table = SymbolTable(ids, offsets, text)
    table.check()
    return table


def check_columns(about: dict[str, Any]) -> None:
    """FormatError unless the columns that `about` names are there."""
    width = about["num_columns"]
    if about["tokens"] is not None and len(about["tokens"]) != width:
        raise FormatError(f"the table of tokens has {len(about['tokens'])} entries, expected {width}")
    for name in ("blank", "separator_column"):
        if about[name] is not None and not 0 <= about[name] < max(width, 1 if about["width_is_exact"] else 1 << 16):
            raise FormatError(f"{name} is {about[name]}, but there are {width} columns")


def read_pronunciations(arrays: dict[str, npt.NDArray[Any]], num_columns: int) -> Pronunciations | None:
    """Pronunciations from their sections, or None where the file has none."""
    parts = {part: arrays.get(f"pronunciation.{part}") for part in PRONUNCIATION_PARTS}
    if all(part is None for part in parts.values()):
        return None
    if any(part is None for part in parts.values()):
        raise FormatError("a section of the pronunciations is missing")
    pronunciations = Pronunciations(**parts)  # type: ignore[arg-type]
    pronunciations.check(num_columns)
    return pronunciations
