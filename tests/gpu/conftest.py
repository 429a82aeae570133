"""What tests on a real GPU share: they skip, saying why, where there is none."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from arcbeam.errors import CudaError, MissingDependencyError
from arcbeam.gpu import _cuda

HERE = Path(__file__).parent

# JAX would take three quarters of the device's memory when it is first asked for an array.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


def why_no_gpu() -> str | None:
    """Why no device can be used here. Kernels of arcbeam's own need not have been built."""
    try:
        return None if _cuda.device_count() else "the driver shows no device"
    except (CudaError, MissingDependencyError) as error:
        return str(error)


@pytest.fixture(scope="session")
def gpu() -> int:
    """Number of the device to test on."""
    reason = why_no_gpu()
    if reason:
        pytest.skip(f"no GPU: {reason}")
    return 0


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
