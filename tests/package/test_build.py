"""Building says plainly what is missing, and what is built holds what it should."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import arcbeam

ROOT = Path(__file__).resolve().parents[2]
HAS_GIL = not sysconfig.get_config_var("Py_GIL_DISABLED")
SOURCE_SUFFIXES = {".pyx", ".pxd", ".cpp", ".hpp", ".c", ".cu", ".flac"}


def build_ext(tmp_path: Path, *options: str, first: str = "", **environment: str) -> subprocess.CompletedProcess:
    """Builds a package with one module, after some code has run."""
    pytest.importorskip("setuptools")
    pytest.importorskip("Cython")
    for file in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, tmp_path)
    shutil.copytree(ROOT / "build_backend", tmp_path / "build_backend", dirs_exist_ok=True)
    package = tmp_path / "pyx" / "arcbeam"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text("")
    (package / "_tiny.pyx").write_text("cdef int answer = 42\n")
    code = (
        f"import runpy, sys\n{first}\nsys.argv[:] = {['setup.py', 'build_ext', *options]}\nrunpy.run_path('setup.py')"
    )
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )


def test_no_compiler_is_said_plainly(tmp_path):
    got = build_ext(tmp_path, CC="/nonexistent/cc", CXX="/nonexistent/c++")
    assert got.returncode != 0
    assert "arcbeam needs a C++17 compiler to build, and '/nonexistent/c++' does not work" in got.stderr
    assert "apt-get install g++" in got.stderr
    assert "Traceback" not in got.stderr


def test_a_compiler_that_fails_is_quoted(tmp_path):
    compiler = tmp_path / "old-compiler"
    compiler.write_text("#!/bin/sh\necho 'error: unrecognized option -std=c++17' >&2\nexit 1\n")
    compiler.chmod(0o755)
    got = build_ext(tmp_path, CC=str(compiler), CXX=str(compiler))
    assert got.returncode != 0
    assert "arcbeam needs a C++17 compiler" in got.stderr
    assert "unrecognized option -std=c++17" in got.stderr


def check_contents(names: list[str]) -> None:
    assert "arcbeam/__init__.py" in names
    assert "arcbeam/py.typed" in names
    for name in ("log_probs.npz", "reference.tsv", "transducer.npz", "encoder_output.npz"):
        assert f"arcbeam/demo_data/{name}" in names
    assert {f"arcbeam/report/page.{kind}" for kind in ("html", "css", "js")} <= set(names)
    for pyx in (ROOT / "pyx").rglob("_*.pyx"):
        if pyx.stem in ("_cydriver", "_stages"):  # only where cuda-bindings and cuda.h were found; for tests alone
            continue
        stem = pyx.relative_to(ROOT / "pyx").with_suffix("").as_posix()
        assert any(name.startswith(f"{stem}.") and name.endswith(".so") for name in names), stem
    modules = [path for path in (ROOT / "pyx" / "arcbeam").rglob("*") if path.suffix in (".py", ".pyi")]
    for module in modules:
        assert module.stem == "_stages" or module.relative_to(ROOT / "pyx").as_posix() in names
    strangers = [n for n in names if Path(n).suffix in SOURCE_SUFFIXES or not n.startswith(("arcbeam/", "arcbeam-"))]
    assert strangers == []


def test_a_compiler_is_enough_and_one_build_in_place_replaces_another(tmp_path):
    """Of two modules with one name Python imports the one for its own version, which may be the older build."""
    package, own = tmp_path / "pyx" / "arcbeam", sysconfig.get_config_var("EXT_SUFFIX")
    without_gil = "import sysconfig; sysconfig.get_config_vars()['Py_GIL_DISABLED'] = 1"
    builds = [("", ".abi3.so"), (without_gil, own), ("", ".abi3.so")] if HAS_GIL else [("", own)]
    for first, ending in builds:  # Python without the GIL has another ABI
        got = build_ext(tmp_path, "--inplace", first=first)
        assert got.returncode == 0, got.stderr
        assert {path.name for path in package.rglob("*.so")} == {f"_tiny{ending}", f"_cyutility{ending}"}


def test_what_is_installed():
    if ROOT in Path(str(arcbeam.__file__)).parents and "site-packages" not in str(arcbeam.__file__):
        pytest.skip("arcbeam is not installed here: this is its source, or a build beside it")
    distribution = metadata.distribution("arcbeam")
    names = [file.as_posix() for file in distribution.files or []]
    check_contents([n for n in names if not n.startswith("../") and not n.endswith(".pyc")])
    assert distribution.metadata["License-Expression"] == "Apache-2.0"


@pytest.fixture
def dist() -> Path:
    """Folder that holds a fresh wheel and sdist."""
    folder = os.environ.get("ARCBEAM_DIST")
    if not folder:
        pytest.skip("ARCBEAM_DIST is not set: it names the folder of a fresh wheel and sdist (.ci/run does)")
    return Path(folder)


def test_what_the_wheel_holds(dist):
    (wheel,) = dist.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    check_contents(names)
    if HAS_GIL:
        assert "-cp311-abi3-" in wheel.name
        assert {name.split(".", 1)[1] for name in names if name.endswith(".so")} == {"abi3.so"}
    assert not any("_stages" in name for name in names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    record = json.loads(zipfile.ZipFile(wheel).read("arcbeam/kernels/build.json"))
    for kernel in record["kernels"]:
        assert f"arcbeam/kernels/{kernel}.fatbin" in names
    if shutil.which("nvcc") and os.environ.get("ARCBEAM_CUDA") != "0":
        assert record["no_driver_calls"] is None
        assert any(name.startswith("arcbeam/gpu/_cydriver.") for name in names)


def test_the_sdist_holds_the_whole_tree(dist):
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        held = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: nothing to compare with")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert [name for name in tracked.split("\0") if name and name not in held and name != ".gitignore"] == []
