"""Each file of an extension is compiled for itself, and again only where something has changed that it is made of."""

import importlib.util
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def objects():
    spec = importlib.util.spec_from_file_location("objects", ROOT / "build_backend" / "objects.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Sources:
    """Two files, one of which includes a header, and what is compiled of them."""

    def __init__(self, objects, folder: Path):
        self.objects, self.folder = objects, folder
        self.compiled: list[str] = []
        self.flags = ["-O1"]
        self.write("one.cpp", '#include "a header.hpp"\nint one() { return kOne; }\n')
        self.write("two.cpp", "int two() { return 2; }\n")
        self.write("a header.hpp", "inline constexpr int kOne = 1;\n")

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def build(self, *, fails=(), meanwhile=lambda: None):
        self.compiled.clear()
        files = ["one.cpp", "two.cpp"]
        self.objects.compile_all(files, lambda name: self._compile(name, name in fails, meanwhile), 2)
        return sorted(self.compiled)

    def _compile(self, name, fails, meanwhile):
        made = str(self.folder / name.replace(".cpp", ".o"))

        def compile_it(more):
            self.compiled.append(name)
            command = ["g++", *self.flags, *more, "-c", str(self.folder / name), "-o", made]
            subprocess.run(command if not fails else ["false"], check=True)
            meanwhile()
            Path(made).touch()  # the compiler has written it at its end

        self.objects.compile_unless_fresh(made, ["g++", *self.flags, name], compile_it)


@pytest.fixture
def sources(objects, tmp_path):
    return Sources(objects, tmp_path)


def test_only_what_changed_is_compiled_again(sources):
    assert sources.build() == ["one.cpp", "two.cpp"]
    assert sources.build() == []
    sources.write("two.cpp", "int two() { return 3; }\n")
    assert sources.build() == ["two.cpp"]
    sources.write("a header.hpp", "inline constexpr int kOne = 11;\n")
    assert sources.build() == ["one.cpp"]
    assert sources.build() == []


def test_other_flags_make_other_objects(sources):
    sources.build()
    sources.flags.append("-DOTHER")
    assert sources.build() == ["one.cpp", "two.cpp"]


def test_an_object_that_is_gone_or_whose_header_is_gone_is_compiled(sources):
    sources.build()
    (sources.folder / "two.o").unlink()
    assert sources.build() == ["two.cpp"]
    (sources.folder / "a header.hpp").unlink()
    sources.write("one.cpp", "int one() { return 1; }\n")
    assert sources.build() == ["one.cpp"]


def test_what_changes_while_it_is_compiled_is_compiled_again(sources):
    sources.build()
    sources.write("two.cpp", "int two() { return 3; }\n")
    changed = "int two() { return 4; }\n"
    assert sources.build(meanwhile=lambda: sources.write("two.cpp", changed)) == ["two.cpp"]
    assert sources.build() == ["two.cpp"]
    assert sources.build() == []


def test_what_failed_is_compiled_again(sources):
    sources.build()
    sources.write("one.cpp", "int one() { return 0; }\n")
    with pytest.raises(subprocess.CalledProcessError):
        sources.build(fails=["one.cpp"])
    assert sources.build() == ["one.cpp"]


def test_how_far_it_is_is_told_and_a_failure_begins_no_more(objects, capsys, monkeypatch):
    monkeypatch.setattr(objects, "SECONDS_A_LINE", 0)
    objects.compile_all(["a.cpp", "b.cpp"], lambda name: None, 1)
    assert "compiled 1 of 2 files" in capsys.readouterr().err

    def fail(name):
        begun.append(name)
        raise ValueError(name)

    begun: list[str] = []
    with pytest.raises(ValueError, match=r"0\.cpp"):
        objects.compile_all([f"{i}.cpp" for i in range(1000)], fail, 1)
    assert begun == ["0.cpp"]


def test_a_terminal_has_one_line_that_names_the_file(objects, capsys, monkeypatch):
    monkeypatch.setattr(objects.sys.stderr, "isatty", lambda: True, raising=False)
    objects.compile_all(["a.cpp", "b.cpp"], lambda name: None, 1)
    assert capsys.readouterr().err == (
        "\r\x1b[Kcompiled 1 of 2 files: a.cpp\r\x1b[Kcompiled 2 of 2 files: b.cpp\r\x1b[K"
    )
