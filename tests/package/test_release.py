"""What a release is made of is the commit's, and has the same bytes wherever and whenever it is made."""

import gzip
import os
import re
import shutil
import subprocess
import tarfile
import tomllib
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from benchmarks.harness import backend

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def release():
    return backend.load("release")


def packed(made: Path, tree: Path, names: list[str], user: int) -> Path:
    """An archive as setuptools makes it: in any order, with the times and the owner of the files."""
    with tarfile.open(made, "w:gz") as archive:
        for name in names:
            member = archive.gettarinfo(tree / name, name)
            member.uid, member.uname = user, f"user{user}"
            archive.addfile(member, (tree / name).open("rb") if member.isfile() else None)
    return made


def test_two_archives_of_one_tree_have_the_same_bytes(release, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "text").write_text("text")
    (tmp_path / "a" / "run").write_text("#!/bin/sh\n")
    (tmp_path / "a" / "run").chmod(0o755)
    first = packed(tmp_path / "first.tar.gz", tmp_path, ["a", "a/text", "a/run"], 1)
    os.utime(tmp_path / "a" / "text", (1, 1))
    (tmp_path / "a" / "text").chmod(0o600)
    second = packed(tmp_path / "second.tar.gz", tmp_path, ["a/run", "a", "a/text"], 2)
    made = [release.normalised(raw, raw.with_suffix(".made"), 1234) for raw in (first, second)]
    assert first.read_bytes() != second.read_bytes()
    assert made[0].read_bytes() == made[1].read_bytes()
    with tarfile.open(made[0]) as archive:
        assert [(m.name, m.mode, m.mtime) for m in archive] == [
            ("a", 0o755, 1234), ("a/run", 0o755, 1234), ("a/text", 0o644, 1234)
        ]  # fmt: skip
        assert archive.extractfile("a/text").read() == b"text"
    with gzip.open(made[0]) as file:
        file.read()
        assert file.mtime == 1234


def test_what_is_not_committed_is_left_out(git, release, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("committed")
    git("init"), git("add", "."), git("commit", "-m", "1")
    (tmp_path / "file").write_text("changed")
    (tmp_path / "new").write_text("new")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    tree = release.exported(tmp_path / "made", "HEAD")
    assert {path.name: path.read_text() for path in tree.iterdir()} == {"file": "committed"}


def test_a_compiler_for_any_machine_and_one_that_nvcc_knows(release, tmp_path, monkeypatch):
    found = ModuleSpec("ziglang", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(release.importlib.util, "find_spec", lambda name: found)
    monkeypatch.delenv("CXX", raising=False)
    made = release.cross_environment("any", "2.17", 5)
    assert made["CXX"] == f"{tmp_path / 'zig'} c++ -target any-linux-gnu.2.17"
    assert made["LDCXXSHARED"] == made["CXX"] + " -shared"
    assert (made["NVCC_CCBIN"], made["SOURCE_DATE_EPOCH"]) == ("g++", "5")
    assert made["LDFLAGS"] == "-Wl,--strip-debug"
    if shutil.which("g++"):
        here = release.cross_environment(os.uname().machine, "2.17", 5)
        assert Path(here["LDFLAGS"].split()[1]).name == "libgcc.a"


def test_a_command_that_fails_is_quoted(release):
    with pytest.raises(SystemExit, match=r"^failed: git no-such-command"):
        release.run("git", "no-such-command", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_tools_are_pinned_and_metadata_names_what_runs(release):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert [tool for tool in extras["release"] if not re.fullmatch(r"[\w-]+==[\d.]+", tool)] == []
    assert set(extras["release"]) <= set(release.needs())
    versions = [f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13, 14)]
    assert [name for name in project["classifiers"] if re.search(r":: 3\.", name)] == versions
    assert not [name for name in extras["all"] if "kenlm" in name]  # which has no wheels
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {project['version']}\n" in citation
    assert f"\n## {project['version']}\n" in (ROOT / "CHANGELOG.md").read_text()
