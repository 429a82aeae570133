"""Digests of the code around the kernels: tokens of Python, Cython and C++ count, places and remarks do not."""

import re
import shutil

import pytest

from benchmarks.harness import host_code, python_code, record
from tests.benchmarks import token_mutants

# Every kind of token, of Python and of Cython.
PROGRAM = [
    ["from", "libc.stdint", "cimport", "int64_t", "as", "big"],
    ["cdef", "int", "[", ":", ":", "1", "]", "a", "=", "<", "long", ">", "&", "x", "[", "0", "]"],
    ["y", "=", "a", "**", "-", "b", "//", "c", "%", "d", "!=", "e", "and", "not", "f", "@", "g"],
    ["z", "+=", "0x1f", "+", "1_000", "*", "1.5e-3", "-", ".25", "/", "0b101", "|", "7", "<<", "2", "^", "~", "k"],
    ["s", "=", '"a # no remark"', "+", "b'b  c'", "+", "'\\'d'", "+", '"""e\n  # f"""', "+", "rf'{g}'", "+", '"\\\\"'],
    ["t", "=", "{", "h", ":", "(", "i", ",", ")", ",", "j", ":", "k", "}", "[", "l", "]", ".", "m"],
    ["u", "=", "lambda", "v", ":", "(", "w", ":=", "v", ")", "if", "v", "else", "...", ";", "o", "->", "p"],
]
SMALL = {
    "pyx/arcbeam/_search_engine.pyx": (
        "from arcbeam._search cimport Search\nfrom arcbeam import _cuda, search_plan\n"
        "from arcbeam.core.errors import Error\n"
    ),
    "pyx/arcbeam/_search.pxd": 'cdef extern from "search/order.hpp" namespace "arcbeam" nogil:\n    int f(int)\n',
    "pyx/arcbeam/_search.pyx": (
        'cdef extern from *:\n    """\n    #include "search/rank.hpp"  // why\n    int g;\n    """\n    int g\n'
    ),
    "pyx/arcbeam/_cuda.pyx": "def open():\n    return 1\n",
    "pyx/arcbeam/search_plan.py": "x = 1\n",
    "pyx/arcbeam/graph_layout.py": "x = 2\n",
    "pyx/arcbeam/lm_placement.py": "x = 3\n",
    "pyx/arcbeam/core/errors.py": "class Error(Exception): pass\n",
    "cpu_reference/search/order.cpp": '#include "search/order.hpp"\nint f(int a) { return a; }\n',
    "cpu_reference/search/order.hpp": "#pragma once\nint f(int);\n",
    "cpu_reference/search/rank.hpp": "#pragma once\nint r;\n",
}


def put(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return host_code.digest(["search"], root)


@pytest.fixture
def digest_of(tmp_path):
    """Of the text of one module."""
    return lambda text: put(tmp_path, {"pyx/arcbeam/lm_placement.py": text})


def test_every_change_of_a_token_counts(digest_of):
    digest = digest_of(token_mutants.plain(PROGRAM))
    same = [what for what, mutant in token_mutants.mutants(PROGRAM) if digest_of(token_mutants.plain(mutant)) == digest]
    assert same == []


def test_wrapping_and_remarks_do_not_count(digest_of):
    def between(line, at):
        opened = [token for token in line[:at] if token in "([{"]
        closed = [token for token in line[:at] if token in ")]}"]
        return "  # why (\n\n " if len(opened) > len(closed) else " \\\n\t "

    wide = token_mutants.written(PROGRAM, between, lambda line: "  # why: {\n\n    # more\n")
    assert digest_of(wide) == digest_of(token_mutants.plain(PROGRAM))
    assert digest_of(wide.replace("\n", "\r\n")) == digest_of(token_mutants.plain(PROGRAM).replace("\n", "\r\n"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('"""One.\n\nMore."""\nx = 1  # why\n', "# then\nx = 1\n"),
        ('def f():\n    """Two."""\n    return 1\n', "def f():\n\n  return 1\n"),
        ('class E(Exception):\n    """Why."""\n\nx = 1\n', "class E(Exception):\nx = 1\n"),
        ("x = (1 +\n  # why\n  2)\n", "x = (1 + 2)\n"),
        ("from arcbeam.inner._cuda cimport x\n", "from arcbeam._cuda cimport x\n"),
        ("import arcbeam.inner._cuda as c\n", "import arcbeam._cuda as c\n"),
        ("from arcbeam.inner import search_plan\n", "from arcbeam import search_plan\n"),
        ("# cython:  boundscheck = False\nx = 1\n", "#cython: boundscheck=False\nx = 1\n"),
        ('cdef extern from *:\n    """\n    int a;  // b\n    """\n', "cdef extern from *:\n  '''int a;'''\n"),
    ],
)
def test_code_that_is_the_same(tmp_path, one, other):
    put(tmp_path, SMALL | {f"pyx/arcbeam/inner/{name}": "x = 1\n" for name in ("_cuda.pyx", "search_plan.py")})

    def tokens(text):
        put(tmp_path, {"pyx/arcbeam/lm_placement.py": text})
        return host_code.unit_of(tmp_path / "pyx/arcbeam/lm_placement.py", tmp_path).tokens

    assert tokens(one) == tokens(other) != tokens(other + "\nx\n")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("if a:\n    b\n    c\n", "if a:\n    b\nc\n"),
        ("if a:\n    if b:\n        c\n    d\n", "if a:\n    if b:\n        c\n        d\n"),
        ("a\nb\n", "a b\n"),
        ("a * *b\n", "a **b\n"),
        ("int x\n", "intx\n"),
        ('x = """a"""\n', 'x = """b"""\n'),
        ('f("""a""")\n', 'f("""b""")\n'),
        ('x = "a  # b"\n', 'x = "a  # c"\n'),
        ("x = '''a \\''' # b'''\n", "x = '''a \\''' # c'''\n"),
        ('f"{a()}"\n', 'f"{b()}"\n'),
        ("from arcbeam._cuda cimport x\n", "from arcbeam._search cimport x\n"),
        ("from other.inner import x\n", "from other import x\n"),
        ("# cython: boundscheck=False\n", "# cython: boundscheck=True\n"),
        ('cdef extern from *:\n    """int a;"""\n', 'cdef extern from *:\n    """int b;"""\n'),
        ('cdef extern from *:\n    """int a;"""\n', 'cdef extern from *:\n    """int a; /* */ ;"""\n'),
        ('cdef extern from "vector":\n  int a\n', 'cdef extern from "array":\n  int a\n'),
    ],
)
def test_code_that_is_not_the_same(digest_of, tmp_path, one, other):
    put(tmp_path, SMALL)
    assert digest_of(one) != digest_of(other)


def test_indentation_is_of_lines_and_not_of_their_parts():
    text = "def f(\n      a):\n  '''Why.\nNot.'''\n  if a:\n\tb\n  # c\nd\n"
    found = [(line.column, " ".join(line.tokens)) for line in python_code.lines(text) if not line.is_text]
    assert found == [(0, "def f ( a ) :"), (2, "if a :"), (8, "b"), (0, "d")]


def test_places_do_not_count(tmp_path):
    known = put(tmp_path / "one", SMALL)
    moved = {}
    for name, text in SMALL.items():
        if "errors" not in name:
            name = name.replace("pyx/arcbeam/", "pyx/arcbeam/gpu/rooms/")
        for module in ("_search", "_cuda"):
            text = text.replace(f"arcbeam.{module} ", f"arcbeam.gpu.rooms.{module} ")
        text = text.replace("from arcbeam import", "from arcbeam.gpu.rooms import").replace('"search/', '"host/search/')
        moved[name.replace("cpu_reference/", "cpu_reference/host/")] = text
    assert put(tmp_path / "two", moved) == known
    # Headers and parts of a module may have any name.
    renamed = {
        name.replace("order.", "a_new_name."): text.replace("order.hpp", "a_new_name.hpp")
        for name, text in SMALL.items()
    }
    renamed["cpu_reference/search/again.cpp"] = "int z;\n"
    ordered = SMALL | {"cpu_reference/search/zzz.cpp": "int z;\n"}
    assert put(tmp_path / "three", renamed) == put(tmp_path / "four", ordered) != known


@pytest.mark.parametrize("name", sorted(SMALL))
def test_code_in_any_file_counts_that_drives_the_kernels(tmp_path, name):
    known = put(tmp_path, SMALL)
    # What raises errors drives no kernel.
    is_other = put(tmp_path, {name: SMALL[name] + "\nint\n"}) != known
    assert is_other == (name != "pyx/arcbeam/core/errors.py")


@pytest.fixture
def tree(tmp_path):
    """The sources, to be changed."""
    for name in ("pyx", "cpu_reference", "cuda"):
        shutil.copytree(record.ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    return tmp_path


def test_moving_and_commenting_keep_what_drives_the_kernels(tree):
    known = [host_code.digest([name], tree) for name in ("search", "transducer")]
    assert known == [host_code.digest([name]) for name in ("search", "transducer")]
    paths = host_code.sources([*host_code.SEARCH, *host_code.TRANSDUCER], tree)
    inner = {"cuda": [], "cpu_reference": [], "pyx": []}
    for path in paths:
        text = path.read_text()
        text = re.sub(r"from arcbeam((?:\.\w+)*) (c?import)", r"from arcbeam.rooms\1 \2", text)
        text = re.sub(r'(include|extern from) "(?!arcbeam/)', r'\1 "inner/', text)
        text = text.replace('"arcbeam/', '"arcbeam/rooms/')
        if path.suffix in host_code.SUFFIXES:
            text = f'"""Another docstring."""\n# Why.\n{text}\n    # Why.\n'
        else:
            text = f"// Why.\n\n{text}/* Why. */\n"
        folder = path.relative_to(tree).parts[0]
        above = tree / folder / ("arcbeam" if folder == "pyx" else "")
        place = above / ("rooms" if folder == "pyx" else "inner") / path.relative_to(above)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        path.unlink()
        inner[folder].append(place)
    # What is not looked at has to be where it is imported from.
    for path in (tree / "pyx" / "arcbeam").rglob("*.p*"):
        if "rooms" not in path.parts:
            place = tree / "pyx" / "arcbeam" / "rooms" / path.relative_to(tree / "pyx" / "arcbeam")
            place.parent.mkdir(parents=True, exist_ok=True)
            path.rename(place)
    assert inner["cuda"] and inner["pyx"]
    assert [host_code.digest([name], tree) for name in ("search", "transducer")] == known


@pytest.mark.parametrize("every", [24, pytest.param(1, marks=pytest.mark.long)])
def test_code_in_any_file_of_the_tree_counts(tree, every):
    names = {"search": host_code.SEARCH, "transducer": host_code.TRANSDUCER}
    known = {name: host_code.digest([name], tree) for name in names}
    sources = {name: set(host_code.sources(names[name], tree)) for name in names}
    for path in sorted(sources["search"] | sources["transducer"])[::every]:
        text = path.read_text()
        path.write_text(text + "\nint\n")
        changed = {name for name in names if host_code.digest([name], tree) != known[name]}
        path.write_text(text)
        assert changed == {name for name in names if path in sources[name]}, path


def test_what_drives_the_kernels():
    search, transducer = (
        {path.relative_to(record.ROOT).as_posix() for path in host_code.sources(names)}
        for names in (host_code.SEARCH, host_code.TRANSDUCER)
    )
    modules = (
        "_staging.pyx",
        "models/_request_buffers.pxd",
        "searches/graph_layout.py",
        "_driver_copier.hpp",
        "models/_requests/server.cpp",
    )
    assert {f"pyx/arcbeam/ctc/gpu/{name}" for name in modules} <= search
    assert {"pyx/arcbeam/gpu/tuned/search_plan.py", "cuda/decode/search.hpp"} <= search
    gpu = {"pyx/arcbeam/transducer/gpu/_transducer_engine.pyx", "pyx/arcbeam/gpu/tuned/transducer_plan.py"}
    assert gpu <= transducer
    assert not {"pyx/arcbeam/ctc/gpu/_staging.pyx", "pyx/arcbeam/ctc/decoder.py"} & transducer
    assert not any(path.endswith((".cuh", ".cu")) for path in search | transducer)
    assert host_code.digest(["search", "rescore"]) == host_code.digest(["search"]) != host_code.digest(["transducer"])
