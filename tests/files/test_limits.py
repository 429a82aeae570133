"""Files that are small and need much memory: refused before any is allocated, unless the caller raises the limit."""

import bz2
import gzip
import lzma
import os
import struct
import subprocess
import sys
import warnings
import zipfile
import zlib

import numpy as np
import pytest

from arcbeam import CtcDecoder, FormatError, Graph, GraphError, KenLM, LanguageModel, SymbolTable, TokenTable
from arcbeam.files.log_probs import count, find_inputs, read_all
from arcbeam.files.packed_files import XZ_BYTES, PackedFile
from arcbeam.files.reading import EXPANSION, SMALL_BYTES, Budget
from arcbeam.lm import kenlm
from arcbeam.recipe.language_model import read_language_model
from arcbeam.recipe.lexicon import Lexicon
from arcbeam.recipe.word_lists import read_words, words_of_arpa
from tests.decode import kenlm_files
from tests.files.mutants import little_memory  # noqa: F401 - a fixture
from tests.files.test_fuzz import npy, npz
from tests.recipe.test_arpa import GOOD

PACKERS = {
    "gz": lambda data: gzip.compress(data, 1),
    "xz": lambda data: lzma.compress(data, preset=0),
    "bz2": bz2.compress,
}
TOKENS = TokenTable.from_list(["<blank>", "a", "b"])
LARGE = SMALL_BYTES + (1 << 20)

pytestmark = pytest.mark.usefixtures("little_memory")


def in_pieces(path, packer, piece, times):
    """A packed file of a repeated piece, written without having all of it."""
    made = {"gz": gzip.GzipFile, "xz": lzma.LZMAFile, "bz2": bz2.BZ2File}[packer]
    with made(path, "wb") as file:
        for _ in range(times):
            file.write(piece)
    return path


def test_the_budget():
    with pytest.raises(
        FormatError, match=r"^a: expected at most 33,554,432 bytes of content from a file of 5 bytes, got"
    ):
        Budget("a", 5).take(SMALL_BYTES + 1)
    assert Budget("a", 1 << 30).most == EXPANSION << 30
    assert Budget("a", 5, "2GiB").most == 2 << 30
    budget = Budget("a", 5, 10)
    budget.take(6)
    budget.take(4)
    with pytest.raises(FormatError, match="if you trust the file, raise max_bytes"):
        budget.take(1)


@pytest.mark.parametrize("packer", PACKERS)
def test_packed_files_are_read_as_they_are(tmp_path, packer):
    """In several streams, with what xz may put between them, and empty ones."""
    path = tmp_path / "a"
    pack = PACKERS[packer]
    padding = bytes(8) if packer == "xz" else b""
    for content, packed in [
        (b"abc", pack(b"abc")),
        (b"", pack(b"")),
        (b"abcdef", pack(b"abc") + padding + pack(b"def") + padding),
        (b"abcdef" * 99_999, pack(b"abcdef" * 99_999)),
    ]:
        path.write_bytes(packed)
        for size in (1, 7, 1 << 20):
            if size == 1 and len(content) > 99:
                continue
            with PackedFile(path) as file:
                assert b"".join(file.blocks(size)) == content
    path.write_bytes(pack(b"abc" * 99)[:-3])
    with pytest.raises(FormatError, match=rf"^{path}: expected a compressed file, got one that is damaged"):
        list(PackedFile(path).blocks())
    path.write_bytes(pack(b"abc") + b"more")
    with pytest.raises(FormatError, match=rf"^{path}: expected a compressed file, got one that is damaged"):
        list(PackedFile(path).blocks())


TEXTS = {
    "language model": lambda path, **limit: LanguageModel.build(path, progress=False, **limit),
    "automaton": lambda path, **limit: read_language_model(path, ["a"], backoff_label=2, **limit),
    "words of an ARPA": words_of_arpa,
    "words": read_words,
    "lexicon": lambda path, **limit: Lexicon.from_file(path, TOKENS, **limit),
    "spelling": lambda path, **limit: Lexicon.spell(path, TOKENS, **limit),
    "graph": lambda path, **limit: Graph.build(TOKENS, path, path, progress=False, **limit),
    "KenLM": KenLM,
}


@pytest.mark.parametrize("case", TEXTS)
def test_texts_that_are_packed_small(tmp_path, case):
    if case == "KenLM":
        kenlm_files.need_kenlm()
    if case == "graph":
        pytest.importorskip("kaldifst", reason="builds graphs: .[build]")
    path = in_pieces(tmp_path / "a.txt", "gz", b"\n" * (1 << 20), 1)
    with pytest.raises(FormatError, match=rf"^{path}: expected at most 1,000,000 bytes of decompressed content from a"):
        TEXTS[case](path, max_bytes="1MB")
    if case == "words":
        assert TEXTS[case](path, max_bytes="1MiB") == []
        return
    with pytest.raises(ValueError, match=r"expected|empty|End of file") as caught:  # it holds nothing
        TEXTS[case](path, max_bytes="1MiB")
    assert "max_bytes" not in str(caught.value)


@pytest.mark.parametrize("packer", PACKERS)
def test_what_a_small_file_may_come_to(tmp_path, packer):
    path = in_pieces(tmp_path / "lm.arpa", packer, (b" " * 1023 + b"\n") * 1024, LARGE >> 20)
    assert path.stat().st_size < 1 << 18
    with pytest.raises(
        FormatError, match=rf"^{path}: expected at most 33,554,432 bytes of decompressed content from a"
    ):
        TEXTS["language model"](path)
    with pytest.raises(FormatError, match=r"expected \\data\\, got the end of the file"):
        TEXTS["language model"](path, max_bytes="34MiB")


def test_a_limit_may_be_lower(tmp_path):
    path = tmp_path / "lm.arpa.gz"
    path.write_bytes(gzip.compress(GOOD.encode()))
    with pytest.raises(FormatError, match="expected at most 100 bytes of decompressed content"):
        words_of_arpa(path, max_bytes=100)
    assert words_of_arpa(path, max_bytes=len(GOOD)) == ["a", "b"]
    path.write_text(GOOD)  # which is not packed, and as large as it is
    assert words_of_arpa(path, max_bytes=100) == ["a", "b"]


@pytest.mark.parametrize("packer", PACKERS)
def test_lines_without_an_end(tmp_path, packer):
    path = in_pieces(tmp_path / "a.txt", packer, b"a" * (1 << 20), 8)
    for load in (words_of_arpa, read_words, TEXTS["language model"]):
        with pytest.raises(
            FormatError, match=rf"^{path}, line 1: expected lines of at most 1048576 bytes, got a longer"
        ):
            load(path)


def xz_block(dictionary):
    """An .xz file whose header needs a dictionary of gigabytes."""
    packed = bytearray(lzma.compress(b"abc", check=lzma.CHECK_CRC32))
    assert packed[12 + 2 : 12 + 4] == b"\x21\x01"  # LZMA2, and one byte that is the size of its dictionary
    packed[12 + 4] = dictionary
    size = (packed[12] + 1) * 4
    packed[12 + size - 4 : 12 + size] = struct.pack("<I", zlib.crc32(packed[12 : 12 + size - 4]))
    return bytes(packed)


def test_a_dictionary_of_gigabytes(tmp_path):
    path = tmp_path / "words.xz"
    path.write_bytes(xz_block(22))  # 8 MiB
    assert read_words(path) == ["abc"]
    path.write_bytes(xz_block(37))  # 1.5 GiB
    with pytest.raises(FormatError, match=rf"^{path}: expected a compressed file, .*Memory usage limit"):
        read_words(path)
    path.write_bytes(xz_block(30))  # 128 MiB
    assert XZ_BYTES > 128 << 20 and read_words(path) == ["abc"]


@pytest.mark.parametrize("load", [TEXTS["language model"], TEXTS["automaton"]])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_counts_that_there_is_no_room_for(tmp_path, load, order):
    path = tmp_path / "lm.arpa"
    old = next(line for line in GOOD.splitlines() if line.startswith(f"ngram {order}="))
    path.write_text(GOOD.replace(old, f"ngram {order}=60000000"))
    message = (
        rf"^{path}, line {order + 2}: expected at most (\d+) n-grams of order {order}, "
        r"which is all that (\d+) bytes can hold"
    )
    with pytest.raises(FormatError, match=message):
        load(path)


def test_as_many_n_grams_as_there_is_room_for(tmp_path):
    """The bound is exact: no shorter file holds these."""
    letters = [chr(i) for i in range(33, 127)]
    text = "\\data\\\nngram 1=96\n\\1-grams:\n0 <s>\n0 </s>\n" + "".join(f"0 {c}\n" for c in letters) + "\\end\\"
    (tmp_path / "lm.arpa").write_text(text)
    assert read_language_model(tmp_path / "lm.arpa", letters, backoff_label=99).tally["ngrams"] == (96,)


def test_counts_that_kenlm_has_no_room_for(tmp_path):
    kenlm_files.need_kenlm()
    path = tmp_path / "lm.arpa"
    kenlm_files.random_ngrams(["a", "b"], 3, 1).write(path)
    good = path.read_text()
    KenLM(path)
    old = good.split("ngram 2=")[1].split("\n")[0]
    for new, message in [
        ("50000000", r"expected at most \d+ n-grams of order 2, which is all that \d+ bytes can hold, got 50000000"),
        ("-1", r"expected 'ngram ORDER=COUNT', got 'ngram 2=-1"),
        ("9" * 40, "expected 'ngram ORDER=COUNT', got"),
    ]:
        path.write_text("\n" * 99_999 + good.replace(f"ngram 2={old}\n", f"ngram 2={new}\n"))
        with pytest.raises(FormatError, match=rf"^{path}: {message}"):
            KenLM(path)
        with pytest.raises(FormatError, match=rf"^{path}.gz: {message}"):
            (tmp_path / "lm.arpa.gz").write_bytes(gzip.compress(path.read_bytes()))
            KenLM(tmp_path / "lm.arpa.gz")


def test_memory_that_kenlm_does_not_get_is_no_fault_of_the_file(tmp_path, monkeypatch):
    kenlm_files.need_kenlm()

    def starved(library, path):
        raise kenlm.ModelError("util.cc:9 in void f() threw MallocException. std::bad_alloc")

    path = kenlm_files.random_ngrams(["a", "b"], 3, 1).write(tmp_path / "lm.arpa")
    monkeypatch.setattr(kenlm, "KenLmModel", starved)
    with pytest.raises(MemoryError, match=rf"^{path}: KenLM cannot load it: std::bad_alloc"):
        KenLM(path)


def header_of(shape, descr="<f4", fortran=False):
    text = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(text)) + text


SHAPES = {
    "more than there is": (header_of("(1000000000000, 29)") + bytes(64), r"expected 116000000000000 bytes .* got 64"),
    "a product that wraps around": (header_of("(4294967296, 4294967296, 4)") + bytes(64), "bytes for the shape"),
    "less than there is": (header_of("(2, 4)") + bytes(64), "expected 32 bytes for the shape .* got 64"),
    "empty utterances without end": (header_of("(1000000000, 0, 29)"), "expected utterances with frames"),
    "text of no size": (header_of("(1000000000000,)", "|S0"), "expected numbers or text"),
    "text of any size": (header_of("(2,)", "<U499999999"), "expected 3999999992 bytes"),
    "objects": (header_of("(2,)", "|O") + b"cos\nsystem\n.", "got Python objects"),
    "a type of many": (header_of("(2,)", "f4,i4"), "expected a type, an order and a shape in the header"),
    "a shape of sums": (header_of("(2+2,)"), "expected a type, an order and a shape"),
    "a shape of blanks": (header_of("(" + " " * 60_000 + "x)"), "expected a type, an order and a shape"),
    "parentheses": (header_of("(" * 9000), "expected a type, an order and a shape"),
    "minus signs": (header_of("-" * 9000 + "1"), "expected a type, an order and a shape"),
    "a long header": (b"\x93NUMPY\x02\0" + struct.pack("<I", 1 << 31), "expected a header of 2147483648 bytes, got 0"),
    "version 3": (b"\x93NUMPY\x03\0" + bytes(99), "expected version 1 or 2 of the format, got 3"),
}  # fmt: skip


@pytest.mark.parametrize("case", SHAPES)
def test_headers_of_arrays(tmp_path, case):
    content, message = SHAPES[case]
    for name, data in (("a.npy", content), ("a.npz", npz({"log_probs.npy": content}))):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(FormatError, match=rf"^{path}: .*{message}"):
            list(read_all(find_inputs([str(path)])))


def test_arrays_that_other_programs_write(tmp_path):
    values = np.arange(8, dtype=np.float32).reshape(2, 4)
    for header in (
        header_of("(2, 4)"),
        header_of("(2L, 4L)"),
        header_of("(2,4)", "f4"),
        b"\x93NUMPY\x02\0"
        + struct.pack("<I", 62)
        + b"{'shape':(2, 4), 'fortran_order' : False, 'descr':'<f4'}".ljust(62),
    ):
        path = tmp_path / "a.npy"
        path.write_bytes(header + values.tobytes())
        [utterance] = read_all(find_inputs([str(path)]))
        np.testing.assert_array_equal(utterance.log_probs, values)
        assert utterance.log_probs.flags.aligned
    path.write_bytes(header_of("(2, 4)", fortran=True) + values.T.tobytes())
    [utterance] = read_all(find_inputs([str(path)]))
    np.testing.assert_array_equal(utterance.log_probs, values)


def test_archives_of_arrays_that_are_packed_small(tmp_path):
    path = tmp_path / "a.npz"
    rows = LARGE // 4 // 32
    header = header_of(f"({rows}, 32)")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("log_probs.npy", "w") as member:
        member.write(header)
        for _ in range(rows * 128 >> 17):
            member.write(bytes(1 << 17))
    assert path.stat().st_size < 1 << 17
    with pytest.raises(FormatError, match=rf"^{path}: expected at most 33,554,432 bytes of content from a file of"):
        list(read_all(find_inputs([str(path)])))
    [utterance] = read_all(find_inputs([str(path)], "100MB"))
    assert utterance.log_probs.shape == (rows, 32)
    many = npz({f"u{i}.npy": npy(np.zeros((1 << 10, 1 << 10), np.float32)) for i in range(20)}, zipfile.ZIP_DEFLATED)
    path.write_bytes(many)  # each of 4 MiB, and all together too many
    with pytest.raises(FormatError, match=rf"^{path}: expected at most 33,554,432 bytes"):
        list(read_all(find_inputs([str(path)])))
    assert count(find_inputs([str(path)])) == 20


def test_an_archive_in_another_packing(tmp_path):
    path = tmp_path / "a.npz"
    path.write_bytes(npz({"a.npy": npy(np.zeros((2, 2), np.float32))}, zipfile.ZIP_LZMA))
    with pytest.raises(FormatError, match=rf"^{path}: a.npy: expected a member that is stored or deflated"):
        list(read_all(find_inputs([str(path)])))


def test_a_pipe_in_an_index_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a.scp").write_text(f"utt {tmp_path}/pipe:0\n")
    with pytest.raises(OSError, match="expected a regular file"):
        list(read_all(find_inputs([str(tmp_path / "a.scp")])))


def far_graph(word, symbols):
    return Graph.from_arcs(
        [(0, 1, 1, word, 0.5), (1, 1, 2, 0, 0.5)], finals={1: 0.0}, num_columns=2, word_symbols=symbols, blank=1
    )


def test_words_that_are_numbered_from_afar():
    """With an entry for each number up to there, tables of a few words would take gigabytes."""
    far = 2**31 - 1
    symbols = SymbolTable.from_ids([0, 7, far], ["<eps>", "near", "far"])
    graph = far_graph(far, symbols)
    [found] = CtcDecoder(graph, device="cpu", threads=1).decode([np.log(np.full((3, 2), 0.5, np.float32))])
    assert found.text == "far"
    with pytest.raises(GraphError, match=rf"state 0, arc 0: writes word {far - 1}, which has no symbol among the 3"):
        far_graph(far - 1, symbols)


def test_rescoring_of_words_that_are_numbered_from_afar(tmp_path):
    (tmp_path / "lm.arpa").write_text(GOOD)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LanguageModel.build(tmp_path / "lm.arpa", progress=False)
        graph = far_graph(2**31 - 1, SymbolTable.from_ids([0, 2**31 - 1], ["<eps>", "a"]))
        with pytest.raises(GraphError, match=r"language_model: expected words numbered from 1, .* 2147483647"):
            CtcDecoder(graph, language_model=model, graph_language_model=model, device="cpu", threads=1)


def command(*arguments):
    for package in ("typer", "rich", "jiwer"):
        pytest.importorskip(package, reason=f"{package} is not installed: .[cli]")
    done = subprocess.run([sys.executable, "-m", "arcbeam.cli", *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, " ".join(done.stderr.split())


def test_commands_take_a_limit(tmp_path):
    path = tmp_path / "lm.arpa.gz"
    path.write_bytes(gzip.compress(GOOD.encode()))
    code, said = command("build-lm", path, "-o", tmp_path / "lm", "--max-bytes", "100")
    assert code == 1 and f"{path}: expected at most 100 bytes" in said
    assert command("build-lm", path, "-o", tmp_path / "lm", "--max-bytes", "1MB")[0] == 0
    code, said = command("build-lm", path, "-o", tmp_path / "lm", "--max-bytes", "many")
    assert code == 2 and "--max-bytes" in said and "expected a number of bytes" in said
    np.savez_compressed(tmp_path / "a.npz", a=np.zeros((2, 2), np.float32))
    far_graph(1, SymbolTable.from_list(["<eps>", "a"])).save(tmp_path / "graph")
    code, said = command("decode", tmp_path / "graph", tmp_path / "a.npz", "--device", "cpu", "--max-bytes", 50)
    assert code == 1 and "a.npz: expected at most 50 bytes" in said
