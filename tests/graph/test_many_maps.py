"""Hundreds of mapped files at a time: each is guarded as it shrinks, none is kept open, and names may change."""

import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from arcbeam import Graph, KenLM, LanguageModel
from arcbeam.core.errors import FormatError
from arcbeam.files._file_map import FileMap
from arcbeam.files.watch import mapped_parts
from arcbeam.graph import openfst
from tests.decode import kenlm_files
from tests.graph import examples

MANY = 520  # more than two chunks of guards
# A read beyond the end of a file that has shrunk raises a signal, which the guard handles.
pytestmark = pytest.mark.skipif(
    "asan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer handles the signal itself"
)


@pytest.fixture
def small(tmp_path):
    examples.example().save(tmp_path / "small")
    return tmp_path / "small"


@pytest.fixture
def long(tmp_path):
    """A graph of many pages."""
    n = 20_000
    chain = np.arange(n)
    graph = Graph.from_arcs((chain, chain + 1, chain % 3 + 1, chain * 0, chain * 0.0), finals={n: 0.0})
    graph.save(tmp_path / "long")
    return tmp_path / "long"


@pytest.fixture
def model(tmp_path):
    """A language model of many pages."""
    words = [f"w{i}" for i in range(3000)]
    lines = "".join(f"-3\t{word}\n" for word in ["<s>", "</s>", *words])
    (tmp_path / "arpa").write_text(f"\\data\\\nngram 1={len(words) + 2}\n\n\\1-grams:\n{lines}\n\\end\\\n")
    with pytest.warns(UserWarning):
        LanguageModel.build(tmp_path / "arpa").save(tmp_path / "model")
    return tmp_path / "model"


# What the processes below begin with.
BEGIN = """
import gc, os, resource, sys
import numpy as np
from arcbeam import CtcDecoder, FormatError, Graph, KenLM, LanguageModel
def told(use):
    try:
        use()
    except FormatError as error:
        print(error)
"""


def run(body, *arguments):
    """Of a process of its own, which a signal would end: its lines."""
    command = [sys.executable, "-c", BEGIN + body, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


SHRINKS = """
small, late, kind, many = sys.argv[1:]
load = Graph.load if kind == "graph" else LanguageModel.load
before = [Graph.load(small) for _ in range(int(many))]
one = load(late)
after = [Graph.load(small) for _ in range(10)]
del before[5:9]  # places in between are free again
again = load(late)
decoder = CtcDecoder(one) if kind == "graph" else None
check, type(one).check_file = type(one).check_file, lambda self: None  # as if it shrank after the check
os.truncate(late, 4096)
if kind == "graph":
    frames = np.full((1, 300, one.num_columns), -np.log(one.num_columns), np.float32)
    print(len(decoder.decode(frames)[0].arcs) > 0)
    print(not again.targets["next_state"][-1000:].any())
else:
    print(one.score(" ".join(f"w{i}" for i in range(0, 3000, 7))) != 0)
    print(not again.columns["arcs"]["weight"][-1000:].any())
type(one).check_file = check
for changed in (one, again):
    told(changed.check_file)
for graph in before + after:
    graph.check_file()
    graph.targets.tobytes()
print("the others are as they were")
"""


@pytest.mark.parametrize("kind", ["graph", "model"])
def test_a_late_one_of_many_shrinks(small, request, kind):
    late = request.getfixturevalue("long" if kind == "graph" else "model")
    size = late.stat().st_size
    assert size > 10 * 4096
    said = f"{late}: the file shrank from {size} to 4096 bytes while it was mapped; load it again"
    assert run(SHRINKS, small, late, kind, MANY) == ["True", "True", said, said, "the others are as they were"]


def test_kenlm_behind_many(small, tmp_path):
    kenlm_files.need_kenlm()
    words = [f"w{i}" for i in range(30)]
    arpa = kenlm_files.random_ngrams(words, 3, 5).write(tmp_path / "lm.arpa")
    binary = kenlm_files.write_binary(arpa, tmp_path / "lm.binary", kenlm_files.TRIE)
    said = run(
        """
kept = [Graph.load(sys.argv[1]) for _ in range(int(sys.argv[3]))]
model = KenLM(sys.argv[2])
os.truncate(sys.argv[2], 0)
print(model.model.score(model.indices([f"w{i}" for i in range(30)]), True, True) <= 0)
told(lambda: model.score("w1 w2"))
""",
        small, binary, MANY,
    )  # fmt: skip
    assert said[0] == "True"
    assert "to 0 bytes while KenLM had it mapped" in said[1]


def test_a_graph_that_shrinks_while_it_is_read(tmp_path):
    """Of OpenFst, which is mapped as long as that takes."""
    n = 20_000
    chain = np.arange(n)
    openfst.write_vector(tmp_path / "fst", 0, chain, chain + 1, chain % 3 + 1, chain * 0, chain * 0.0, {n: 0.0})
    said = run(
        """
from arcbeam.graph import _graph
read = _graph.read_openfst
def shrinking(*given):
    os.truncate(sys.argv[1], 4096)
    return read(*given)
_graph.read_openfst = shrinking
told(lambda: Graph.load(sys.argv[1]))
""",
        tmp_path / "fst",
    )
    assert said == [f"{tmp_path / 'fst'}: the file shrank while it was read; load it again"]


def test_more_pages_are_lost_than_a_process_has_maps(tmp_path):
    """Every second one is read of twice as many as the system allows: what follows a lost page is mapped with it."""
    (tmp_path / "sparse").touch()
    said = run(
        """
from arcbeam.files._file_map import FileMap
size, page = 1 << 30, 4096
with open(sys.argv[1], "r+b") as file:
    file.truncate(size)
    mapped = FileMap(file.fileno(), size)
    file.truncate(page)
data = np.frombuffer(mapped, np.uint8)
for begin in (3, 1, 0):  # from behind, too
    print(data[begin * size // 4 :: 2 * page].any(), mapped.is_broken)
with open("/proc/self/maps") as maps:
    print(len(maps.readlines()) < 1000)
""",
        tmp_path / "sparse",
    )
    assert said == ["False True"] * 3 + ["True"]


def test_what_cannot_be_mapped():
    with pytest.raises(OSError, match="Bad file descriptor"):
        FileMap(-1, 100)


def test_mapped_files_are_not_kept_open(small, model):
    """Loading more of them than there are descriptors."""
    said = run(
        """
kept = [Graph.load(sys.argv[1]), LanguageModel.load(sys.argv[2])]
opened = len(os.listdir("/proc/self/fd"))
resource.setrlimit(resource.RLIMIT_NOFILE, (opened + 8, opened + 8))
for _ in range(300):
    kept += [Graph.load(sys.argv[1]), LanguageModel.load(sys.argv[2])]
print(len(os.listdir("/proc/self/fd")) - opened)
for one in kept:
    one.check_file()
""",
        small, model,
    )  # fmt: skip
    assert said == ["0"]


def maps_of(path):
    return [part for part in mapped_parts() if part.inode == path.stat().st_ino]


def test_a_map_goes_with_the_last_array(small):
    graph = Graph.load(small)
    targets, wanted = graph.targets, graph.targets.tobytes()
    assert len(maps_of(small)) == 1
    del graph
    assert len(maps_of(small)) == 1
    assert targets.tobytes() == wanted
    del targets
    assert maps_of(small) == []


def test_an_array_is_guarded_without_its_graph(long):
    """Its file may shrink when the graph has gone."""
    said = run(
        """
targets = Graph.load(sys.argv[1]).targets
gc.collect()
os.truncate(sys.argv[1], 4096)
print(targets["next_state"][-1000:].any())
""",
        long,
    )
    assert said == ["False"]


def both(small, tmp_path):
    """A graph and, where there is KenLM, a model of it: what checks them."""
    checks = [(small, Graph.load(small).check_file)]
    if find_spec("kenlm") is not None:
        arpa = kenlm_files.random_ngrams([f"w{i}" for i in range(9)], 2, 5).write(tmp_path / "lm.arpa")
        binary = kenlm_files.write_binary(arpa, tmp_path / "lm.binary", kenlm_files.TRIE)
        checks.append((binary, KenLM(binary).check_file))
    return checks


@pytest.mark.parametrize("name", ["other", "with blanks  ", "new\nline (deleted)", "ä"])
def test_a_file_with_a_new_name_is_found(small, tmp_path, name):
    for path, check in both(small, tmp_path):
        path.rename(tmp_path / name)
        check()
        path.write_bytes(b"another file")
        check()
        os.truncate(tmp_path / name, 100)
        with pytest.raises(FormatError, match=rf"{path.name}: the file shrank from \d+ to 100 bytes while"):
            check()
        path.unlink()


def test_a_file_without_a_name_is_left_alone(small, tmp_path):
    for path, check in both(small, tmp_path):
        with path.open("r+b") as still_open:
            path.unlink()
            check()
            path.write_bytes(b"another file")
            check()
            still_open.truncate(100)
            check()  # nobody has read what is lost
        path.unlink()


def test_what_a_file_without_a_name_loses_is_found(long):
    said = run(
        """
graph = Graph.load(sys.argv[1])
with open(sys.argv[1], "r+b") as still_open:
    os.unlink(sys.argv[1])
    still_open.truncate(4096)
graph.targets.tobytes()
told(graph.check_file)
""",
        long,
    )
    assert said == [f"{long}: the file was changed in place while it was mapped; load it again"]


def test_a_file_that_cannot_be_read_now(small, monkeypatch):
    """As on a network, whose server is away for a while."""
    check = Graph.load(small).check_file
    stat = os.stat

    def away(path, *given, **more):
        if path == str(small):
            raise PermissionError(13, "Permission denied", path)
        return stat(path, *given, **more)

    with monkeypatch.context() as now:
        now.setattr(os, "stat", away)
        check()
    os.truncate(small, 100)
    with pytest.raises(FormatError, match="to 100 bytes while it was mapped"):
        check()


def test_where_the_system_does_not_tell_of_maps(small, tmp_path, monkeypatch):
    check = Graph.load(small).check_file
    opened = open

    def without_proc(path, *given, **more):
        if str(path).startswith("/proc/"):
            raise FileNotFoundError(2, "No such file or directory", path)
        return opened(path, *given, **more)

    monkeypatch.setattr("builtins.open", without_proc)
    assert list(mapped_parts()) == []
    small.rename(tmp_path / "other")
    check()
