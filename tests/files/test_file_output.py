"""Files that appear under their names when they are complete."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from arcbeam import Graph, SymbolTable, write_lattices
from arcbeam.core.errors import FormatError
from arcbeam.files import writing
from arcbeam.files.writing import beside, file_in, replacing, replacing_text
from arcbeam.graph import openfst


def fail_after(path, text, **how):
    with beside(path, **how) as name:
        with open(name, "w") as out:
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
    with replacing_text(path) as out:
        out.write("new")
        out.flush()
        assert (path.read_text() if path.exists() else None) == before
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("keep", [False, True])
def test_the_name_of_a_folder_is_refused(tmp_path, keep):
    with pytest.raises(IsADirectoryError, match="new/"), beside(f"{tmp_path}/new/", keep=keep):
        raise AssertionError
    assert os.listdir(tmp_path) == []


def test_what_was_done_can_be_kept(tmp_path):
    path = tmp_path / "file"
    for text in ("newer", "new"):  # what the one before has left is no part of it
        with pytest.raises(RuntimeError):
            fail_after(path, text, keep=True)
        assert (tmp_path / "file.partial").read_text() == text
    with pytest.raises(RuntimeError):
        fail_after(path, "", keep=True)
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
    with replacing_text("file") as out:
        out.write("new")
    assert (tmp_path / "file").read_text() == "new"


GRAPH = Graph.from_arcs([(0, 0, 1, 0, 0.0)], finals={0: 0.0}, num_columns=2)
TABLE = SymbolTable.from_list(["<eps>", "the"])
WRITERS = {
    "saved things": GRAPH.save,
    "symbols": TABLE.write,
    "OpenFst": lambda path: openfst.write_vector(path, 0, [0], [1], [1], [0], [0.5], {1: 0.25}),
    "lattices": lambda path: write_lattices(path, {}),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_that_another_writes_is_left_to_it(tmp_path, kind):
    path = tmp_path / "file"
    with replacing(path) as out:
        out.write(b"one")
        with pytest.raises(BlockingIOError, match=r"another process is writing this file, as .*; wait until") as caught:
            WRITERS[kind](path)
        assert caught.value.filename == str(path)
        out.write(b" and two")
    assert path.read_bytes() == b"one and two"
    WRITERS[kind](path)  # once that has ended
    assert path.read_bytes() != b"one and two"
    assert os.listdir(tmp_path) == ["file"]


HOLDER = """
import sys, time
from arcbeam.files.writing import beside
with beside(sys.argv[1], keep=sys.argv[2] == "keep") as name:
    with open(name, "w") as out:
        out.write("of the one that was killed")
    print(name, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("how", ["keep", "remove"])
def test_a_killed_process_does_not_stop_the_next(tmp_path, how):
    path, keep = tmp_path / "file", how == "keep"
    with subprocess.Popen([sys.executable, "-c", HOLDER, path, how], stdout=subprocess.PIPE, text=True) as holder:
        try:
            name = holder.stdout.readline().rstrip()
            with pytest.raises(BlockingIOError), beside(path, keep=keep):
                pass
        finally:
            holder.send_signal(signal.SIGKILL)
    assert Path(name).read_text() == "of the one that was killed"
    with beside(path, keep=keep) as again:
        assert again == name and os.path.getsize(name) == 0
        with open(name, "w") as out:
            out.write("new")
    assert path.read_text() == "new" and os.listdir(tmp_path) == ["file"]


def test_one_that_ends_between_the_opening_and_the_lock(tmp_path, monkeypatch):
    """What was opened has got its name by then: it must not be emptied."""
    path, lock, ends = tmp_path / "file", writing._lock, []

    def late(*how):
        if not ends:
            ends.append(os.replace(tmp_path / ".file.partial", path))
        lock(*how)

    (tmp_path / ".file.partial").write_text("complete")
    monkeypatch.setattr(writing, "_lock", late)
    with beside(path) as name:
        assert path.read_text() == "complete"
        with open(name, "w") as out:
            out.write("new")
    assert path.read_text() == "new" and ends


def test_a_file_system_without_locks(tmp_path, monkeypatch):
    def none(file, how):
        raise OSError(writing.errno.ENOLCK, "No locks available")

    monkeypatch.setattr(writing.fcntl, "flock", none)
    with replacing(tmp_path / "file") as out:
        out.write(b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


def test_a_link_in_place_of_the_partial_file(tmp_path):
    (tmp_path / "other").write_text("mine")
    (tmp_path / ".file.partial").symlink_to(tmp_path / "other")
    with pytest.raises(OSError) as caught, replacing(tmp_path / "file"):
        pass
    assert caught.value.filename == str(tmp_path / ".file.partial")
    assert (tmp_path / "other").read_text() == "mine"


FULL = """
import resource, signal, sys
import numpy as np
from arcbeam import Graph, SymbolTable
from arcbeam.graph import openfst
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
n = 3000
arcs = np.zeros(n, int)
writers = [
    SymbolTable.from_list(["<eps>", *map(str, range(n))]).write,
    Graph.from_arcs([(0, 0, 1, 0, 0.0)] * n, finals={0: 0.0}, num_columns=2).save,
    lambda path: openfst.write_vector(path, 0, arcs, arcs, arcs + 1, arcs, arcs + 0.5, {0: 0.25}),
]
for write in writers:
    try:
        write(sys.argv[1])
    except OSError as error:
        print(error)
"""


def test_a_full_disk_is_told_with_the_name_of_the_file_which_stays_as_it_was(tmp_path):
    path = tmp_path / "file"
    path.write_text("what was there")
    done = subprocess.run([sys.executable, "-c", FULL, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    assert len(told) == 3 and all(str(path) in line for line in told), told
    assert path.read_text() == "what was there" and os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("name", ["../b", "a/../../b", "/b", ".."])
def test_an_id_that_leads_out_of_a_folder(tmp_path, name):
    assert file_in(tmp_path, "a/b..c", ".txt") == tmp_path / "a" / "b..c.txt"
    with pytest.raises(FormatError, match="expected ids that name files in this folder, got"):
        file_in(tmp_path, name, ".txt")
