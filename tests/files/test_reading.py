"""The contract of loaders: damage is a FormatError that names the file, and what is no fault of the file passes."""

import ast
import errno
import gzip
import io
import lzma
import re
import struct
import tokenize
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

import arcbeam
from arcbeam import CapacityError, FormatError, Graph, GraphError, KenLM, LanguageModel, SymbolTable, TokenTable
from arcbeam.core.errors import ArcbeamError, MissingDependencyError
from arcbeam.files.log_probs import find_inputs, read_all
from arcbeam.files.reading import LONGEST_REASON, naming, reading
from arcbeam.recipe.lexicon import Lexicon
from arcbeam.recipe.word_lists import read_words, words_of_arpa
from arcbeam.report.references import read_references
from tests.graph import examples

PACKAGE = Path(str(arcbeam.__file__)).parent
DAMAGE = [
    lzma.LZMAError("corrupt input data"),
    gzip.BadGzipFile("CRC check failed"),
    EOFError("the file ended"),
    zlib.error("Error -3"),
    zipfile.BadZipFile("Bad CRC-32"),
    RecursionError("maximum recursion depth exceeded"),
    TypeError("not a number"),
    ValueError("not a value"),
    tokenize.TokenError("EOF in multi-line statement", (1, 0)),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    struct.error("unpack requires a buffer"),
    KeyError("weights"),
    IndexError("list index out of range"),
    OverflowError("too large"),
    RuntimeError("INTERNAL"),
    NotImplementedError("That compression method is not supported"),
    io.UnsupportedOperation("not readable"),
    OSError("Invalid data stream"),  # as bz2 says
    OSError(errno.EINVAL, "Invalid argument"),  # of a place before the beginning of the file
]


@pytest.mark.parametrize("error", DAMAGE, ids=lambda error: type(error).__name__)
def test_damage_is_a_format_error(error):
    with pytest.raises(FormatError, match=r"^a/b.gz: expected an ARPA file, got one that is damaged") as caught:
        with reading("a/b.gz", "an ARPA file"):
            raise error
    assert type(error).__name__ in str(caught.value) and caught.value.__cause__ is error


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "No such file", "a"),
        PermissionError(errno.EACCES, "Permission denied", "a"),
        OSError(errno.EINVAL, "expected a regular file", "a"),
        MemoryError("Unable to allocate 8 GiB"),
        CapacityError("memory_limit"),
        MissingDependencyError("pip install"),
        UserWarning("made an error"),
        KeyboardInterrupt(),
        GeneratorExit(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_is_no_fault_of_the_file_passes(error):
    with pytest.raises(type(error)) as caught:
        with reading("a", "a file"):
            raise error
    assert caught.value is error


def test_an_error_of_the_system_gets_the_name():
    with pytest.raises(OSError, match=r"^\[Errno 5\] Input/output error: 'a/b'$") as caught:
        with reading(Path("a/b"), "a file"):
            raise OSError(errno.EIO, "Input/output error")
    assert caught.value.filename == "a/b"


@pytest.mark.parametrize("context", [naming, lambda path: reading(path, "a graph")])
@pytest.mark.parametrize("kind", [FormatError, GraphError])
def test_errors_of_ours_get_the_name_once(context, kind):
    for message in ("line 3: expected a word", "a/b: line 3: expected a word"):
        with pytest.raises(kind, match=r"^a/b: line 3: expected a word$") as caught:
            with context(Path("a/b")), context("a/b"):
                raise kind(message)
        assert type(caught.value) is kind


def test_naming_leaves_the_rest_alone():
    with pytest.raises(TypeError, match=r"^blank: expected a token"):
        with naming("a"):
            raise TypeError("blank: expected a token")


def test_reasons_are_one_line_that_is_not_long():
    with pytest.raises(FormatError) as caught:
        with reading("a", "a file"):
            raise ValueError("x\n" * 5000)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 2 * LONGEST_REASON


def test_the_hierarchy():
    assert issubclass(FormatError, ArcbeamError) and issubclass(FormatError, ValueError)
    assert issubclass(GraphError, ArcbeamError) and issubclass(GraphError, ValueError)
    assert not issubclass(GraphError, FormatError) and not issubclass(FormatError, GraphError)


def test_arguments_are_not_the_fault_of_a_file(tmp_path):
    path = tmp_path / "graph"
    examples.example().save(path)
    (tmp_path / "words").write_text("<eps> 0\nno id\n")
    with pytest.raises(FormatError, match=rf"^{tmp_path / 'words'}, line 2"):
        Graph.load(path, words=tmp_path / "words")
    with pytest.raises(TypeError, match=r"^blank: expected a token"):
        Graph.load(path, blank=1.5)
    for call in (lambda: LanguageModel.build(path, max_bytes=1.5), lambda: read_words(path, max_bytes=[])):
        with pytest.raises(TypeError, match="max_bytes: expected a number of bytes"):
            call()
    with pytest.raises(ValueError, match="max_bytes: expected a number of bytes") as caught:
        words_of_arpa(path, "many")
    assert not isinstance(caught.value, FormatError)


def test_progress_of_the_caller_is_not_the_fault_of_a_file(tmp_path):
    def fail(event):
        raise KeyError("of the caller")

    path = tmp_path / "lm.arpa"
    path.write_text("\\data\\\nngram 1=2\n\\1-grams:\n-1\t<s>\n-1\t</s>\n\\end\\\n")
    with warnings.catch_warnings(), pytest.raises(KeyError, match="of the caller"):
        warnings.simplefilter("ignore")
        LanguageModel.build(path, progress=fail)


LOADERS = {
    "graph": Graph.load,
    "language model": LanguageModel.load,
    "ARPA": lambda path: LanguageModel.build(path, progress=False),
    "symbols": SymbolTable.read,
    "tokens": TokenTable.read,
    "words": read_words,
    "words of an ARPA": words_of_arpa,
    "lexicon": lambda path: Lexicon.from_file(path, TokenTable.from_list(["a"])),
    "references": lambda path: read_references([path]),
    "inputs": lambda path: list(read_all(find_inputs([f"ark:{path}"]))),
    "icefall": arcbeam.TransducerDecoder.from_icefall,
    "nemo": arcbeam.TransducerDecoder.from_nemo,
    "KenLM": KenLM,
}


@pytest.mark.parametrize("name", LOADERS)
def test_errors_of_the_system_stay(tmp_path, name):
    if name == "KenLM":
        pytest.importorskip("kenlm", reason="the package kenlm is missing: pip install '.[kenlm]'")
    with pytest.raises(FileNotFoundError) as caught:
        LOADERS[name](tmp_path / "none")
    assert caught.value.filename == str(tmp_path / "none") or caught.value.filename == tmp_path / "none"
    if name not in ("references",):  # of a folder: the files in it
        with pytest.raises((IsADirectoryError, OSError)) as caught:
            LOADERS[name](tmp_path)
        assert caught.value.errno == errno.EISDIR


@pytest.mark.parametrize("name", [name for name in LOADERS if name not in ("references", "inputs")])
def test_random_bytes_are_a_format_error(tmp_path, name):
    if name == "KenLM":
        pytest.importorskip("kenlm", reason="the package kenlm is missing: pip install '.[kenlm]'")
    for content in (
        b"",
        np.random.default_rng(0).bytes(5000),
        b"\x1f\x8b" + bytes(99),
        b"\xfd7zXZ\0" + bytes(99),
        b"BZh",
    ):
        path = tmp_path / "file"
        path.write_bytes(content)
        try:
            LOADERS[name](path)
        except FormatError as error:
            assert str(path) in str(error)
        else:
            assert (name, content) in (("symbols", b""), ("words", b""), ("tokens", b"BZh"))


def test_other_exceptions_are_caught_in_one_place():
    """What a loader reads goes through `reading`: no list of other modules' exceptions besides."""
    foreign = re.compile(
        r"LZMAError|BadGzipFile|zlib\.error|BadZipFile|TarError|YAMLError|UnpicklingError|SafetensorError"
    )
    found = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ExceptHandler) and node.type is not None and foreign.search(ast.unparse(node.type)):
                found.setdefault(path.name, []).append(node.lineno)
    assert found == {}
