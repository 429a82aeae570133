"""Types of the Cython modules: those that Python imports have a stub beside them, which says what the module has."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import arcbeam
from tests.test_layout import PACKAGE, ROOT, imported

HOME = Path(str(arcbeam.__file__)).parent.parent  # the folder pyx, or that of installed packages
MODULES = sorted(PACKAGE.rglob("_*.pyx"))
# What Cython adds of its own; and Python shows `__buffer__` from 3.12 on.
ADDED = r".*\.__(reduce_cython|setstate_cython|pyx_vtable|pyx_capi|test)__"
HIDDEN = r".*\.__(release_)?buffer__" if sys.version_info < (3, 12) else ""


def name_of(path):
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


def imported_by_python():
    """Names of the modules that the package's Python, or another stub, imports."""
    texts = [path for suffix in ("*.py", "*.pyi") for path in PACKAGE.rglob(suffix)]
    return {module for path in texts for module, _ in imported(path)}


def test_modules_that_python_imports_have_a_stub_and_no_others():
    wanted = {name_of(path) for path in MODULES} & {
        name for module in imported_by_python() for name in (module, module.rpartition(".")[0])
    }
    assert wanted == {name_of(path) for path in MODULES if path.with_suffix(".pyi").exists()}


def test_every_stub_has_a_module():
    assert [path.name for path in PACKAGE.rglob("*.pyi") if not path.with_suffix(".pyx").exists()] == []


def is_importable(name):
    """Not what is built for some purposes alone, or of a package that is not here."""
    try:
        return importlib.import_module(name) is not None
    except ImportError:
        return False


def stubtest(tmp_path, modules):
    """What mypy's comparison of stubs with what is imported says."""
    # mypy finds installed packages by itself, and refuses to be told of their folder.
    searched = {} if HOME.name == "site-packages" else {"MYPYPATH": str(HOME)}
    (tmp_path / "added").write_text(f"{ADDED}\n{HIDDEN}\n")
    return subprocess.run(
        [
            sys.executable, "-m", "mypy.stubtest", *modules, "--ignore-disjoint-bases", "--ignore-unused-allowlist",
            "--allowlist", tmp_path / "added", "--mypy-config-file", ROOT / "pyproject.toml",
        ],
        env=os.environ | searched | {"PYTHONPATH": os.pathsep.join(map(str, (HOME, *sys.path)))},
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip


def test_stubs_say_what_is_there(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed: pip install -e '.[lint]'")
    stubs = [path for path in MODULES if (HOME / path.relative_to(PACKAGE.parent)).with_suffix(".pyi").exists()]
    there = [name_of(path) for path in stubs if is_importable(name_of(path))]
    assert "arcbeam.ctc.cpu._decode" in there
    found = stubtest(tmp_path, there)
    assert found.returncode == 0, found.stdout + found.stderr
