"""Files that appear under their names when they are complete."""

import os

import pytest

from arcbeam import SymbolTable
from arcbeam.files.writing import beside, replacing
from arcbeam.graph import openfst


def fail_after(path, text, **how):
    with replacing(path, "w", **how) as out:
        out.write(text)
        raise RuntimeError("broken off")


@pytest.mark.parametrize("before", [None, "old"])
def test_a_file_is_complete_or_what_it_was(tmp_path, before):
    path = tmp_path / "file"
    if before is not None:
        path.write_text(before)
    with pytest.raises(RuntimeError, match="broken off"):
        fail_after(path, "new")
    assert os.listdir(tmp_path) == ([] if before is None else ["file"])
    with replacing(path, "w") as out:
        out.write("new")
        out.flush()
        assert (path.read_text() if path.exists() else None) == before
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["file"]


def test_what_was_done_can_be_kept(tmp_path):
    path, partial = tmp_path / "file", str(tmp_path / "kept")
    for text in ("new", "newer"):
        with pytest.raises(RuntimeError):
            fail_after(path, text, partial=partial)
        assert (tmp_path / "kept").read_text() == text
    with pytest.raises(RuntimeError):
        fail_after(path, "", partial=partial)
    assert os.listdir(tmp_path) == []


def test_where_nothing_can_be_written(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, beside(tmp_path / "gone" / "file"):
        pass
    assert caught.value.filename == str(tmp_path / "gone" / "file")
    with pytest.raises(IsADirectoryError) as caught, beside(tmp_path):
        pass
    assert caught.value.filename == str(tmp_path)


def test_a_name_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with replacing("file", "w") as out:
        out.write("new")
    assert (tmp_path / "file").read_text() == "new"


def test_an_openfst_file_is_whole(tmp_path, monkeypatch):
    """Disk full in the midst of the arcs."""
    path = tmp_path / "TLG.fst"
    openfst.write_vector(path, 0, [0], [1], [1], [0], [0.5], {1: 0.25})
    before = path.read_bytes()

    class Body:
        def tofile(self, out):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(openfst._graph, "vector_body", lambda *_: Body())
    with pytest.raises(OSError, match="No space left"):
        openfst.write_vector(path, 0, [0], [1], [1], [0], [0.75], {1: 0.25})
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["TLG.fst"]


def test_a_symbol_file_is_whole(tmp_path, monkeypatch):
    path = tmp_path / "words.txt"
    table = SymbolTable.from_list(["<eps>", "the"])
    table.write(path)
    items = [table.items(), iter(())]
    monkeypatch.setattr(SymbolTable, "items", lambda self: items.pop(0) if len(items) > 1 else broken())
    with pytest.raises(OSError, match="No space left"):
        table.write(path)
    assert path.read_text() == "<eps> 0\nthe 1\n"
    assert os.listdir(tmp_path) == ["words.txt"]


def broken():
    yield 0, "<eps>"
    raise OSError(28, "No space left on device")
