"""Which devices can decode: names such as ``"cuda:1"`` to numbers, and why a GPU cannot be used."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from glob import glob

from arcbeam.core.errors import CudaError, MissingDependencyError
from arcbeam.core.warn import warn

# The first driver of each generation of CUDA, for error messages.
_FIRST_DRIVER = {11: 450, 12: 525, 13: 580}

ALL = "cuda:all"
_NOT_INITIALIZED, _NO_DEVICE = 3, 100  # the driver's codes
_told: set[str] = set()  # why this process, or one that it was forked from, decodes on the CPU despite a GPU
_auto_is_cpu = False  # whether "auto" meant the CPU in this process or in one that it was forked from


@dataclass(frozen=True)
class Device:
    """A GPU, as the driver describes it."""

    ordinal: int  # the N of "cuda:N"
    name: str
    compute_capability: tuple[int, int]
    multiprocessors: int
    threads_per_multiprocessor: int
    shared_bytes_per_block: int  # the most that a block may have
    shared_bytes_per_multiprocessor: int
    l2_bytes: int
    memory_bytes: int
    memory_pools: bool  # stream-ordered; needed
    clusters: bool  # used by kernels that were compiled for 9.0 or newer


def require_cuda(ordinal: int = 0) -> Device:
    """The GPU of this number; MissingDependencyError or CudaError unless arcbeam's kernels can run on it."""
    from arcbeam.gpu import _cuda
    from arcbeam.gpu.kernel_images import build_record

    record = build_record()
    record.require_kernels()
    count = _cuda.device_count()
    if count == 0:
        raise CudaError(
            "no CUDA device: the driver shows none; CUDA_VISIBLE_DEVICES may hide them",
            name="CUDA_ERROR_NO_DEVICE",
            code=_NO_DEVICE,
            action="finding a device",
        )
    found, needed = _cuda.driver_version(), record.needed_driver()
    if found < needed:
        first = _FIRST_DRIVER.get(needed[0])
        raise CudaError(
            f"the CUDA driver is too old: it supports CUDA {found[0]}.{found[1]}, and arcbeam's kernels need "
            f"{needed[0]}.{needed[1]}" + (f" (driver {first} or newer)" if first else ""),
            name="CUDA_ERROR_INSUFFICIENT_DRIVER",
            code=35,
            action="finding a device",
        )
    device = Device(**_cuda.device_properties(ordinal))
    if not _has_kernels(device.compute_capability, record.architectures, record.ptx):
        major, minor = device.compute_capability
        built = [", ".join(record.architectures)] if record.architectures else []
        built += [f"as PTX of {record.ptx} for newer ones"] if record.ptx else []
        raise CudaError(
            f"no kernel runs on cuda:{ordinal} ({device.name}, compute capability {major}.{minor}): built for "
            f"{', and '.join(built)}; ARCBEAM_CUDA_ARCHS chooses them when arcbeam is built",
            name="CUDA_ERROR_NO_BINARY_FOR_GPU",
            code=209,
            action="finding a device",
        )
    if not device.memory_pools:
        raise CudaError(
            f"cuda:{ordinal} ({device.name}) has no stream-ordered memory pools, which arcbeam needs",
            name="CUDA_ERROR_NOT_SUPPORTED",
            code=801,
            action="finding a device",
        )
    return device


def all_devices(device: str) -> list[str]:
    """The names of all GPUs for ``"cuda:all"``, with the errors of `require_cuda`, and else the name that is given."""
    if device != ALL:
        return [device]
    from arcbeam.gpu import _cuda

    # Jobs of several decoders are tested on the CPU; this list, on a machine with more than one GPU, is not yet.
    require_cuda(0)  # which says why there is none
    return [f"cuda:{require_cuda(ordinal).ordinal}" for ordinal in range(_cuda.device_count())]


def why_no_cuda(ordinal: int = 0) -> str | None:
    """Why a GPU cannot decode, or None if it can."""
    try:
        require_cuda(ordinal)
    except (MissingDependencyError, CudaError) as error:
        return str(error)
    return None


def resolve_device(device: str) -> int | None:
    """The number of the GPU that a name means, None for the CPU; ValueError for another name."""
    # A named GPU that cannot decode raises MissingDependencyError or CudaError. "auto" then is the CPU, with one
    # warning for each process and reason; in a process that was forked from one that used CUDA it is a CudaError.
    check_name(device)
    if device == "cpu":
        return None
    if device == "auto":
        return _auto()
    return require_cuda(int(device.partition(":")[2] or 0)).ordinal


def _auto() -> int | None:
    global _auto_is_cpu
    try:
        return require_cuda(0).ordinal
    except (MissingDependencyError, CudaError) as error:
        if getattr(error, "code", None) == _NOT_INITIALIZED:
            # A fork. A parent that decodes on the CPU used CUDA only to check, and its children need not check again.
            if _auto_is_cpu:
                return None
            raise
        _auto_is_cpu = True
        if _is_about_a_gpu(error) and str(error) not in _told:
            _told.add(str(error))
            warn(
                f'device: there is a GPU that cannot be used, so "auto" decodes on the CPU: {error}. '
                'Give device="cpu" to choose the CPU without this warning'
            )
        return None


def _is_about_a_gpu(error: MissingDependencyError | CudaError) -> bool:
    """Whether there is a GPU at all that could be used without this error."""
    if isinstance(error, CudaError):
        if error.code == _NO_DEVICE:
            return False
        if error.action != "starting the driver":  # the driver has started, and shows a GPU
            return True
    return _nodes_of_gpus()


def _nodes_of_gpus() -> bool:
    """Whether the system has a node for a GPU of NVIDIA's that is not hidden: known without the driver."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip() in ("", "-1", "NoDevFiles"):
        return False
    in_windows = os.path.exists("/dev/dxg") and os.path.exists("/usr/lib/wsl/lib/libcuda.so.1")
    return bool(glob("/dev/nvidia[0-9]*")) or in_windows


def check_name(device: object) -> None:
    """Raises ValueError unless this is the name of a device, whether or not the device exists."""
    if device == ALL:
        raise ValueError(
            'device: expected one GPU, got "cuda:all", which the commands decode, greedy, align and transduce take; '
            'from Python make a decoder for each, with device="cuda:0" and so on'
        )
    if not isinstance(device, str) or not re.fullmatch(r"cpu|auto|cuda(:\d{1,4})?", device):
        raise ValueError(f'device: expected "cpu", "cuda", "cuda:N" or "auto", got {device!r}')


def _has_kernels(capability: tuple[int, int], architectures: tuple[str, ...], ptx: str | None) -> bool:
    """Machine code runs on its own generation from its minor number on, and PTX on everything newer."""
    for architecture in architectures:
        major, minor = (int(part) for part in re.findall(r"\d+", architecture))
        if architecture[-1].isdigit() and major == capability[0] and minor <= capability[1]:
            return True
        if not architecture[-1].isdigit() and (major, minor) == capability:  # such as 9.0a, for that device alone
            return True
    if ptx is None or not ptx[-1].isdigit():
        return False
    major, minor = (int(part) for part in ptx.split("."))
    return (major, minor) <= capability
