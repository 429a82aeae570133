"""The package as it is released: every kernel for every architecture, in a size that people download."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import arcbeam
from benchmarks.harness import backend

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 60_000_000
UNITS = sorted((ROOT / "cuda").rglob("*.cu"))
MOST_SECONDS = 150  # of processor time, for one unit and one architecture


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


@pytest.mark.long  # a minute of a core at most
@pytest.mark.parametrize("unit", UNITS, ids=[unit.stem for unit in UNITS])
def test_a_unit_compiles_in_two_and_a_half_minutes_of_a_core(tmp_path, unit):
    """Compiled here, with the flags of a build, because a build takes what its cache has."""
    cuda_build = backend.load("cuda_build")
    if (nvcc := cuda_build.find_nvcc()) is None:
        pytest.skip("there is no nvcc")
    command = [nvcc, "-cubin", *cuda_build.NVCC_FLAGS, "-arch=sm_90", str(unit), "-o", str(tmp_path / "made.cubin")]
    process = subprocess.Popen(command, cwd=ROOT)
    _, status, used = os.wait4(process.pid, 0)  # with the processes that nvcc has started
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    seconds = used.ru_utime + used.ru_stime
    print(f"{unit.stem}: {seconds:.1f} s")
    assert seconds < MOST_SECONDS, f"{unit.stem} takes {seconds:.1f} s of a core"


@pytest.mark.long  # nvcc compiles a quarter of an hour on one core
def test_the_installed_package_is_small(tmp_path):
    record = build(tmp_path / "kernels", "all")
    assert record["architectures"] == ["8.0", "8.6", "8.9", "9.0", "10.0", "12.0"] and record["ptx"] == "12.0"
    assert set(record["kernels"]) == set(record["sources"])
    kernels = sum(path.stat().st_size for path in (tmp_path / "kernels").iterdir())
    package = Path(str(arcbeam.__file__)).parent
    others = sum(path.stat().st_size for path in package.rglob("*") if path.is_file() and path.parent.name != "kernels")
    assert kernels + others < MOST_BYTES, f"{kernels} bytes of kernels, {others} of the rest"
