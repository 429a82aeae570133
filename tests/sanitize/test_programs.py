"""The programs of ``make sanitize`` keep up with the headers they are written against; that target runs them."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ["-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Icuda", "-Icpu_reference", "-Ipyx"]


@pytest.mark.parametrize("program", sorted((ROOT / "tests/sanitize").glob("*.cpp")), ids=lambda path: path.name)
def test_it_compiles(program):
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    got = subprocess.run([*compiler, *FLAGS, str(program)], cwd=ROOT, capture_output=True, text=True)
    assert got.returncode == 0, got.stderr
