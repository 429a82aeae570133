"""The package as it is released: every kernel for every architecture, in a size that people download."""

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import arcbeam

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 60_000_000
MOST_SECONDS = 180  # of processor time, for one architecture


def build(kernels, architectures):
    """Compiles every kernel, and returns what the build records."""
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not on the PATH")
    code = "import sys, cuda_build; cuda_build.build_kernels(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", code, str(kernels)],
        cwd=ROOT / "build_backend", check=True, env=os.environ | {"ARCBEAM_CUDA_ARCHS": architectures},
    )  # fmt: skip
    return json.loads((kernels / "build.json").read_text())


@pytest.mark.long
def test_the_kernels_of_one_architecture_compile_in_three_minutes_of_a_core(tmp_path):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert build(tmp_path / "kernels", "90")["architectures"] == ["9.0"]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < MOST_SECONDS


@pytest.mark.long  # nvcc compiles a quarter of an hour on one core
def test_the_installed_package_is_small(tmp_path):
    record = build(tmp_path / "kernels", "all")
    assert record["architectures"] == ["8.0", "8.6", "8.9", "9.0", "10.0", "12.0"] and record["ptx"] == "12.0"
    assert set(record["kernels"]) == set(record["sources"])
    kernels = sum(path.stat().st_size for path in (tmp_path / "kernels").iterdir())
    package = Path(str(arcbeam.__file__)).parent
    others = sum(path.stat().st_size for path in package.rglob("*") if path.is_file() and path.parent.name != "kernels")
    assert kernels + others < MOST_BYTES, f"{kernels} bytes of kernels, {others} of the rest"
