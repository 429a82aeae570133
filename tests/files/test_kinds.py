"""A file that stands where another belongs is called what it is."""

import io
import lzma

import numpy as np
import pytest

import arcbeam
from arcbeam.core.errors import FormatError
from arcbeam.files.kinds import BEGINNINGS, kind_of
from arcbeam.graph import graph_file
from arcbeam.lm import kenlm_file, lm_file
from tests.graph import examples


def test_the_beginnings_are_those_of_the_formats():
    assert kind_of(graph_file.KIND.magic) == graph_file.KIND.name
    assert kind_of(lm_file.KIND.magic).startswith(lm_file.KIND.name)
    assert kind_of(kenlm_file.MAGIC).startswith("KenLM's binary")
    assert all(kind_of(beginning + b"...") == name for beginning, name in BEGINNINGS.items())
    assert kind_of(b"") == "an empty file" and kind_of(b"qwertyuiop") == "a file that begins with b'qwertyui'"


def test_where_a_graph_belongs(tmp_path):
    array = io.BytesIO()
    np.savez(array, x=np.zeros(3))
    for data, name in [
        (array.getvalue(), "a zip archive, such as an .npz of NumPy"),
        (b"\n\\data\\\nngram 1=3\n", "an ARPA language model"),
        (lzma.compress(b"\\data\\"), "a file packed by xz"),
        (b"\x93ARCBLM\n" + bytes(64), "a language model of arcbeam, which LanguageModel.load"),
    ]:
        (tmp_path / "graph").write_bytes(data)
        with pytest.raises(FormatError, match=rf"expected a graph of arcbeam or an OpenFst .* file, got {name}"):
            arcbeam.Graph.load(tmp_path / "graph")


def test_where_a_text_belongs(tmp_path):
    examples.example().save(tmp_path / "graph.arcbeam")
    for read in (arcbeam.TokenTable.read, arcbeam.SymbolTable.read):
        with pytest.raises(FormatError, match=r"line 1: expected text in UTF-8, got a graph of arcbeam$"):
            read(tmp_path / "graph.arcbeam")
