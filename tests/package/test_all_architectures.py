"""The package as it is released: every kernel for every architecture, in a size that people download."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import arcbeam

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 60_000_000


@pytest.mark.long  # nvcc compiles a quarter of an hour on one core
def test_the_installed_package_is_small(tmp_path):
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not on the PATH")
    code = "import sys, cuda_build; cuda_build.build_kernels(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "kernels")],
        cwd=ROOT / "build_backend", check=True, env=os.environ | {"ARCBEAM_CUDA_ARCHS": "all"},
    )  # fmt: skip
    record = json.loads((tmp_path / "kernels" / "build.json").read_text())
    assert record["architectures"] == ["8.0", "8.6", "8.9", "9.0", "10.0", "12.0"] and record["ptx"] == "12.0"
    assert set(record["kernels"]) == set(record["sources"])
    kernels = sum(path.stat().st_size for path in (tmp_path / "kernels").iterdir())
    package = Path(str(arcbeam.__file__)).parent
    others = sum(path.stat().st_size for path in package.rglob("*") if path.is_file() and path.parent.name != "kernels")
    assert kernels + others < MOST_BYTES, f"{kernels} bytes of kernels, {others} of the rest"
