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
MOST_SECONDS, MOST_SECONDS_TOGETHER = 100, 800  # of processor time, for a unit and all of them, and one architecture


def build(kernels, architectures):
    """Compiles every kernel as a release does, without lines for the profiler; returns what the build records."""
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not on the PATH")
    code = "import sys, cuda_build; cuda_build.build_kernels(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", code, str(kernels)],
        cwd=ROOT / "build_backend", check=True,
        env=os.environ | {"ARCBEAM_CUDA_ARCHS": architectures, "SOURCE_DATE_EPOCH": "0"},
    )  # fmt: skip
    return json.loads((kernels / "build.json").read_text())


def seconds_of_a_core(command):
    """Of a command and the processes that it starts."""
    process = subprocess.Popen(command, cwd=ROOT)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"{command} failed"
    return used.ru_utime + used.ru_stime


@pytest.mark.long  # nvcc compiles ten minutes on one core
def test_how_long_the_units_compile(tmp_path):
    """Compiled here, with the flags of a build, because a build takes what its cache has."""
    cuda_build = backend.load("cuda_build")
    if (nvcc := cuda_build.find_nvcc()) is None:
        pytest.skip("there is no nvcc")
    options, made = [*cuda_build.NVCC_FLAGS, "-arch=sm_90"], str(tmp_path / "made.cubin")
    seconds = {unit.stem: seconds_of_a_core([nvcc, "-cubin", *options, str(unit), "-o", made]) for unit in UNITS}
    told = ", ".join(f"{name} {found:.1f}" for name, found in seconds.items())
    print(f"seconds of a core: {told}; together {sum(seconds.values()):.1f}")
    assert max(seconds.values()) < MOST_SECONDS, told
    assert sum(seconds.values()) < MOST_SECONDS_TOGETHER, told


@pytest.mark.long  # nvcc compiles a quarter of an hour on one core
def test_the_installed_package_is_small(tmp_path):
    record = build(tmp_path / "kernels", "all")
    assert record["architectures"] == ["8.0", "8.6", "8.9", "9.0", "10.0", "12.0"] and record["ptx"] == "12.0"
    assert set(record["kernels"]) == set(record["sources"])
    kernels = sum(path.stat().st_size for path in (tmp_path / "kernels").iterdir())
    package = Path(str(arcbeam.__file__)).parent
    others = sum(path.stat().st_size for path in package.rglob("*") if path.is_file() and path.parent.name != "kernels")
    assert kernels + others < MOST_BYTES, f"{kernels} bytes of kernels, {others} of the rest"
