"""What tests on a real GPU share. Where there is none they are not collected: tests/conftest.py."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from arcbeam.gpu import _cuda
from arcbeam.gpu.devices import why_no_cuda
from arcbeam.gpu.tuned import search_plan
from tests.gpu.sanitized import TIGHT

HERE = Path(__file__).parent

# JAX would take three quarters of the device's memory for its first array.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


@pytest.fixture(scope="session")
def gpu() -> int:
    """Number of the device to test on."""
    return 0


@pytest.fixture(scope="module", autouse=True)
def needs_kernels(request, gpu):
    """Of the package, which the tests of the driver do without."""
    reason = None if request.module.__name__.endswith("test_driver_on_gpu") else why_no_cuda(gpu)
    if reason:
        pytest.skip(f"no kernels for this GPU: {reason}")


@pytest.fixture(params=[TIGHT, search_plan.first_room(0)], ids=["tight", "as shipped"])
def room(request, monkeypatch):
    """Of decoders at first: almost none, so that everything grows, or as shipped."""
    monkeypatch.setattr(search_plan, "first_room", lambda max_active: request.param)


def compiled_probe(folder: Path, target: str) -> bytes:
    """``probe.cu`` for what nvcc is told by ``target``."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("nvcc is not on the PATH, which compiles probe.cu")
    made = folder / "probe.fatbin"
    command = [nvcc, "-fatbin", "-std=c++17", target, str(HERE / "probe.cu"), "-o", str(made)]
    subprocess.run(command, check=True)
    return made.read_bytes()


@pytest.fixture(scope="session")
def probe_image(gpu, tmp_path_factory) -> bytes:
    """``probe.cu``, compiled for the device."""
    major, minor = _cuda.device_properties(gpu)["compute_capability"]
    return compiled_probe(tmp_path_factory.mktemp("probe"), f"-arch=sm_{major}{minor}")


@pytest.fixture(scope="session")
def probe_ptx(gpu, tmp_path_factory) -> bytes:
    """The same as PTX of 8.0, which the driver compiles for the device."""
    return compiled_probe(tmp_path_factory.mktemp("probe"), "-gencode=arch=compute_80,code=compute_80")
