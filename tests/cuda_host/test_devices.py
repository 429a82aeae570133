"""Names of devices, and why a GPU cannot be used."""

import multiprocessing
import os
import sys
import warnings

import pytest

from arcbeam import CtcDecoder, Graph
from arcbeam.core.errors import CudaError, MissingDependencyError
from arcbeam.gpu import _cuda, devices, kernel_images
from arcbeam.gpu.devices import require_cuda, resolve_device, why_no_cuda
from arcbeam.gpu.kernel_images import BuildRecord


def told_once():
    """What "auto" warns of in two decoders, which decode on the CPU."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert resolve_device("auto") is None
        assert resolve_device("auto") is None
    assert all(w.category is UserWarning for w in caught)
    return [str(w.message) for w in caught]


def test_names(fake):
    fake.start(devices=2)
    assert resolve_device("cpu") is None
    assert resolve_device("cuda") == 0
    assert resolve_device("cuda:1") == 1
    assert resolve_device("auto") == 0
    assert [_cuda.device_properties(i)["name"] for i in range(_cuda.device_count())] == ["Fake 0", "Fake 1"]
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
    said = "it supports CUDA 12.4, and arcbeam's kernels need 13.0 (driver 580 or newer)"
    assert said in str(caught.value)
    assert told_once() == [
        f'device: there is a GPU that cannot be used, so "auto" decodes on the CPU: the CUDA driver is too old: '
        f'{said}. Give device="cpu" to choose the CPU without this warning'
    ]


def test_no_devices(fake):
    fake.start(devices=0)
    with pytest.raises(CudaError, match="no CUDA device: the driver shows none; CUDA_VISIBLE_DEVICES"):
        resolve_device("cuda")
    assert told_once() == []
    fake.library.fake_start(0, 12040)  # and an old driver is no trouble then
    assert told_once() == []


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
        assert resolve_device("auto") == 0
    else:
        with pytest.raises(CudaError) as caught:
            require_cuda(0)
        said = f"no kernel runs on cuda:0 (Fake 0, compute capability {capability[0]}.{capability[1]}): built for "
        assert said + ", ".join(architectures) in str(caught.value)
        (warning,) = told_once()
        assert f'cannot be used, so "auto" decodes on the CPU: {said}' in warning
        assert "ARCBEAM_CUDA_ARCHS chooses them" in warning


def test_a_build_without_kernels(fake, monkeypatch):
    monkeypatch.setattr(kernel_images, "build_record", lambda: BuildRecord(no_kernels="nvcc was missing"))
    with pytest.raises(MissingDependencyError, match="no CUDA kernels, because nvcc was missing when it was built"):
        resolve_device("cuda")
    assert "nvcc was missing" in str(why_no_cuda())
    assert told_once() == []
    monkeypatch.setattr(devices, "_nodes_of_gpus", lambda: True)
    assert "because nvcc was missing when it was built; docs/guide/install.md says how to build it" in told_once()[0]


def test_a_device_without_pools(fake):
    fake.library.fake_device(0, 9, 0, 0)
    with pytest.raises(CudaError, match=r"cuda:0 \(Fake 0\) has no stream-ordered memory pools, which arcbeam needs"):
        resolve_device("cuda")
    assert "has no stream-ordered memory pools" in told_once()[0]


@pytest.mark.parametrize(
    ("code", "with_nodes"), [(100, []), (500, ["no CUDA driver"]), (34, ["no CUDA driver"]), (999, ["does not start"])]
)
def test_a_driver_that_does_not_start(fake, monkeypatch, code, with_nodes):
    """Where there is no GPU that is nothing to be told of; nor where the driver says that there is none for us."""
    fake.library.fake_start(code, 13000)
    for nodes, wanted in ((False, []), (True, with_nodes)):
        monkeypatch.setattr(devices, "_nodes_of_gpus", lambda nodes=nodes: nodes)
        monkeypatch.setattr(_cuda, "device_count", lambda: start_again(fake))
        told = told_once()
        assert len(told) == len(wanted)
        assert all(part in whole for part, whole in zip(wanted, told, strict=True))


def start_again(fake):
    """What the first use of the driver does."""
    _cuda.use_driver(fake.library.fake_table())
    raise AssertionError("it started")


def test_what_the_system_shows_of_gpus(monkeypatch):
    found = []
    monkeypatch.setattr(devices, "glob", lambda pattern: found)
    monkeypatch.setattr(devices.os.path, "exists", lambda path: path in found)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert not devices._nodes_of_gpus()
    found.append("/dev/nvidia0")
    assert devices._nodes_of_gpus()
    for hidden in ("", "-1", "-1,0", "NoDevFiles"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
        assert not devices._nodes_of_gpus()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    assert devices._nodes_of_gpus()


def test_reasons_are_told_apart(fake):
    fake.library.fake_device(0, 9, 0, 0)
    assert len(told_once()) == 1
    fake.library.fake_device(0, 7, 5, 1)
    _cuda.use_driver(fake.library.fake_table())
    assert "compute capability 7.5" in told_once()[0]
    assert told_once() == []


def in_a_child(run):
    """What it returns in a forked child, or the error's name and text."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                sender.send((None, str(run())))
        except BaseException as error:
            sender.send((type(error).__name__, str(error)))
        os._exit(0)
    os.waitpid(child, 0)
    return receiver.recv()


def test_a_child_of_a_process_that_used_cuda_is_told_so_of_auto_too(fake):
    assert resolve_device("auto") == 0
    for device in ("auto", "cuda"):
        name, said = in_a_child(lambda device=device: resolve_device(device))
        assert name == "CudaError"
        assert "was forked from it: the driver does not work in a forked child. Use multiprocessing's start" in said
    assert in_a_child(lambda: resolve_device("cpu")) == (None, "None")


def test_a_child_of_a_process_that_another_library_used_cuda_in(fake, monkeypatch):
    fake.library.fake_start(3, 13000)
    monkeypatch.setattr(_cuda, "device_count", lambda: start_again(fake))
    with pytest.raises(CudaError, match=r"as it never does in a process forked .* method 'spawn' or 'forkserver'"):
        resolve_device("auto")


def test_a_child_of_a_process_that_found_no_use_for_its_gpu_decodes_on_the_cpu(fake):
    """As its parent does: that has told, and its driver has only listed the devices."""
    fake.library.fake_device(0, 7, 5, 1)
    assert len(told_once()) == 1
    assert in_a_child(lambda: resolve_device("auto")) == (None, "None")
    assert in_a_child(lambda: resolve_device("cuda"))[0] == "CudaError"


def test_the_warning_names_the_line_of_the_users(fake):
    fake.library.fake_device(0, 7, 5, 1)
    with pytest.warns(UserWarning, match="there is a GPU that cannot be used") as caught:
        CtcDecoder(Graph.from_arcs([(0, 0, 1, 0, 0.0)], start=0, finals={0: 0.0}))
    assert [w.filename for w in caught] == [__file__]


def test_the_package_that_calls_the_driver_is_named(fake, monkeypatch):
    _cuda.use_driver(0)
    monkeypatch.setattr(kernel_images, "build_record", lambda: BuildRecord(nvcc="13.0.88"))
    monkeypatch.setitem(sys.modules, "arcbeam.gpu._cydriver", None)  # as if its import failed
    monkeypatch.delattr("arcbeam.gpu._cydriver", raising=False)
    with pytest.raises(MissingDependencyError, match=r"pip install 'cuda-bindings>=12.9,<14'"):
        require_cuda()


def test_the_record_of_this_build_can_be_read():
    kernel_images.build_record.cache_clear()
    record = kernel_images.build_record()
    assert record.no_kernels is not None or record.kernels
    assert devices.why_no_cuda(99) is not None
    _cuda.use_driver(0)
