"""A file that stands where another belongs is called what it is."""

import gzip
import io
import lzma

import numpy as np
import pytest

import arcbeam
from arcbeam.core.errors import FormatError
from arcbeam.files.kinds import BEGINNINGS, kind_of
from arcbeam.graph import graph_file
from arcbeam.lm import kenlm_file, lm_file
from arcbeam.recipe.word_lists import words_of_arpa
from arcbeam.report.references import read_references
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
        (array.getvalue(), "an .npz of NumPy"),
        (b"\n\\data\\\nngram 1=3\n", "an ARPA language model"),
        (lzma.compress(b"\\data\\\nngram 1=3\n"), "a file packed by xz, an ARPA language model: give it as lm="),
        (gzip.compress(b"\\data\\\nngram 1=3\n"), "a file packed by gzip, an ARPA language model: give it as lm="),
        (gzip.compress(b"some text"), "a file packed by gzip$"),
        (lzma.compress(b"\\data\\")[:9], "a file packed by xz$"),
        (b"\x1f\x8bdamaged", "a file packed by gzip$"),
        (b"<blank> 0\na 1\nb 2\n", "a table of symbols and their numbers, as tokens="),
        (b"<eps> 1\na 2\n  3\n", "a table of symbols"),
        (b"a 0\nb 2\nc 3\n", "a file that begins with"),
        (b"0\n1\n2\n3\n", "a file that begins with"),
        (b"a 0\nb 1\nc", "a file that begins with"),
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


def test_where_a_text_belongs_by_later_bytes(tmp_path):
    array = io.BytesIO()
    np.savez(array, x=np.full(9, -3.7))
    for data, name in [
        (array.getvalue(), "an .npz of NumPy"),
        (b"utterance \0BFM \4\x9f\xff", r"an archive of Kaldi \(ark:FILE\)"),
        (b"a word of \xff", "the byte 0xff at byte 10"),
    ]:
        (tmp_path / "text").write_bytes(data)
        (tmp_path / "text.scp").write_bytes(data)
        for read in (
            lambda: arcbeam.TokenTable.read(tmp_path / "text"),
            lambda: read_references([tmp_path / "text"]),
            lambda: list(arcbeam.read_log_probs(tmp_path / "text.scp")),
        ):
            with pytest.raises(FormatError, match=rf"expected text in UTF-8, got {name}$"):
                read()


def test_where_a_language_model_belongs(tmp_path):
    examples.example().save(tmp_path / "graph")
    (tmp_path / "arpa").write_text("\\data\\\nngram 1=3\n" + 99 * "\n")
    with pytest.raises(FormatError, match=r"expected a language model of arcbeam, got a graph of arcbeam$"):
        arcbeam.LanguageModel.load(tmp_path / "graph")
    with pytest.raises(FormatError, match=r"expected a language model of arcbeam, got an ARPA .*: give it as"):
        arcbeam.LanguageModel.load(tmp_path / "arpa")
    with pytest.raises(FormatError, match=r"expected an ARPA language model, got a graph of arcbeam$"):
        arcbeam.LanguageModel.build(tmp_path / "graph")
    (tmp_path / "tokens").write_text("<blank> 0\na 1\nb 2\n")
    for read in (arcbeam.LanguageModel.build, lambda path: arcbeam.ctc_decoder(["<blank>", "a"], path)):
        with pytest.raises(
            FormatError, match=r"expected an ARPA .*, got a table of symbols .* as tokens= \(--tokens\)"
        ):
            read(tmp_path / "tokens")


def test_where_a_model_of_kenlm_belongs(tmp_path):
    pytest.importorskip("kenlm")
    examples.example().save(tmp_path / "graph")
    with pytest.raises(
        FormatError, match=r"expected an ARPA or KenLM's binary language model, got a graph of arcbeam$"
    ):
        arcbeam.KenLM(tmp_path / "graph")


def test_one_path_at_a_time(tmp_path):
    with pytest.raises(TypeError, match="path: expected the path of one file or folder, got list"):
        arcbeam.read_log_probs([tmp_path])


def test_a_number_is_no_path():
    """Python opens the file that the process has open under this number."""
    for read in (
        arcbeam.TokenTable.read,
        arcbeam.SymbolTable.read,
        lambda path: arcbeam.BoostingTree.read(path, ["a"]),
    ):
        with pytest.raises(TypeError, match=r"expected str, bytes or os.PathLike object, not int"):
            read(0)


def test_an_arpa_that_was_cut_short(tmp_path):
    (tmp_path / "arpa").write_text("\\data\\\nngram 1=3\n\n\\1-grams:\n-1 <s>\n-1 a\n")
    with pytest.raises(FormatError, match="got one that ends among its unigrams, at line 6: is the file complete"):
        words_of_arpa(tmp_path / "arpa")
