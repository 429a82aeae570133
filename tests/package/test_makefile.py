"""The Makefile and its parts: what they say of themselves, what they leave, and that the sdist has all."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = ("Makefile", "release.mk", "gpu.mk")
# Steps of other targets, which nobody has to type.
STEPS = {"gpu-site", "gpu-carried", "gpu-build"}
# What is ignored by git and stays: it took long to make, or is somebody's own.
KEPT = {".cache/", "/demo.arcbeam", "benchmarks/results/**/*.partial.jsonl"}


def make(*arguments, cwd=ROOT):
    return subprocess.run(["make", *arguments], cwd=cwd, capture_output=True, text=True, check=True).stdout


def targets(file):
    return re.findall(r"[\w-]+", " ".join(re.findall(r"^\.PHONY:(.*)$", (ROOT / file).read_text(), re.MULTILINE)))


@pytest.fixture
def needs_make():
    if not shutil.which("make"):
        pytest.skip("make is not installed")


def test_help_tells_every_target_of_all_files(needs_make):
    said = make("help")
    assert set(targets("gpu.mk")) > STEPS and "test" in targets("Makefile")
    parts = set(re.search(r"PART=(.*?) runs one", " ".join(said.split()))[1].replace(" or ", " ").split())
    for target in {target for file in FILES for target in targets(file)} - STEPS - {"help"}:
        part = target.removeprefix("gpu-")
        assert f"make {target} " in said or part in {word.strip(",") for word in parts}, target
    assert "include" not in said and "#" not in said


def test_what_is_of_a_gpu_is_in_its_own_file():
    assert not [t for file in ("Makefile", "release.mk") for t in targets(file) if t.startswith("gpu")]
    assert all(target.startswith("gpu-") for target in targets("gpu.mk"))
    for file in FILES:
        assert len((ROOT / file).read_text().splitlines()) <= 150


def test_every_goal_can_be_planned(needs_make):
    said = make("-n", "gpu-test", "gpu-bench", "gpu-profile", "gpu-graphs", "GPU_PYTHON=python3")
    for module in (
        "benchmarks.build_graphs",
        "benchmarks.one_decode",
        "benchmarks --machine gpu",
        "pytest -q tests/gpu/",
    ):
        assert module in said


def test_clean_leaves_nothing_that_was_built_in_the_tree(needs_make, tmp_path):
    for file in (*FILES, ".gitignore"):
        shutil.copy(ROOT / file, tmp_path)
    patterns = {line for line in (ROOT / ".gitignore").read_text().split() if not line.startswith("#")}
    assert patterns >= KEPT
    made = [
        "build/gpu-site/numpy/__init__.py", "build/gpu-build.log", "build/carried.json", "build/cython/a.cpp",
        "build/kernels/search.fatbin", "build/ptx/arcbeam/kernels/search.fatbin", "pyx/arcbeam/kernels/build.json",
        "pyx/arcbeam/kernels/search.fatbin", "pyx/arcbeam/_old.cpython-312-x86_64-linux-gnu.so",
        "pyx/arcbeam/ctc/gpu/searches/_search.cpython-312-x86_64-linux-gnu.so", "pyx/arcbeam/ctc/__pycache__/a.pyc",
        "pyx/arcbeam.egg-info/PKG-INFO", "benchmarks/harness/__pycache__/a.pyc", ".venv/bin/python", "dist/a.whl",
        ".venv-release/bin/python",
        ".benchmarks/a.json", ".pytest_cache/a", ".mypy_cache/a", ".ruff_cache/a", ".hypothesis/a",
    ]  # fmt: skip
    kept = [".cache/graphs/a.arcbeam", "demo.arcbeam", "benchmarks/results/h200/a.partial.jsonl"]
    own = ["pyx/arcbeam/ctc/cpu/_decode.pyx", "benchmarks/results/h200/a.jsonl"]
    for place in (*made, *kept, *own):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text("")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)

    def ignored():
        command = ["git", "ls-files", "--others", "--ignored", "--exclude-standard"]
        return set(subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.split())

    assert ignored() == {*made, *kept}
    make("clean", cwd=tmp_path)
    assert ignored() == set(kept)
    assert all((tmp_path / place).exists() for place in own)


def test_the_sdist_has_all_files():
    included = " ".join(re.findall(r"^include (.*)$", (ROOT / "MANIFEST.in").read_text(), re.MULTILINE)).split()
    assert set(FILES) <= set(included)
    assert re.search(r"^include release\.mk gpu\.mk$", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_what_is_built_anew_when_it_changes():
    """Types are part of the package, too."""
    sources = re.search(r"^SOURCES := .*\n.*$", (ROOT / "Makefile").read_text(), re.MULTILINE)[0]
    suffixes = {path.suffix for path in (ROOT / "pyx" / "arcbeam").rglob("*") if path.is_file()}
    suffixes -= {".so", ".pyc", ".typed"}
    kernels = {".fatbin", ".json"}  # made by a build
    for suffix in suffixes - kernels:
        assert f"'*{suffix}'" in sources.replace("[ch]pp", "cpp").replace("'*.cpp'", "'*.cpp' '*.hpp'"), suffix
