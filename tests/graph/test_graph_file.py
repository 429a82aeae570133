"""Our own file format: round trips, and what it refuses."""

import json
import os
import pickle
import stat
import struct
import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given

from arcbeam import LanguageModel, SymbolTable
from arcbeam.core.errors import FormatError, GraphError
from arcbeam.files import section_file
from arcbeam.files._file_map import checksum
from arcbeam.graph import graph_file
from arcbeam.graph.graph import Graph, Pronunciations
from arcbeam.lm import lm_file
from tests.graph import examples, sealing


@pytest.fixture
def path(tmp_path):
    examples.example().save(tmp_path / "graph")
    return tmp_path / "graph"


@given(examples.graphs())
def test_arcs_save_load_save(tmp_path_factory, given_graph):
    arcs, finals, num_states = given_graph
    folder = tmp_path_factory.mktemp("graph")
    graph = Graph.from_arcs(arcs, finals=finals, num_states=num_states)
    graph.save(folder / "a")
    loaded = Graph.load(folder / "a")
    examples.same(graph, loaded)
    loaded.save(folder / "b")
    assert (folder / "a").read_bytes() == (folder / "b").read_bytes()


def test_everything_survives(path):
    graph, loaded = examples.example(), Graph.load(path)
    examples.same(graph, loaded)
    assert loaded.info() == graph.info()
    assert loaded.pronunciations.of(1) == [[0, 1], [0, 0, 1]] and loaded.pronunciations.of(4) == [[]]
    pieces = examples.example(join="pieces", separator="▁", separator_column=None, blank="b", meta={})
    pieces.save(os.fsencode(path))
    examples.same(pieces, Graph.load(path))
    assert Graph.load(path).blank == 1


def test_arrays_lie_in_the_file_at_multiples_of_64(path):
    loaded = Graph.load(path)
    assert not loaded.targets.flags.owndata and not loaded.targets.flags.writeable
    sections = sealing.sections(path.read_bytes())
    assert all(offset % 64 == 0 for offset, _ in sections.values())
    assert path.stat().st_size == max(offset + size for offset, size in sections.values())


def test_a_copy_in_memory_needs_no_file(path):
    mapped, copied = Graph.load(path), Graph.load(path, in_memory=True)
    examples.same(copied, mapped)
    assert copied.targets.flags.owndata and not copied.targets.flags.writeable
    os.truncate(path, 100)
    copied.check_file()
    with pytest.raises(FormatError, match="shrank from"):
        mapped.check_file()
    examples.same(copied, examples.example())
    examples.same(pickle.loads(pickle.dumps(copied)), copied)
    copied.save(path)
    examples.same(Graph.load(path), copied)
    with pytest.raises(ValueError, match="contains join: leave them out"):
        Graph.load(path, in_memory=True, join="pieces")


def test_tables_that_contradict_those_in_the_file(path):
    words, tokens = Graph.load(path).word_symbols, list(Graph.load(path).tokens.tokens)
    others = [*dict(words.items()).values(), "more"]
    assert Graph.load(path, words=others).word_symbols[len(others) - 1] == "more"  # Kaldi's has '#0', too
    others[2] = "other"
    with pytest.raises(
        ValueError, match=r"^words: they .* differ in 1 of 5: 2 is '.*' there, and 'other' here.*force=True"
    ):
        Graph.load(path, words=others)
    with pytest.raises(ValueError, match=r"^tokens: they are those of another graph"):
        Graph.load(path, tokens=tokens[::-1])
    assert Graph.load(path, words=others, force=True).word_symbols[2] == "other"
    with pytest.raises(ValueError, match="force: expected words or tokens"):
        Graph.load(path, force=True)


def test_tables_given_to_load_replace_those_in_the_file(path):
    given = {"words": ["", "one", "two", "three", "four"], "tokens": ["p", "q", "r", "s"]}
    graph = Graph.load(path, **given, blank="r", force=True)
    assert graph.word_symbols[4] == "four" and graph.tokens.tokens == ("p", "q", "r", "s") and graph.blank == 2
    assert Graph.load(path, blank="a").blank == 0
    with pytest.raises(ValueError, match="tokens: expected 4 columns, got 2"):
        Graph.load(path, tokens=["p", "<blk>"])
    with pytest.raises(GraphError, match="writes word 4, which has no symbol among the 2 words"):
        Graph.load(path, words=["", "one"])
    with pytest.raises(ValueError, match="contains label_to_column, join: leave them out"):
        Graph.load(path, label_to_column=[0, 1], join="words")


def test_a_mapped_graph_is_pickled_by_path(path):
    loaded = Graph.load(path)
    data = pickle.dumps(loaded)
    assert len(data) < 1000
    examples.same(pickle.loads(data), loaded)
    examples.example(meta={"another": 1}).save(path)
    with pytest.raises(FormatError, match="replaced since"):
        pickle.loads(data)


def test_other_graphs_are_pickled_with_their_arrays(path):
    for graph in (examples.example(), Graph.load(path, blank="a")):
        copy = pickle.loads(pickle.dumps(graph))
        examples.same(copy, graph)
        assert not copy.targets.flags.writeable


def test_another_blank_than_that_in_the_file_is_warned_of(tmp_path):
    path = tmp_path / "graph.arcbeam"
    Graph.from_arcs([(0, 0, 1, 0, 0.0)], finals={0: 0.0}, tokens=["a", "<blank>"]).save(path)
    with pytest.warns(UserWarning, match=r"blank: expected none, .* column 1 \('<blank>'\), got column 0 \('a'\),"):
        assert Graph.load(path, blank=0).blank == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Graph.load(path, blank="<blank>").blank == Graph.load(path).blank == 1


def test_a_name_of_openfst_s_is_warned_of(tmp_path):
    with pytest.warns(
        UserWarning, match=r"^path: save writes a graph of arcbeam, and .*graph.fst is a name of OpenFst's"
    ):
        examples.example().save(tmp_path / "graph.fst")
    examples.same(examples.example(), Graph.load(tmp_path / "graph.fst"))


def test_save_replaces_the_file_as_a_whole(path, monkeypatch):
    loaded = Graph.load(path)
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(section_file, "seal_header", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            loaded.save(path)
    assert path.read_bytes() == before and os.listdir(path.parent) == ["graph"]
    examples.example(meta={"new": 1}).save(path)  # while the old file is mapped
    loaded.check_file()
    examples.same(loaded, examples.example())
    assert Graph.load(path).meta == {"new": 1} and os.listdir(path.parent) == ["graph"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
    with pytest.raises(FileNotFoundError):
        loaded.save(path.parent / "no" / "such" / "folder")


def test_refuses_other_files(path):
    path.write_bytes(b"PK\x03\x04 and so on")
    with pytest.raises(FormatError, match="expected a graph of arcbeam or an OpenFst"):
        Graph.load(path)
    path.write_bytes(lm_file.KIND.magic + bytes(100))
    with pytest.raises(FormatError, match=r"got a language model of arcbeam, which LanguageModel.load"):
        Graph.load(path)
    with pytest.raises(FormatError, match=r"expected a graph of arcbeam, got a file that begins"):
        path.write_bytes(bytes(100))
        graph_file.read(path)
    with pytest.raises(OSError, match="directory"):
        Graph.load(path.parent)


def test_refuses_padding_that_is_not_zero(path):
    data = path.read_bytes()
    path.write_bytes(data[:50] + b"\1" + data[51:])
    with pytest.raises(FormatError, match="bytes 40 to 63 belong to no section, but are not all zero"):
        Graph.load(path)


def patched(array, at, field, value):
    out = array.copy()
    if field is None:
        out[at] = value
    else:
        out[field][at] = value
    return out


FORGED = {
    "first arc": ("states", 2, "first_arc", 1 << 31, "arcs"),
    "first emitting arc": ("states", 0, "first_emitting", 8, "state 0: arcs 0, emitting from 8, up to 6"),
    "last state": ("states", 4, "first_arc", 1000, "run from 0 to 1000; expected 0 to 9"),
    "depth too large": ("states", 0, "depth", 9, "state 0: epsilon depth is 9, beyond the graph's 2"),
    "depth too small": ("states", 2, "depth", 0, "an epsilon arc leads from depth 0 to state 2 of depth 0"),
    "smallest weight": ("states", 1, "smallest_weight", 7.0, "state 1: smallest weight is 7; expected 0.125"),
    "next state": ("targets", 3, "next_state", 4, "state 0, arc 3: leads to state 4.* 0 to 3"),
    "weight": ("targets", 3, "weight", np.nan, "state 0, arc 3: weight is nan"),
    "column": ("columns", 5, None, 4, "state 0, arc 5: reads column 4 after column 1; expected .* 4 columns"),
    "order of columns": ("columns", 5, None, 0, "state 0, arc 5: reads column 0 after column 1"),
    "epsilon that reads": ("columns", 0, None, 0, "state 0, arc 0: an epsilon arc reads column 0"),
    "emitting epsilon": ("columns", 3, None, 0xFFFF, "state 0, arc 3: reads column 65535"),
    "final cost": ("finals", 1, None, -np.inf, "state 1: final cost is -inf"),
    "word": ("words", 6, None, 77, "state 1, arc 6: writes word 77"),
    "pronunciation ends": ("pronunciation.offsets", 1, None, 6, "pronunciation 1 ends before it begins"),
    "pronunciations end": ("pronunciation.offsets", 4, None, 9, "do not fit"),
    "pronunciation column": ("pronunciation.columns", 0, None, 4, "read column 4, but there are 4"),
    "symbol ends": ("symbols.offsets", 1, None, 8, "symbol 1 ends before it begins"),
    "symbol offsets": ("symbols.offsets", 5, None, 99, "do not fit together"),
    "symbol in a character": ("symbols.offsets", 3, None, 10, "within a character"),
    "symbol ids": ("symbols.ids", 2, None, 1, "ids do not ascend"),
    "symbol text": ("symbols.text", 0, None, 0xFF, "not UTF-8"),
    "token offsets": ("tokens.offsets", 0, None, 1, "do not fit together"),
    "token twice": ("tokens.text", 1, None, ord("a"), "token 'a' occurs twice, in columns 0 and 1$"),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_arrays(path, name):
    section, at, field, value, message = FORGED[name]
    data = path.read_bytes()
    array = sealing.array(data, section)
    path.write_bytes(sealing.replace(data, section, patched(array, at, field, value)))
    with pytest.raises((FormatError, GraphError), match=rf"^{path}: .*{message}"):
        Graph.load(path)


ABOUT = {
    "start": (4, "start is 4; expected 0 to 3"),
    "max_depth": (5, "max_depth is 5; expected 0 to 4"),
    "num_columns": (70_000, "num_columns is 70000"),
    "width_is_exact": (1, "width_is_exact is 1; expected bool"),
    "blank": (4, "the blank|blank is 4"),
    "join": ("letters", "join is 'letters'"),
    "separator": (5, "separator is 5"),
    "separator_column": (4, "separator_column is 4"),
    "meta": ({"a": [1]}, r"meta 'a' is \[1\]"),
    "more": (1, "'more'"),
}


@pytest.mark.parametrize("name", ABOUT)
def test_forged_numbers(path, name):
    value, message = ABOUT[name]
    data = path.read_bytes()
    about = json.loads(sealing.array(data, "about").tobytes()) | {name: value}
    path.write_bytes(sealing.replace(data, "about", np.frombuffer(json.dumps(about).encode(), np.uint8)))
    with pytest.raises(FormatError, match=message):
        Graph.load(path)


@pytest.mark.parametrize("text", [b"", b"[]", b"[" * 100_000, b"{", b'{"start": 1}', b"\xff", b"1" * 5000])
def test_forged_json(path, text):
    path.write_bytes(sealing.replace(path.read_bytes(), "about", np.frombuffer(text, np.uint8)))
    with pytest.raises(FormatError, match="section 'about'"):
        Graph.load(path)


def test_forged_tables(path):
    data = path.read_bytes()
    arrays = {name: sealing.array(data, name) for name in sealing.sections(data)}
    for name in arrays:
        path.write_bytes(sealing.pack({other: array for other, array in arrays.items() if other != name}))
        with pytest.raises(FormatError, match="is missing"):
            Graph.load(path)
    for name in ("states", "targets", "columns", "words"):
        path.write_bytes(sealing.pack(arrays | {name: arrays[name][:-1]}))
        with pytest.raises((FormatError, GraphError), match="elements, expected"):
            Graph.load(path)
    path.write_bytes(sealing.pack(arrays | {"extra": np.zeros(1, np.uint8)}))
    with pytest.raises(FormatError, match="'extra' is not known"):
        Graph.load(path)
    for field, value in ((32, 1 << 62), (32, 65), (40, 1 << 63), (40, 7)):  # offset, size
        path.write_bytes(sealing.reseal(sealing.poke(data, 64 + field, struct.pack("<Q", value))))
        with pytest.raises(FormatError, match="section 'states' cannot be at byte"):
            Graph.load(path)
    for count in (65, 1 << 31):
        path.write_bytes(sealing.reseal(sealing.poke(data, 12, struct.pack("<I", count))))
        with pytest.raises(FormatError, match=f"{count} sections do not fit"):
            Graph.load(path)


def test_bad_pronunciations():
    def arrays(words, offsets, columns):
        return Pronunciations(np.array(words, "<u4"), np.array(offsets, "<u4"), np.array(columns, "<u2"))

    for bad, message in (
        (arrays([1], [0], []), "do not fit"),
        (arrays([1, 2], [0, 3, 2], [0, 1]), "pronunciation 1 ends before"),
        (arrays([1], [0, 1], [4]), "read column 4, but there are 4"),
        (Pronunciations(np.zeros(1), np.zeros(2, "<u4"), np.zeros(0, "<u2")), "pronunciations.words: expected <u4"),
    ):
        with pytest.raises(GraphError, match=message):
            examples.example(pronunciations=bad)


def test_checksum_of_the_example_file_is_stable(path):
    # What version 1 means: a change here needs a new version.
    assert f"{checksum(path.read_bytes()):016x}" == "3de15d7ceb5ec4d0"


CHANGED = """
import os, sys
import numpy as np
from arcbeam import CtcDecoder, FormatError, Graph
path, size = sys.argv[1], int(sys.argv[2])
graph = Graph.load(path)
decoder, frames = CtcDecoder(graph), np.full((1, 5, graph.num_columns), -np.log(graph.num_columns), np.float32)
decoder.decode(frames)
# As if it shrank after the check.
check, Graph.check_file = Graph.check_file, lambda self: setattr(Graph, "check_file", check)
os.truncate(path, 0)
os.truncate(path, size)
for use in (lambda: decoder.decode(frames), lambda: CtcDecoder(graph), lambda: graph.save(path + ".other")):
    try:
        use()
    except FormatError as error:
        print(error)
"""


@pytest.mark.parametrize("part", ["empty", "third", "whole"])
def test_a_file_that_is_changed_in_place_during_a_search(tmp_path, part):
    path, n = tmp_path / "graph", 20_000
    chain = np.arange(n)
    Graph.from_arcs((chain, chain + 1, chain % 3 + 1, chain * 0, chain * 0.0), finals={n: 0.0}).save(path)
    whole = path.stat().st_size
    size = {"empty": 0, "third": whole // 3, "whole": whole}[part]
    os.utime(path, ns=(1, 1))
    done = subprocess.run([sys.executable, "-c", CHANGED, path, str(size)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    what = "was changed in place" if part == "whole" else f"shrank from {whole} to {size} bytes"
    assert [f"the file {what} while it was mapped" in line for line in done.stdout.splitlines()] == [True] * 3
    assert not path.with_name("graph.other").exists()


SYMBOLS = SymbolTable.from_list(["<eps>"])


@pytest.mark.parametrize("read", [Graph.load, LanguageModel.load, LanguageModel.build, SYMBOLS.write])
def test_numbers_are_no_paths(read):
    """Of an open file they would be, which would be closed."""
    file = os.open(os.devnull, os.O_RDWR)
    with pytest.raises(TypeError, match=r"(not|got) int"):
        read(file)
    os.close(file)


def test_a_path_is_loaded():
    with pytest.raises(TypeError, match=r"columns: got the path 'graph\.arcbeam', which Graph\.load opens"):
        Graph("graph.arcbeam")
