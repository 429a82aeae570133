"""OpenFst on disk and in memory: reads files and the FST objects of other packages, writes vector files from arrays."""

import numbers
import os
import shutil
import struct
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from arcbeam.core.errors import FormatError, GraphError
from arcbeam.core.warn import warn
from arcbeam.files._file_map import FileMap
from arcbeam.files.reading import reading
from arcbeam.files.writing import replacing, writing
from arcbeam.graph import _graph
from arcbeam.graph.symbols import SymbolTable
from arcbeam.graph.token_table import TokenTable, drop_epsilon

FST_MAGIC = 2125659606
VECTOR_VERSION = 2
SYMBOLS_MAGIC = 2125658996
HAS_INPUT_SYMBOLS, HAS_OUTPUT_SYMBOLS = 1, 2
EPSILON_COLUMN = 0xFFFF  # that an arc without an input label reads
VECTOR_PROPERTIES = 0x3  # expanded and mutable; everything else unknown, for OpenFst to find out

ROOMY_BYTES = 4 << 30

Symbols = tuple[list[int], list[str]] | None


class Compiled(NamedTuple):
    """The result of reading an OpenFst file."""

    columns: dict[str, npt.NDArray[Any]]
    start: int
    max_depth: int
    num_columns: int
    width_is_exact: bool
    tokens: TokenTable | None
    word_symbols: SymbolTable | None

    def fields(self, words: SymbolTable | None, blank: str | int | None) -> dict[str, Any]:
        """The arguments of `Graph`; `words` take the place of the file's own."""
        if isinstance(blank, numbers.Integral) and blank >= 0 and not self.width_is_exact:
            self._check_is_read(int(blank))
        return self._asdict() | {"blank": blank, "word_symbols": self.word_symbols if words is None else words}

    def _check_is_read(self, blank: int) -> None:
        """ValueError for a blank beyond the columns that arcs read, and a warning for one within them that none reads.

        Tokens or a number of columns would say that there is such a column; without them only the arcs do.
        """
        if blank >= self.num_columns:
            raise ValueError(
                f"blank: expected a column that the graph reads, 0 to {self.num_columns - 1}, got {blank}; columns "
                "count from 0, and if the log-probs have more, give the tokens (--tokens) or num_columns"
            )
        if not np.any(self.columns["columns"] == blank):
            warn(
                f"blank: no arc of the graph reads column {blank} of {self.num_columns}; columns count from 0, and "
                "tokens (--tokens) would tell the blank"
            )


def read_bytes(
    data: Any,
    source: str | os.PathLike[str],
    *,
    tokens: TokenTable | None = None,
    blank: str | int | None = None,
    label_to_column: npt.ArrayLike | None = None,
    num_columns: int | None = None,
) -> Compiled:
    """Parses, compiles and checks an OpenFst file; without `tokens` its input symbols may name the columns."""
    embedded: list[list[str]] = []

    def width(symbols: Symbols) -> int | None:
        if tokens is None and label_to_column is None and num_columns is None and symbols is not None:
            names = embedded_tokens(symbols)
            if names is not None:
                embedded.append(names)
                return len(names)
        return len(tokens) if tokens is not None else num_columns

    table = None if label_to_column is None else as_label_table(label_to_column)
    with reading(source, "an OpenFst file"):
        try:
            columns, start, depth, _, outputs = _graph.read_openfst(data, source, table, width)
        except GraphError as error:
            if not str(error).endswith(" columns"):  # of the model, of which there are too few for a label
                raise
            raise GraphError(
                f"{error}; is it a grammar (G), whose labels are words? A decoding graph (TLG) reads the model's labels"
            ) from error
        try:
            words = None if outputs is None else SymbolTable.from_ids(*outputs)
        except ValueError as error:
            raise FormatError(f"{source}: output symbols: {error}") from None
    tokens = tokens or (as_table(embedded[0], blank) if embedded else None)
    known = len(tokens) if tokens is not None else num_columns
    used = used_columns(columns["columns"], table)
    return Compiled(columns, start, depth, used if known is None else known, known is not None, tokens, words)


def input_labels(columns: npt.NDArray[np.uint16]) -> npt.NDArray[np.int32]:
    """The labels that OpenFst has for columns: column + 1, 0 for epsilon."""
    return np.where(columns == EPSILON_COLUMN, 0, columns.astype(np.int32) + 1)


def warn_of_grammar(path: str | os.PathLike[str], graph: Compiled) -> None:
    """Warns of a graph whose arcs write the labels that they read, as a grammar does, and no decoding graph."""
    columns, words = graph.columns["columns"], graph.columns["words"]
    reads = columns != EPSILON_COLUMN
    if reads.any() and np.array_equal(words[reads], columns[reads] + np.uint32(1)) and not words[~reads].any():
        warn(
            f"{os.fspath(path)}: expected a decoding graph (TLG), which reads labels of the model and writes words, "
            "got one whose arcs write what they read, as a grammar (G) does; arcbeam build-graph makes a TLG of "
            "tokens, a lexicon and an ARPA"
        )


def read_file(path: str | os.PathLike[str], *, source: str | None = None, **options: Any) -> Compiled:
    """Reads an OpenFst file through a memory map; messages call it `source`, or its path. See `read_bytes`."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            raise FormatError(f"{path}: expected an OpenFst file, got an empty file")
        data = FileMap(file.fileno(), size)
    try:
        return read_bytes(data, path if source is None else source, **options)
    finally:
        if data.is_broken:  # this explains any error that the zeros of the lost part have caused
            raise FormatError(f"{path}: the file shrank while it was read; load it again")


def from_object(fst: Any, **options: Any) -> Compiled:
    """Reads a kaldifst or pywrapfst (pynini) FST with the standard arc type; see `read_bytes`."""
    source = type(fst).__name__
    arc_type = fst.arc_type() if callable(getattr(fst, "arc_type", None)) else "standard"
    if arc_type != "standard":
        raise TypeError(f'fst: expected an FST with arc type "standard", got {source} with "{arc_type}"')
    if callable(getattr(fst, "write_to_string", None)):  # pywrapfst
        return read_bytes(fst.write_to_string(), source, **options)
    if not (callable(getattr(fst, "write", None)) and hasattr(fst, "num_input_epsilons")):  # kaldifst
        if isinstance(fst, (str, os.PathLike)):
            raise TypeError(f"fst: expected a kaldifst or pywrapfst FST, got {source}; Graph.load reads a file")
        raise TypeError(f"fst: expected a kaldifst or pywrapfst FST, got {type(fst).__module__}.{source}")
    for parent in (roomy_memory(), None):
        with tempfile.TemporaryDirectory(prefix="arcbeam-", dir=parent) as folder:
            path = Path(folder) / "fst"
            if fst.write(str(path)):
                return read_file(path, source=source, **options)
    raise OSError(f"{source}.write failed in {tempfile.gettempdir()}; is there room?")


def roomy_memory() -> str | None:
    """A folder in memory with a few GB to spare, if the system has one; else the usual place (None)."""
    folder = "/dev/shm"
    return folder if os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > ROOMY_BYTES else None


def as_label_table(table: npt.ArrayLike) -> npt.NDArray[np.int32]:
    """A table from input label to column as int32 [labels]; labels without a column are -1."""
    if isinstance(table, Mapping):
        raise ValueError(
            "label_to_column: expected integers [labels], in which entry l is the column of label l and -1 means none, "
            f"got {type(table).__name__}; label 1 of column 0 is [-1, 0]"
        )
    array = np.asarray(table)
    if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
        raise ValueError(f"label_to_column: expected integers [labels], got {array.dtype} {list(array.shape)}")
    return np.ascontiguousarray(np.clip(array.astype(np.int64), -1, 0x7FFFFFFF).astype("<i4"))


def used_columns(columns: npt.NDArray[np.uint16], table: npt.NDArray[np.int32] | None) -> int:
    """The least number of columns that log-probs must have."""
    if table is not None:
        return int(table[1:].max(initial=-1, where=table[1:] < _graph.MOST_COLUMNS)) + 1
    # Epsilon's 0xffff becomes 0, every other column one more: no copy without the epsilon arcs is needed.
    most = 0
    for begin in range(0, len(columns), 1 << 20):
        most = max(most, int((columns[begin : begin + (1 << 20)] + np.uint16(1)).max()))
    return most


def embedded_tokens(symbols: tuple[list[int], list[str]]) -> list[str] | None:
    """Input symbols as columns; None unless they are epsilon followed by one token per column."""
    keys, names = symbols
    if sorted(keys) != list(range(len(keys))) or len(set(names)) != len(names) or len(names) < 2:
        return None
    return drop_epsilon([name for _, name in sorted(zip(keys, names, strict=True))])


def as_table(tokens: list[str], blank: str | int | None) -> TokenTable:
    """A token table; it has no blank if none is given and none can be recognised."""
    try:
        return TokenTable.from_list(tokens, blank)
    except ValueError:
        if blank is not None:
            raise
        return TokenTable(tokens, None)


def as_arcs(
    sources: npt.ArrayLike,
    destinations: npt.ArrayLike,
    ilabels: npt.ArrayLike,
    olabels: npt.ArrayLike,
    weights: npt.ArrayLike,
) -> tuple[npt.NDArray[Any], ...]:
    """Five arrays of one length with the dtypes the compiler takes; GraphError names the arc that does not fit."""
    named = zip(
        ("source", "destination", "input label", "output label"),
        (sources, destinations, ilabels, olabels),
        ("<u4", "<u4", "<i4", "<i4"),
        strict=True,
    )
    out: list[npt.NDArray[Any]] = []
    for name, values, dtype in named:
        array = np.asarray(values)
        if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
            raise TypeError(f"{name}s: expected integers [arcs], got {array.dtype} {list(array.shape)}")
        most = _graph.MOST_STATES - 1 if dtype == "<u4" else 0x7FFFFFFF
        if array.size and not (int(array.min()) >= 0 and int(array.max()) <= most):
            arc = int(np.argmax((array < 0) | (array > most)))
            raise GraphError(f"arc {arc}: {name} is {array[arc]}; expected 0 to {most}")
        out.append(np.ascontiguousarray(array, dtype))
    cost = np.asarray(weights)
    if cost.ndim != 1:
        raise TypeError(f"weights: expected costs [arcs], got {cost.dtype} {list(cost.shape)}")
    with np.errstate(over="ignore"):
        out.append(np.ascontiguousarray(cost, "<f4"))
    if len({len(array) for array in out}) != 1:
        raise ValueError(f"expected five arrays of one length, got lengths {[len(array) for array in out]}")
    return tuple(out)


def check_finals(finals: Any) -> None:
    """TypeError unless it is a mapping or numbers in a row."""
    if not isinstance(finals, Mapping) and (np.ndim(finals) != 1 or np.asarray(finals).dtype.kind not in "iuf"):
        raise TypeError(f"finals: expected a mapping {{state: cost}}, or costs [states], got {type(finals).__name__}")


def as_finals(finals: Mapping[int, float] | npt.ArrayLike, num_states: int) -> npt.NDArray[np.float32]:
    """Final costs, float32 [num_states], +inf where not final, from a mapping or such an array."""
    check_finals(finals)
    if not isinstance(finals, Mapping):
        out = np.array(finals, "<f4")
        if out.shape != (num_states,):
            raise ValueError(f"finals: expected a mapping or [{num_states}], got {list(out.shape)}")
        return out
    out = np.full(num_states, np.inf, "<f4")
    for state, cost in finals.items():
        if not 0 <= state < num_states:
            raise GraphError(f"final state {state} does not exist; the graph has states 0 to {num_states - 1}")
        out[state] = cost
    return out


def write_vector(
    path: str | os.PathLike[str],
    start: int,
    sources: npt.ArrayLike,
    destinations: npt.ArrayLike,
    ilabels: npt.ArrayLike,
    olabels: npt.ArrayLike,
    weights: npt.ArrayLike,
    finals: Mapping[int, float] | Sequence[float] | npt.NDArray[Any],
    num_states: int | None = None,
    *,
    input_symbols: bytes = b"",
    output_symbols: bytes = b"",
) -> None:
    """Writes an OpenFst vector file with the standard arc type; arcs of a state keep their order."""
    arcs = as_arcs(sources, destinations, ilabels, olabels, weights)
    if num_states is None:
        num_states = count_states(arcs, start, finals)
    costs = as_finals(finals, num_states)
    body = _graph.vector_body(arcs, num_states, costs)
    header = struct.pack("<i", FST_MAGIC) + b"".join(
        struct.pack("<i", len(text)) + text for text in (b"vector", b"standard")
    )
    flags = HAS_INPUT_SYMBOLS * bool(input_symbols) | HAS_OUTPUT_SYMBOLS * bool(output_symbols)
    header += struct.pack("<iiQqqq", VECTOR_VERSION, flags, VECTOR_PROPERTIES, start, num_states, len(arcs[0]))
    with replacing(path) as out:
        out.write(header + input_symbols + output_symbols)
        with writing(path):
            body.tofile(out)


def symbol_bytes(name: str, symbols: Iterable[tuple[int, str]]) -> bytes:
    """A table of symbols as OpenFst files contain it."""
    keys, texts = [], []
    for key, symbol in symbols:
        keys.append(key)
        texts.append(symbol.encode())
    head = struct.pack("<i", SYMBOLS_MAGIC) + struct.pack("<i", len(name.encode())) + name.encode()
    head += struct.pack("<qq", max(keys, default=-1) + 1, len(keys))
    return head + b"".join(
        struct.pack("<i", len(text)) + text + struct.pack("<q", key) for key, text in zip(keys, texts, strict=True)
    )


def count_states(arcs: tuple[npt.NDArray[Any], ...], start: int, finals: Mapping[int, float] | npt.ArrayLike) -> int:
    """One more than the largest state that is mentioned; refuses a number that is probably a mistake."""
    check_finals(finals)
    if not isinstance(finals, Mapping):
        return len(np.asarray(finals))
    most = max([start, *finals, *(int(array.max()) for array in arcs[:2] if array.size)])
    if most > 1024 + 16 * (len(arcs[0]) + len(finals)):
        raise GraphError(
            f"state {most} is mentioned, but there are only {len(arcs[0])} arcs and {len(finals)} final "
            f"states; give num_states if this is meant"
        )
    return most + 1
