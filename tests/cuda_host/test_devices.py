"""Names of devices, and why a GPU cannot be used."""

import sys

import pytest

from arcbeam import _cuda, devices, kernel_images
from arcbeam.devices import cuda_devices, require_cuda, resolve_device, why_no_cuda
from arcbeam.errors import CudaError, MissingDependencyError
from arcbeam.kernel_images import BuildRecord


def test_names(fake):
    fake.start(devices=2)
    assert resolve_device("cpu") is None
    assert resolve_device("cuda") == 0
    assert resolve_device("cuda:1") == 1
    assert resolve_device("auto") == 0
    assert [device.name for device in cuda_devices()] == ["Fake 0", "Fake 1"]
    assert why_no_cuda() is None


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:-1", "cuda:x", "CUDA", "", None, 0])
def test_other_names(name):
    with pytest.raises(ValueError, match='device: expected "cpu", "cuda", "cuda:N" or "auto"'):
        resolve_device(name)


def test_no_such_device(fake):
    with pytest.raises(CudaError, match="no device cuda:7: the driver shows cuda:0 alone"):
        resolve_device("cuda:7")


def test_an_old_driver_names_both_versions(fake):
    fake.library.fake_start(0, 12040)
    with pytest.raises(CudaError) as caught:
        resolve_device("cuda")
    assert "it supports CUDA 12.4, and arcbeam's kernels need 13.0 (driver 580 or newer)" in str(caught.value)
    assert resolve_device("auto") is None


def test_no_devices(fake):
    fake.start(devices=0)
    with pytest.raises(CudaError, match="no CUDA device: the driver shows none; CUDA_VISIBLE_DEVICES"):
        resolve_device("cuda")


@pytest.mark.parametrize(
    ("capability", "architectures", "ptx", "runs"),
    [
        ((9, 0), ("8.0", "9.0"), None, True),
        ((8, 7), ("8.0", "8.6", "9.0"), None, True),
        ((8, 0), ("8.6",), None, False),
        ((7, 5), ("8.0",), "8.0", False),
        ((10, 3), ("9.0",), "9.0", True),
        ((10, 3), ("9.0",), None, False),
        ((9, 0), ("9.0a",), None, True),
        ((12, 1), ("9.0", "12.0"), "12.0", True),
        ((10, 0), ("9.0a",), "9.0a", False),
    ],
)
def test_which_kernels_run_where(fake, monkeypatch, capability, architectures, ptx, runs):
    record = BuildRecord(nvcc="13.0.88", architectures=architectures, ptx=ptx)
    monkeypatch.setattr(kernel_images, "build_record", lambda: record)
    fake.library.fake_device(0, *capability, 1)
    if runs:
        assert require_cuda(0).compute_capability == capability
    else:
        with pytest.raises(CudaError) as caught:
            require_cuda(0)
        said = f"no kernel runs on cuda:0 (Fake 0, compute capability {capability[0]}.{capability[1]}): built for "
        assert said + ", ".join(architectures) in str(caught.value)


def test_a_build_without_kernels(fake, monkeypatch):
    monkeypatch.setattr(kernel_images, "build_record", lambda: BuildRecord(no_kernels="nvcc was missing"))
    with pytest.raises(MissingDependencyError, match="no CUDA kernels, because nvcc was missing when it was built"):
        resolve_device("cuda")
    assert "nvcc was missing" in str(why_no_cuda())
    assert resolve_device("auto") is None


def test_the_package_that_calls_the_driver_is_named(fake, monkeypatch):
    _cuda.use_driver(0)
    monkeypatch.setattr(kernel_images, "build_record", lambda: BuildRecord(nvcc="13.0.88"))
    monkeypatch.setitem(sys.modules, "arcbeam._cydriver", None)  # as if its import failed
    monkeypatch.delattr("arcbeam._cydriver", raising=False)
    with pytest.raises(MissingDependencyError, match=r"pip install 'arcbeam\[cuda\]'"):
        require_cuda()


def test_the_record_of_this_build_can_be_read():
    kernel_images.build_record.cache_clear()
    record = kernel_images.build_record()
    assert record.no_kernels is not None or record.kernels
    assert devices.why_no_cuda(99) is not None
    _cuda.use_driver(0)
