"""What a missing package's error says: the package itself, never an extra of a project that is not on PyPI."""

import re
import sys
from pathlib import Path

import pytest

from arcbeam import MissingDependencyError
from arcbeam.core.packages import missing_package, require

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [path for ending in ("py", "pyx") for path in (ROOT / "pyx").rglob(f"*.{ending}")]
HELPERS = [path for room in ("benchmarks", "data", "examples", "build_backend") for path in (ROOT / room).rglob("*.py")]
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]


def test_no_text_names_an_extra_of_arcbeam():
    assert len(SOURCES) > 200 and len(PAGES) > 30
    named = [path for path in SOURCES + HELPERS + PAGES if re.search(r"arcbeam\[", path.read_text())]
    assert named == []


def test_the_one_function_says_what_to_type(monkeypatch):
    monkeypatch.setitem(sys.modules, "kaldifst", None)
    with pytest.raises(MissingDependencyError, match=r"^a graph needs the package kaldifst, .*: pip install kaldifst$"):
        require("kaldifst", "a graph")
    with pytest.raises(MissingDependencyError, match=r"needs the package pyyaml, .*: pip install pyyaml$"):
        monkeypatch.setitem(sys.modules, "yaml", None)
        require("yaml", "a configuration", "pyyaml")
    assert str(missing_package("cuda-bindings>=12.9,<14", "CUDA")).endswith(": pip install 'cuda-bindings>=12.9,<14'")
    assert require("json", "nothing").loads("1") == 1


def test_every_text_is_made_by_that_function():
    """Other errors about the build have no package to install."""
    raised = {
        path.relative_to(ROOT / "pyx/arcbeam").as_posix()
        for path in SOURCES
        if re.search(r"raise MissingDependencyError\(", path.read_text())
    }
    assert raised <= {"gpu/_cuda.pyx", "gpu/devices.py", "gpu/kernel_images.py"}
