"""OpenFst files and the FST objects of other packages."""

import math
import struct
import warnings
from pathlib import Path

import kaldifst
import numpy as np
import pytest
from hypothesis import given

from arcbeam.core.errors import FormatError, GraphError
from arcbeam.graph import openfst
from arcbeam.graph.graph import Graph
from tests.graph import examples

HEADER = "<i" + "i6s" + "i8s" + "iiQqqq"  # of a vector file; a const file has one character less


def kaldifst_of(arcs, finals, num_states, start=0):
    fst = kaldifst.StdVectorFst()
    for _ in range(num_states):
        fst.add_state()
    fst.start = start
    for source, destination, label, word, cost in arcs:
        fst.add_arc(source, kaldifst.StdArc(label, word, cost, destination))
    for state, cost in finals.items():
        fst.set_final(state, cost)
    return fst


EXAMPLE = kaldifst_of(examples.ARCS, examples.FINALS, 4)


def file_of(fst, folder, name="fst"):
    path = folder / name
    assert fst.write(str(path))
    return path


@given(examples.graphs())
def test_object_files_and_arcs_give_the_same(tmp_path_factory, given_graph):
    arcs, finals, num_states = given_graph
    folder = tmp_path_factory.mktemp("fst")
    graph = Graph.from_arcs(arcs, finals=finals, num_states=num_states)
    fst = kaldifst_of(arcs, finals, num_states)
    constant = kaldifst.StdConstFst(fst)
    for other in (Graph.from_fst(fst), Graph.from_fst(constant)):
        examples.same(graph, other)
    for i, written in enumerate((fst, constant)):
        examples.same(graph, Graph.load(file_of(written, folder, str(i))))


@given(examples.graphs())
def test_write_vector_is_read_by_kaldifst(tmp_path_factory, given_graph):
    arcs, finals, num_states = given_graph
    path = tmp_path_factory.mktemp("fst") / "fst"
    columns = [np.array([arc[i] for arc in arcs], np.float32 if i == 4 else np.int64) for i in range(5)]
    openfst.write_vector(path, 0, *columns, finals, num_states=num_states)
    read = kaldifst.StdVectorFst.read(str(path))
    assert read.num_states == num_states and read.start == 0
    found = [
        (state, arc.nextstate, arc.ilabel, arc.olabel, arc.weight.value)
        for state in range(num_states)
        for arc in kaldifst.ArcIterator(read, state)
    ]
    assert found == sorted(arcs, key=lambda arc: arc[0])  # stable: the arcs of a state keep their order
    assert [read.final(state).value for state in range(num_states)] == [
        finals.get(state, math.inf) for state in range(num_states)
    ]
    # Properties that were written must not claim more than is true.
    assert kaldifst.connect(read) is None
    examples.same(Graph.load(path), Graph.from_arcs(arcs, finals=finals, num_states=num_states))


def test_write_vector_counts_states(tmp_path):
    path = tmp_path / "fst"
    openfst.write_vector(path, 0, [0, 2], [1, 0], [1, 2], [0, 0], [0.5, 1.0], {1: 0.25})
    graph = Graph.load(path)
    assert graph.states["first_arc"].tolist() == [0, 1, 1, 2]
    openfst.write_vector(path, 0, [0], [1], [1], [0], [0.5], [math.inf, 0.0, 1.0])
    assert Graph.load(path).finals.tolist() == [math.inf, 0.0, 1.0]
    with pytest.raises(GraphError, match="arc 1: source is -1"):
        openfst.write_vector(path, 0, [0, -1], [0, 0], [1, 1], [0, 0], [0.0, 0.0], {0: 0.0})


def repack(data, *, const, **changes):
    """A file with some fields of its header changed."""
    names = [
        "magic", "type_length", "type", "arc_length", "arc", "version", "flags", "properties", "start", "states",
        "arcs",
    ]  # fmt: skip
    layout = HEADER.replace("6s", "5s") if const else HEADER
    fields = dict(zip(names, struct.unpack_from(layout, data), strict=True)) | changes
    return struct.pack(layout, *fields.values()) + data[struct.calcsize(layout) :]


def aligned(data, version, flags):
    """A const file whose parts start at multiples of 16, from one that is packed."""
    begin = struct.calcsize(HEADER) - 1
    states_end = begin + 20 * struct.unpack_from("<q", data, begin - 16)[0]
    out = repack(data[:begin], const=True, version=version, flags=flags)
    for part in (data[begin:states_end], data[states_end:]):
        out += bytes(-len(out) % 16) + part
    return out


def test_number_of_states_may_be_missing_in_a_vector_file(tmp_path):
    data = file_of(EXAMPLE, tmp_path).read_bytes()
    (tmp_path / "open").write_bytes(repack(data, const=False, states=-1))
    examples.same(Graph.load(tmp_path / "open"), Graph.from_fst(EXAMPLE))


def test_const_files_aligned_and_not(tmp_path):
    data = file_of(kaldifst.StdConstFst(EXAMPLE), tmp_path).read_bytes()
    for i, variant in enumerate((data, aligned(data, 2, 4), aligned(data, 1, 0))):
        path = tmp_path / f"const{i}"
        path.write_bytes(variant)
        examples.same(Graph.load(path), Graph.from_fst(EXAMPLE))


def table(symbols):
    """An embedded symbol table."""
    packed = [struct.pack("<ii4sqq", 2125658996, 4, b"name", 99, len(symbols))]
    for key, symbol in symbols:
        packed.append(struct.pack("<i", len(symbol.encode())) + symbol.encode() + struct.pack("<q", key))
    return b"".join(packed)


def with_symbols(data, inputs=None, outputs=None):
    """A vector file with embedded symbol tables."""
    flags = (inputs is not None) + 2 * (outputs is not None)
    begin = struct.calcsize(HEADER)
    tables = b"".join(table(symbols) for symbols in (inputs, outputs) if symbols is not None)
    return repack(data, const=False, flags=flags)[:begin] + tables + data[begin:]


INPUTS = list(enumerate(["<eps>", *examples.TOKENS, "#0", "#1"]))
OUTPUTS = list(enumerate(examples.WORDS))


def test_embedded_symbols_serve_where_none_is_given(tmp_path):
    path = tmp_path / "fst"
    path.write_bytes(with_symbols(file_of(EXAMPLE, tmp_path).read_bytes(), INPUTS, OUTPUTS))
    graph = Graph.load(path)
    assert graph.tokens.tokens == examples.TOKENS and graph.blank == 3
    assert (graph.num_columns, graph.width_is_exact) == (4, True)
    assert [graph.word_symbols[i] for i in range(5)] == list(examples.WORDS)
    assert kaldifst.StdVectorFst.read(str(path)).output_symbols is not None  # the tables are as OpenFst has them

    other = {"words": ["<eps>", "1", "2", "3", "4"], "tokens": ["w", "x", "y", "z", "v"], "blank": "v"}
    with pytest.raises(ValueError, match="words: they are those of another graph"):
        Graph.load(path, **other)
    named = Graph.load(path, **other, force=True)
    assert named.word_symbols[4] == "4" and named.num_columns == 5 and named.blank == 4
    assert Graph.load(path, label_to_column=[0, 0, 1, 2, 3]).tokens is None
    assert Graph.load(path, blank="b").blank == 1
    with pytest.raises(ValueError, match="'nope' is not among the 4 tokens"):
        Graph.load(path, blank="nope")

    # Sparse output symbols are fine, sparse input symbols are no columns.
    path.write_bytes(
        with_symbols(file_of(EXAMPLE, tmp_path).read_bytes(), [*INPUTS[:-1], (900, "x")], [*OUTPUTS, (1 << 31, "far")])
    )
    graph = Graph.load(path)
    assert graph.tokens is None and graph.word_symbols[1 << 31] == "far"


def test_more_embedded_tokens_than_columns_can_be(tmp_path):
    path = tmp_path / "fst"
    many = [(i, f"t{i}") for i in range(65_537)]
    path.write_bytes(with_symbols(file_of(EXAMPLE, tmp_path).read_bytes(), many))
    with pytest.raises(GraphError, match="65536 columns; at most 65535"):
        Graph.load(path)
    path.write_bytes(with_symbols(file_of(EXAMPLE, tmp_path).read_bytes(), many[:-1]))
    assert Graph.load(path).num_columns == 65_535


def test_missing_symbol(tmp_path):
    path = tmp_path / "fst"
    path.write_bytes(with_symbols(file_of(EXAMPLE, tmp_path).read_bytes(), None, OUTPUTS[:4]))
    with pytest.raises(GraphError, match="state 0, arc 1: writes word 4, which has no symbol among the 4 words"):
        Graph.load(path)


def test_label_to_column(tmp_path):
    path = file_of(EXAMPLE, tmp_path)
    graph = Graph.load(path, label_to_column=np.array([0, 5, 5, 0, 1]))
    assert graph.columns.tolist() == [65535, 65535, 1, 5, 5, 5, 5, 65535, 0]
    assert (graph.num_columns, graph.width_is_exact) == (6, False)
    assert graph.words.tolist() == [0, 4, 0, 0, 2, 0, 1, 3, 0]  # labels 1 and 2 keep their order in column 5
    with pytest.raises(GraphError, match="label_to_column"):
        Graph.load(path, label_to_column=[0, 5, 5])


VECTOR_HEADERS = [
    ({"magic": 1}, "arcbeam or an OpenFst"),
    ({"type": b"editty"}, 'FST type is "editty"; expected "vector" or'),
    ({"arc": b"lattice4"}, 'arc type is "lattice4"; expected'),
    ({"version": 3}, "version of the vector file is 3; expected 2"),
    ({"type_length": 1 << 30}, "byte 4: the length of the FST type"),
    ({"type_length": -1}, "byte 4: the length of the FST type is -1"),
    ({"states": 1 << 30}, "header says 1073741824 states, but the"),
    ({"states": 1 << 62}, "can be numbered"),
    ({"states": -2}, "header says -2 states"),
    ({"states": 3}, "after 3 states, got"),
    ({"start": -1}, "no start state"),
    ({"start": 4}, "start state is 4.* 0 to 3"),
    ({"flags": 1}, "expected an input symbol table"),
]
CONST_HEADERS = [
    ({"states": 1 << 30}, "header says 1073741824 states and 9 arcs, but only"),
    ({"arcs": 1 << 30}, "but only"),
    ({"arcs": 10}, "expected the file to end here after 4 states and 10 arcs"),
    ({"arcs": 8}, "expected the file to end here"),
    ({"states": -1}, "header says -1 states"),
    ({"arcs": -1}, "-1 arcs"),
    ({"version": 3}, "version of the const file is 3; expected 1 or 2"),
]


@pytest.mark.parametrize(
    ("fst", "changes", "message"),
    [(EXAMPLE, *case) for case in VECTOR_HEADERS] + [(kaldifst.StdConstFst(EXAMPLE), *case) for case in CONST_HEADERS],
)
def test_bad_headers(fst, changes, message, tmp_path):
    path = file_of(fst, tmp_path)
    path.write_bytes(repack(path.read_bytes(), const=fst is not EXAMPLE, **changes))
    with pytest.raises((FormatError, GraphError), match=message):
        Graph.load(path)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda data: b"", "got an empty file"),
        (lambda data: data[:40], "byte 40: the file ends within the start state|byte 3.*ends within"),
        (lambda data: data[:-20], "truncated|ends|room"),
        (lambda data: data[:-5], "byte .*: the file ends within state 3|room for"),
        (lambda data: data + b"x", "expected the file to end here after 4 states, got 1 more bytes"),
    ],
)
def test_vector_files_of_another_size(spoil, message, tmp_path):
    path = file_of(EXAMPLE, tmp_path)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises((FormatError, GraphError), match=message):
        Graph.load(path)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (4, 2, "byte 85: the arcs of state 1 start at arc 2, expected 6"),
        (8, 4, "state 1 has 4 arcs, which ends beyond the 9"),
        (8, 0, "the arcs of state 2 start at arc 7, expected 6"),
    ],
)
def test_bad_states_in_const_files(field, value, message, tmp_path):
    data = bytearray(file_of(kaldifst.StdConstFst(EXAMPLE), tmp_path).read_bytes())
    struct.pack_into("<I", data, struct.calcsize(HEADER) - 1 + 20 + field, value)
    path = tmp_path / "const"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=message):
        Graph.load(path)


def test_bad_symbol_tables(tmp_path):
    data = file_of(EXAMPLE, tmp_path).read_bytes()
    path = tmp_path / "fst"
    begin = struct.calcsize(HEADER)
    spoiled = [
        (with_symbols(data, None, [(0, "a"), (0, "b")]), "output symbols: id 0 occurs twice"),
        (with_symbols(data, None, [(0, "a"), (1, "a")]), "output symbols: symbol 'a' occurs twice"),
        (with_symbols(data, None, [(-5, "a")]), "output symbols: ids run from -5"),
        (with_symbols(data, INPUTS)[: begin + 60], "ends within|are left"),
    ]
    cut = bytearray(with_symbols(data, None, OUTPUTS))
    struct.pack_into("<q", cut, begin + 20, 1 << 40)
    spoiled.append((bytes(cut), "output symbol table says it has 1099511627776 symbols, but"))
    text = with_symbols(data, None, OUTPUTS).replace("über".encode(), b"\xff\xffber")
    spoiled.append((text, "output symbol 3 is not UTF-8"))
    for contents, message in spoiled:
        path.write_bytes(contents)
        with pytest.raises(FormatError, match=message):
            Graph.load(path)


def test_objects_that_are_no_fst():
    for thing in (3, b"", object(), open(__file__, "rb")):  # noqa: SIM115
        with pytest.raises(TypeError, match="fst: expected a kaldifst or pywrapfst FST, got"):
            Graph.from_fst(thing)
    for path in ("TLG.fst", Path("TLG.fst")):
        with pytest.raises(TypeError, match=r"FST, got (str|PosixPath); Graph.load reads a file$"):
            Graph.from_fst(path)
    with pytest.raises(GraphError, match="StdVectorFst: the graph has no start state"):
        Graph.from_fst(kaldifst.StdVectorFst())
    with pytest.raises(FormatError, match='Lattice: arc type is "lattice4"'):
        Graph.from_fst(kaldifst.Lattice())
    with pytest.raises(GraphError, match="StdVectorFst: the epsilon arcs form a cycle: 0 -> 1 -> 0"):
        Graph.from_fst(kaldifst_of([(0, 1, 0, 0, 0.0), (1, 0, 0, 0, 0.0)], {1: 0.0}, 2))


def test_pywrapfst():
    pywrapfst = pytest.importorskip("pywrapfst", reason="pywrapfst (package pynini) is not installed")
    fst = pywrapfst.VectorFst()
    fst.add_states(4)
    fst.set_start(0)
    for source, destination, label, word, cost in examples.ARCS:
        fst.add_arc(source, pywrapfst.Arc(label, word, pywrapfst.Weight("tropical", cost), destination))
    for state, cost in examples.FINALS.items():
        fst.set_final(state, cost)
    for written in (fst, pywrapfst.convert(fst, "const")):
        examples.same(Graph.from_fst(written), Graph.from_fst(EXAMPLE))
    with pytest.raises(TypeError, match='fst: expected an FST with arc type "standard", got VectorFst with "log"'):
        Graph.from_fst(pywrapfst.VectorFst(arc_type="log"))


def test_a_blank_that_no_arc_reads(tmp_path):
    path = file_of(EXAMPLE, tmp_path)
    words = list(examples.WORDS)
    assert Graph.load(path, words=words, blank=3).blank == 3
    for load in (
        lambda **given: Graph.load(path, words=words, **given),
        lambda **given: Graph.from_fst(EXAMPLE, **given),
    ):
        with pytest.raises(
            ValueError, match=r"blank: expected a column that the graph reads, 0 to 3, got 4; .*--tokens"
        ):
            load(blank=4)
        assert load(blank=4, num_columns=5).blank == 4  # which says that there is one
        assert load(blank="x", tokens=[*"abcd", "x"]).blank == 4
        for wrong in (True, 2.0):
            with pytest.raises(TypeError, match="blank: expected a column, which is a whole number, got"):
                load(blank=wrong)
    gap = kaldifst_of([(0, 1, 1, 0, 0.5), (0, 1, 3, 0, 0.5)], {1: 0.0}, 2)
    with pytest.warns(UserWarning, match="blank: no arc of the graph reads column 1 of 3; .*--tokens"):
        assert Graph.from_fst(gap, blank=1).blank == 1


def test_a_table_of_as_many_words_cannot_be_told_from_the_right_one(tmp_path):
    """As docs/guide/graphs.md says; one with fewer is an error."""
    path = file_of(EXAMPLE, tmp_path)
    assert Graph.load(path, words=["<eps>", *reversed(examples.WORDS[1:])]).word_symbols[1] == examples.WORDS[-1]
    with pytest.raises(GraphError, match="writes word 4, which has no symbol among the 4 words"):
        Graph.load(path, words=examples.WORDS[:-1])


def test_a_grammar_is_no_decoding_graph(tmp_path):
    """Its arcs write the words that they read; a graph of one word that has the number of a label is none."""
    arcs = [(0, 1, 1, 1, 0.5), (0, 1, 2, 2, 0.5), (1, 1, 1, 1, 0.25), (1, 0, 0, 0, 0.5)]
    words = "expected a decoding graph .TLG., .* got one whose arcs write what they read, as a grammar"
    with pytest.warns(UserWarning, match=words):
        assert Graph.load(file_of(kaldifst_of(arcs, {1: 0.0}, 2), tmp_path), num_columns=3).num_arcs == 4
    with pytest.raises(GraphError, match=r"reads column 1, but there are 1 columns; is it a grammar \(G\), whose"):
        Graph.load(tmp_path / "fst", num_columns=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for other in ((0, 1, 2, 3, 0.5), (1, 1, 2, 0, 0.5), (1, 0, 0, 2, 0.5)):
            Graph.load(file_of(kaldifst_of([*arcs, other], {1: 0.0}, 2), tmp_path), num_columns=3)
        Graph.load(tmp_path / "fst", label_to_column=[-1, 1, 0])
