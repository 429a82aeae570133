"""The border to the graph layer in C++: arrays to pointers, GIL released, one call, one check.

Arrays come in as bytes of the dtypes in ``cpu_reference/graph/columns.hpp``; their sizes are checked again.
"""

from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.vector cimport vector

import numpy as np

from arcbeam.graph._graph_view cimport ArcTarget, GraphView, StateRecord

from arcbeam.core.errors import FormatError, GraphError
from arcbeam.core.threads import memory_bound_threads

STATE_DTYPE = np.dtype([("first_arc", "<u4"), ("first_emitting", "<u4"), ("smallest_weight", "<f4"), ("depth", "<u4")])
TARGET_DTYPE = np.dtype([("next_state", "<u4"), ("weight", "<f4")])
RAW_ARC_DTYPE = np.dtype([("input", "<i4"), ("output", "<i4"), ("weight", "<f4"), ("next_state", "<u4")])
COLUMNS = ("states", "targets", "columns", "words", "finals")
MOST_COLUMNS = 65535
MOST_STATES = 0x7FFFFFFF
MOST_ARCS = 0xFFFFFFFE


cdef extern from "common/status.hpp" namespace "arcbeam" nogil:
    cdef enum class Code(int):
        kOk
        kGraph
        kFormat

    cdef cppclass Status:
        Code code
        string message


cdef extern from "graph/columns.hpp" namespace "arcbeam" nogil:
    cdef struct RawArc:
        uint32_t next_state

    cdef cppclass RawArcs:
        const unsigned char* first
        size_t gap

    cdef struct LabelMap:
        const int32_t* label_to_column
        uint64_t size
        uint32_t num_columns

    cdef struct GraphColumns:
        StateRecord* states
        ArcTarget* targets
        uint16_t* columns
        uint32_t* words
        float* finals
        uint32_t num_states
        uint32_t num_arcs


cdef extern from "graph/compile.hpp" namespace "arcbeam" nogil:
    Status compile_arcs(const RawArcs&, const LabelMap&, unsigned, const GraphColumns&) except +
    Status order_arcs(const uint32_t*, const uint32_t*, const int32_t*, const int32_t*, const float*,
                      const GraphColumns&, RawArc*) except +
    Status check_finals_ "arcbeam::check_finals"(const float*, uint32_t) except +
    Status fill_depths(const GraphColumns&, uint32_t*) except +


cdef extern from "arcbeam/graph/_graph/openfst.hpp" namespace "arcbeam" nogil:
    cdef struct Bytes:
        const unsigned char* data
        uint64_t size

    cdef cppclass SymbolSpans:
        cbool present
        vector[uint64_t] begins
        vector[uint32_t] lengths
        vector[int64_t] keys

    cdef cppclass OpenFstFile:
        cbool is_const
        int64_t start
        int64_t num_states
        int64_t num_arcs
        uint64_t most_states
        SymbolSpans input
        SymbolSpans output

    cbool is_openfst_ "arcbeam::is_openfst"(const Bytes&)
    Status read_openfst_header(const Bytes&, OpenFstFile*) except +
    Status scan_openfst_states(const Bytes&, const OpenFstFile&, StateRecord*, float*, uint64_t*, uint64_t*) except +
    RawArcs openfst_arcs(const Bytes&, const OpenFstFile&)
    uint64_t vector_body_size(uint64_t, uint64_t)
    void write_vector_body(const RawArc*, const GraphColumns&, unsigned char*)


cdef extern from "graph/validate.hpp" namespace "arcbeam" nogil:
    cdef struct ArcCounts:
        uint64_t epsilon
        uint64_t epsilon_with_word
        uint64_t emitting
        uint64_t emitting_with_word
        uint64_t self_loops
        uint64_t final_states

    Status validate_ "arcbeam::validate"(const GraphView&, uint32_t, unsigned) except +
    uint32_t find_unknown_word(const uint32_t*, uint32_t, const unsigned char*, uint64_t, unsigned) except +
    uint32_t state_of_arc(const StateRecord*, uint32_t, uint32_t)
    ArcCounts count_arcs_ "arcbeam::count_arcs"(const GraphView&)


cdef check(const Status& status, source):
    """The Python exception for a failure; its message begins with ``source`` (a file or None)."""
    if status.code == Code.kOk:
        return
    text = bytes(status.message).decode("utf-8", "replace")
    if source is not None:
        text = f"{source}: {text}"
    raise (FormatError if status.code == Code.kFormat else GraphError)(text)


cdef const unsigned char* address(array, dtype, size_t size, str name) except? NULL:
    """The address of the elements of a C-contiguous array, after a check of its dtype and size."""
    if array.dtype != np.dtype(dtype) or array.shape != (size,) or not array.flags.c_contiguous:
        raise ValueError(f"{name}: expected {np.dtype(dtype)} [{size}], C-contiguous, got {array.dtype} {array.shape}")
    return <const unsigned char*><size_t>array.ctypes.data


cdef GraphColumns columns_of(graph) except *:
    """Pointers into the dict of arrays that ``new_columns`` makes."""
    cdef GraphColumns out
    cdef size_t states = len(graph["finals"])
    cdef size_t arcs = len(graph["words"])
    out.states = <StateRecord*>address(graph["states"], STATE_DTYPE, states + 1, "states")
    out.targets = <ArcTarget*>address(graph["targets"], TARGET_DTYPE, arcs, "targets")
    out.columns = <uint16_t*>address(graph["columns"], "<u2", arcs, "columns")
    out.words = <uint32_t*>address(graph["words"], "<u4", arcs, "words")
    out.finals = <float*>address(graph["finals"], "<f4", states, "finals")
    out.num_states = <uint32_t>states
    out.num_arcs = <uint32_t>arcs
    return out


cdef GraphView view_of(graph, uint32_t start, uint32_t max_depth) except *:
    cdef GraphColumns columns = columns_of(graph)
    cdef GraphView out
    out.states = columns.states
    out.targets = columns.targets
    out.columns = columns.columns
    out.words = columns.words
    out.finals = columns.finals
    out.num_states = columns.num_states
    out.num_arcs = columns.num_arcs
    out.start = start
    out.max_depth = max_depth
    return out


def new_columns(num_states, num_arcs, states=None, finals=None):
    """Uninitialised arrays of a graph, by name."""
    return {
        "states": np.empty(num_states + 1, STATE_DTYPE) if states is None else states,
        "targets": np.empty(num_arcs, TARGET_DTYPE),
        "columns": np.empty(num_arcs, "<u2"),
        "words": np.empty(num_arcs, "<u4"),
        "finals": np.empty(num_states, "<f4") if finals is None else finals,
    }


cdef uint32_t finish(graph, RawArcs raw, start, label_to_column, num_columns, source) except? 0xffffffff:
    """Compiles, checks and measures depth; returns the largest depth. The graph holds first_arc and finals."""
    cdef GraphColumns columns = columns_of(graph)
    cdef LabelMap labels
    cdef uint32_t max_depth = 0
    cdef unsigned threads = memory_bound_threads()
    cdef Status status
    if num_columns is not None and not 0 <= num_columns <= MOST_COLUMNS:  # a column takes 16 bits
        raise GraphError(f"{'' if source is None else f'{source}: '}the log-probs have {num_columns} columns; at most "
                         f"{MOST_COLUMNS} can be told apart")
    labels.label_to_column = NULL
    labels.size = 0
    labels.num_columns = MOST_COLUMNS if num_columns is None else num_columns
    if label_to_column is not None:
        labels.size = len(label_to_column)
        labels.label_to_column = <const int32_t*>address(label_to_column, "<i4", labels.size, "label_to_column")
    if columns.num_states == 0 or start is None or start < 0:
        raise GraphError(f"{'' if source is None else f'{source}: '}the graph has no start state "
                         f"({columns.num_states} states)")
    if start >= columns.num_states:
        raise GraphError(f"{'' if source is None else f'{source}: '}the start state is {start}, but the graph has "
                         f"states 0 to {columns.num_states - 1}")
    with nogil:
        status = compile_arcs(raw, labels, threads, columns)
        if status.code == Code.kOk:
            status = check_finals_(columns.finals, columns.num_states)
        if status.code == Code.kOk:
            status = fill_depths(columns, &max_depth)
    check(status, source)
    return max_depth


def _order(arcs, num_states, finals):
    """Columns with first_arc filled in, and the raw arcs ordered by source; ``arcs`` are five checked arrays."""
    cdef size_t count = len(arcs[0])
    graph = new_columns(num_states, count, finals=finals)
    raw = np.empty(count, RAW_ARC_DTYPE)
    cdef GraphColumns columns = columns_of(graph)
    cdef const uint32_t* sources = <const uint32_t*>address(arcs[0], "<u4", count, "sources")
    cdef const uint32_t* destinations = <const uint32_t*>address(arcs[1], "<u4", count, "destinations")
    cdef const int32_t* inputs = <const int32_t*>address(arcs[2], "<i4", count, "input labels")
    cdef const int32_t* outputs = <const int32_t*>address(arcs[3], "<i4", count, "output labels")
    cdef const float* weights = <const float*>address(arcs[4], "<f4", count, "weights")
    cdef RawArc* out = <RawArc*>address(raw, RAW_ARC_DTYPE, count, "raw arcs")
    cdef Status status
    with nogil:
        status = order_arcs(sources, destinations, inputs, outputs, weights, columns, out)
    check(status, None)
    return graph, raw


def compile_arrays(arcs, num_states, start, finals, label_to_column, num_columns):
    """Columns and largest depth of a graph of arcs (source u4, destination u4, input i4, output i4, weight f4)."""
    graph, raw_array = _order(arcs, num_states, finals)
    cdef RawArcs raw
    raw.first = address(raw_array, RAW_ARC_DTYPE, len(raw_array), "raw arcs")
    raw.gap = 0
    return graph, finish(graph, raw, start, label_to_column, num_columns, None)


def vector_body(arcs, num_states, finals):
    """Bytes (an array of u1) of the states of an OpenFst vector file."""
    graph, raw_array = _order(arcs, num_states, finals)
    cdef GraphColumns columns = columns_of(graph)
    cdef const RawArc* raw = <const RawArc*>address(raw_array, RAW_ARC_DTYPE, len(raw_array), "raw arcs")
    body = np.empty(vector_body_size(columns.num_states, columns.num_arcs), np.uint8)
    cdef unsigned char* out = <unsigned char*>address(body, "u1", len(body), "body")
    with nogil:
        write_vector_body(raw, columns, out)
    return body


def is_openfst(const unsigned char[::1] data):
    """Whether the bytes begin as an OpenFst file does."""
    cdef Bytes file
    file.data = &data[0]
    file.size = data.shape[0]
    return is_openfst_(file)


cdef symbols_of(const unsigned char[::1] data, const SymbolSpans& spans, source, str which):
    """(keys i8, list of str) of an embedded table, or None."""
    if not spans.present:
        return None
    cdef size_t i
    cdef const char* text = <const char*>&data[0]
    cdef bytes raw
    keys = []
    symbols = []
    for i in range(spans.keys.size()):
        keys.append(spans.keys[i])
        raw = (text + spans.begins[i])[:spans.lengths[i]]
        try:
            symbols.append(raw.decode())
        except UnicodeDecodeError as error:
            raise FormatError(f"{source}: byte {spans.begins[i]}: {which} symbol {i} is not UTF-8: {error}") from None
    return keys, symbols


def read_openfst(const unsigned char[::1] data, source, label_to_column, num_columns_of):
    """(columns, start, largest depth, input and output symbols); `num_columns_of(input symbols)` may return None."""
    cdef Bytes file
    cdef OpenFstFile fst
    cdef uint64_t num_states = 0
    cdef uint64_t num_arcs = 0
    cdef Status status
    file.data = &data[0]
    file.size = data.shape[0]
    with nogil:
        status = read_openfst_header(file, &fst)
    check(status, source)
    input_symbols = symbols_of(data, fst.input, source, "input")
    output_symbols = symbols_of(data, fst.output, source, "output")
    states = np.empty(fst.most_states + 1, STATE_DTYPE)
    finals = np.empty(fst.most_states, "<f4")
    cdef StateRecord* records = <StateRecord*>address(states, STATE_DTYPE, fst.most_states + 1, "states")
    cdef float* costs = <float*>address(finals, "<f4", fst.most_states, "finals")
    with nogil:
        status = scan_openfst_states(file, fst, records, costs, &num_states, &num_arcs)
    check(status, source)
    if num_states != fst.most_states:
        states = states[:num_states + 1].copy()
        finals = finals[:num_states].copy()
    graph = new_columns(num_states, num_arcs, states, finals)
    depth = finish(graph, openfst_arcs(file, fst), fst.start, label_to_column, num_columns_of(input_symbols), source)
    return graph, fst.start, depth, input_symbols, output_symbols


def validate(graph, uint32_t start, uint32_t max_depth, uint32_t num_columns, source):
    """Raises GraphError unless a decoder may read these columns without further checks."""
    cdef GraphView view = view_of(graph, start, max_depth)
    cdef unsigned threads = memory_bound_threads()
    cdef Status status
    with nogil:
        status = validate_(view, num_columns, threads)
    check(status, source)


def unknown_word(graph, known):
    """(state, arc, word) of the first arc whose word is not marked in ``known`` (u1 [ids]), or None."""
    cdef GraphView view = view_of(graph, 0, 0)
    cdef const unsigned char* marks = address(known, "u1", len(known), "known")
    cdef uint64_t num_known = len(known)
    cdef unsigned threads = memory_bound_threads()
    cdef uint32_t arc
    with nogil:
        arc = find_unknown_word(view.words, view.num_arcs, marks, num_known, threads)
    if arc == view.num_arcs:
        return None
    return state_of_arc(view.states, view.num_states, arc), arc, view.words[arc]


def count_arcs(graph):
    """Numbers of arcs by kind, and of final states."""
    cdef GraphView view = view_of(graph, 0, 0)
    cdef ArcCounts counts
    with nogil:
        counts = count_arcs_(view)
    return counts
