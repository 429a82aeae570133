"""Kernels' digests: any change of code changes them; comments, white space, wrapping and places of files do not."""

import re
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.harness import backend, record

source_digest = backend.load("source_digest")
cuda_build = backend.load("cuda_build")


@pytest.fixture
def digest_of(tmp_path):
    def compute(text, **headers):
        for name, header in headers.items():
            (tmp_path / f"{name}.hpp").write_text(header)
        (tmp_path / "unit.cu").write_text(text, newline="")
        return source_digest.digest(source_digest.unit_of(tmp_path / "unit.cu", [tmp_path]).tokens)

    return compute


def digest_of_text(text):
    return source_digest.digest("\0".join(line.tokens) + f"\0{line.is_directive}" for line in source_digest.lines(text))


TOKENS = [*"+-*/%<>=&|^~!?:;,.(){}[]", "++", "->*", ">>=", "<<<", "::", "...", "/=", "ab", "1", "0x1.8p-3", "u8", "R"]
TOKENS += ['"u8"', '"a // b"', "'\\''", 'R"x(f // " )" h)x"']


@given(st.lists(st.sampled_from(TOKENS)), st.lists(st.sampled_from(TOKENS)), st.data())
def test_two_texts_are_equal_if_their_tokens_are(one, other, data):
    wide = "".join(token + data.draw(st.sampled_from([" ", "\n", " /**/", " //\n", " \\\n\t"])) for token in one)
    assert digest_of_text(wide) == digest_of_text(" ".join(one))
    assert (digest_of_text(" ".join(other)) == digest_of_text(wide)) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a + b;", "a+b;"),
        ("f(a, b);", "f( a ,b ) ;"),
        ("in\\\nt x;", "int x;"),
        ("a +\\\n+ b;", "a ++ b;"),
        ("x; /\\\n/ y;\nz;", "x; z;"),
        ("#define A 1 // one\n", "#  define  A  1\n"),
        ("#define A 1 \\\n + 2\n", "#define A 1 + 2\n"),
        ("#define S(x) #x\nS(a + b)", "#define S(x) #x\nS(a  +\n b)"),
        ("#include <vector>\n", "# include <vector>  // for arrays"),
        ('s = "a"\n"b";', 's = "a" "b";'),
    ],
)
def test_code_that_is_the_same(digest_of, one, other):
    assert digest_of(one) == digest_of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a + +b;", "a ++b;"),
        ("a - -b;", "a --b;"),
        ("a & &b;", "a &&b;"),
        ("a > > b;", "a >> b;"),
        ("f<::a>()", "f<: :a>()"),
        ("a / *b;", "a /*b;*/"),
        ("int x;", "intx;"),
        ("1.5e+3", "1.5e +3"),
        ("0x1p-3", "0x1p -3"),
        ('L"a"', 'L "a"'),
        ('"a"_x', '"a" _x'),
        ('"ab"', '"a" "b"'),
        ('"a b"', '"a  b"'),
        ('"//a"', '"//b"'),
        ("'\"' // \"", "'\"'; // \""),
        ("#define A(x) x\n", "#define A (x) x\n"),
        ("#define A\nint x;", "#define A int x;\n"),
        ("#define A 1\nB\n", "#define A 1 B\n"),
        ("#define A /* \n */ 1\n", "#define A\n1\n"),
        ("#define S(x) #x\nS(a+b)", "#define S(x) #x\nS(a + b)"),
        ("#if A\na;\n#else\nb;\n#endif", "#if A\nb;\n#else\na;\n#endif"),
        ("#if A\n#endif\nb;", "#if A\nb;\n#endif"),
        ("#include <a/b>\n", "#include <a / b>\n"),
        ("#include <a//b>\n", "#include <a//c>\n"),
        ('#include "not_ours.hpp"\n', '#include "nor_this.hpp"\n'),
        ("x; // \\\ny;\nz;", "x; //\ny;\nz;"),
        ('R"(a  b)"', 'R"(a b)"'),
        ('R"(a\\\nb)"', 'R"(ab)"'),
        ('R"x(a)" // b)x"', 'R"x(a)" // c)x"'),
    ],
)
def test_code_that_is_not_the_same(digest_of, one, other):
    assert digest_of(one) != digest_of(other)


def test_what_is_included_stands_where_it_is_included_first(digest_of):
    header = "// Why\n#pragma once\nint h;\n"
    pasted = digest_of("int a;\nint h;\nint b;\n")
    assert digest_of('int a;\n#include "h.hpp"\nint b;\n', h=header) == pasted
    assert digest_of('int a;\n#include "h.hpp"\nint b;\n#include "h.hpp"\n', h=header) == pasted
    assert digest_of("int a;\n#include <h.hpp>\nint b;\n", h=header) == pasted
    assert digest_of('#include "h.hpp"\nint a;\nint b;\n', h=header) != pasted
    through = digest_of('int a;\n#include "i.hpp"\n#include "h.hpp"\nint b;\n', h=header, i='#include "h.hpp"\n')
    assert through == pasted
    several_times = digest_of('int a;\n#include "h.hpp"\nint b;\n#include "h.hpp"\n', h="int h;")
    assert several_times == digest_of("int a; int h; int b; int h;")


def test_what_may_not_have_been_included_yet_is_told(digest_of):
    header = "#pragma once\nint h;\n"
    once = digest_of('#if A\n#include "h.hpp"\n#endif\n', h=header)
    twice = digest_of('#if A\n#include "h.hpp"\n#endif\n#include "h.hpp"\n', h=header)
    other = digest_of('#if A\n#include "h.hpp"\n#else\n#include "h.hpp"\n#endif\n', h=header)
    empty = digest_of('#if A\n#include "h.hpp"\n#else\n#endif\n', h=header)
    assert len({once, twice, other, empty}) == 4
    # It has been, wherever the second inclusion is read.
    within = digest_of('#if A\n#include "h.hpp"\n#if B\n#include "h.hpp"\n#endif\n#endif\n', h=header)
    assert within == digest_of('#if A\n#include "h.hpp"\n#if B\n#endif\n#endif\n', h=header)
    # And it says which text would stand there.
    two = '#if A\n#include "h.hpp"\n#include "i.hpp"\n#endif\n'
    told = {digest_of(f'{two}#include "{name}.hpp"\n', h=header, i="#pragma once\nint i;\n") for name in "hi"}
    assert len(told) == 2


def test_files_that_include_each_other_come_to_an_end(digest_of):
    alone = digest_of('#include "h.hpp"\n', h='#pragma once\n#include "i.hpp"\nint h;', i='#include "h.hpp"\nint i;')
    assert alone == digest_of("int i; int h;")
    unguarded = digest_of('#include "h.hpp"\n', h='int h;\n#if A\n#include "h.hpp"\n#endif\n')
    assert unguarded != digest_of("int h;\n#if A\n#endif\n")


@pytest.mark.parametrize("line", ["include HEADER", "include_next <vector>", "import <vector>", 'embed "a.bin"'])
def test_what_is_included_has_a_name(digest_of, line):
    with pytest.raises(ValueError, match=rf"unit.cu: expected #include .*, got #{line}: name the file"):
        digest_of(f"#{line}\n")


def test_a_file_beside_is_taken_before_one_of_that_name_elsewhere(tmp_path):
    (tmp_path / "inner").mkdir()
    for folder in (tmp_path, tmp_path / "inner"):
        (folder / "h.hpp").write_text("#pragma once\n")
        (folder / "unit.cu").write_text('#include "h.hpp"\n#include <h.hpp>\n')
    unit = source_digest.unit_of(tmp_path / "inner" / "unit.cu", [tmp_path])
    assert unit.files == [tmp_path / "inner" / "unit.cu", tmp_path / "inner" / "h.hpp", tmp_path / "h.hpp"]


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """The kernels' sources, to be changed."""
    shutil.copytree(record.ROOT / "cuda", tmp_path / "cuda")
    monkeypatch.setattr(cuda_build, "ROOT", tmp_path)
    return tmp_path / "cuda"


def files(tree):
    return sorted(path for path in tree.rglob("*") if path.is_file())


def test_moving_wrapping_and_commenting_keep_the_kernels(tree):
    known, texts = cuda_build.sources_digests(), cuda_build.text_digests()
    for path in files(tree):
        text = re.sub(r'(#include ")(shared|decode|rescore|transducer)/', r"\1kernels/new_\2/", path.read_text())
        text = re.sub(r"(?<!\\)\n(?!.*#)", "\n  // Why.\n\n", text).replace("    ", " \t ")
        path.write_text(text if text.endswith("\n") else text + "\n")
    (tree / "kernels").mkdir()
    for name in ("shared", "decode", "rescore", "transducer"):
        (tree / name).rename(tree / "kernels" / f"new_{name}")
    assert cuda_build.sources_digests() == known
    assert not set(cuda_build.text_digests().items()) & set(texts.items())


@pytest.mark.parametrize("every", [12, pytest.param(1, marks=pytest.mark.long)])
def test_code_in_any_file_changes_the_kernels_that_include_it(tree, every):
    known = cuda_build.sources_digests()
    includes = {unit.stem: set(cuda_build.sources_of(unit)) for unit in cuda_build.units()}
    used = set()
    for path in files(tree)[::every]:
        text = path.read_text()
        path.write_text(text + "\n;\n")
        now = cuda_build.sources_digests()
        path.write_text(text)
        changed = {name for name in known if now[name] != known[name]}
        assert changed == {name for name in known if path in includes[name]}, path
        used |= changed
    assert used == set(known)  # there are files that all of them include


def test_no_code_tells_its_own_place():
    """Or equal digests would not mean equal code."""
    forbidden = {"__LINE__", "__FILE__", "__BASE_FILE__", "__COUNTER__", "__INCLUDE_LEVEL__", "__DATE__", "__TIME__"}
    forbidden |= {"assert", "source_location", "__builtin_LINE", "__builtin_FILE", "__has_include"}
    units = [source_digest.unit_of(unit, [record.ROOT / "cuda"]) for unit in cuda_build.units()]
    assert len(units) > 6
    for unit in units:
        assert not forbidden & set(unit.tokens)
