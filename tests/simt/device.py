"""Runs the kernels of the emulator's tests on a real GPU: the same calls, through the driver alone."""

import ctypes
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.simt import ptx
from tests.simt.build import files_of, made

MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
CLUSTER_DIMENSION = 4
COMPUTE_CAPABILITY = (75, 76)


class _Attribute(ctypes.Structure):  # CUlaunchAttribute
    _fields_ = [("id", ctypes.c_uint), ("pad", ctypes.c_uint), ("value", ctypes.c_uint * 16)]


class _Config(ctypes.Structure):  # CUlaunchConfig
    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("num_attributes", ctypes.c_uint),
    ]


@functools.cache
def driver() -> ctypes.CDLL | None:
    """The CUDA driver with a context of its first device current, or None where there is none."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    context = ctypes.c_void_p()
    if library.cuInit(0) or library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0):
        return None
    _check(library, library.cuCtxSetCurrent(context))
    return library


def architecture() -> str:
    values = []
    for attribute in COMPUTE_CAPABILITY:
        value = ctypes.c_int()
        _check(driver(), driver().cuDeviceGetAttribute(ctypes.byref(value), attribute, 0))
        values.append(value.value)
    return f"{values[0]}{values[1]}"


def _check(library: Any, status: int) -> None:
    if status:
        name, text = ctypes.c_char_p(), ctypes.c_char_p()
        library.cuGetErrorName(status, ctypes.byref(name))
        library.cuGetErrorString(status, ctypes.byref(text))
        raise RuntimeError(f"{name.value.decode()}: {text.value.decode()}" if name.value else f"driver error {status}")


def _pointers(struct: ctypes.Structure) -> Iterator[tuple[ctypes.Structure, str]]:
    for name, kind in struct._fields_:
        if kind is ctypes.c_void_p:
            yield struct, name
        elif issubclass(kind, ctypes.Structure):
            yield from _pointers(getattr(struct, name))


class DeviceKernels:
    """As `tests.simt.build.Kernels`, on the device; what names a schedule is ignored."""

    emulated = False

    def __init__(self, *sources: Path):
        flags = [*ptx.FLAGS, f"-arch=sm_{architecture()}", "--cubin"]
        self._modules = []
        for source in sources:
            cubin = made([str(ptx.nvcc()), *flags, str(source)], files_of(source), "", ".cubin")
            module = ctypes.c_void_p()
            self._do("cuModuleLoadData", ctypes.byref(module), cubin.read_bytes())
            self._modules.append(module)

    def _do(self, call: str, *arguments: Any) -> None:
        _check(driver(), getattr(driver(), call)(*arguments))

    def _function(self, kernel: str) -> ctypes.c_void_p:
        function = ctypes.c_void_p()
        for module in self._modules:
            if not driver().cuModuleGetFunction(ctypes.byref(function), module, kernel.encode()):
                return function
        raise ValueError(f"{kernel}: there is no such kernel")

    def launch(
        self,
        kernel: str,
        params: Any,
        *,
        grid: int = 1,
        block: int = 32,
        cluster: int = 1,
        shared_bytes: int = 0,
        **schedule: Any,
    ) -> int:
        """Copy the arrays to the device, run the kernel there, copy them back."""
        function = self._function(kernel)
        self._do("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes)
        there = type(params).from_buffer_copy(params)
        copies: list[tuple[np.ndarray, ctypes.c_uint64]] = []
        for array in params.arrays.values():
            address = ctypes.c_uint64()
            self._do("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(1, array.nbytes)))
            copies.append((array, address))
            self._do("cuMemcpyHtoD_v2", address, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes))
            for struct, name in _pointers(there):
                if getattr(struct, name) == array.ctypes.data:
                    setattr(struct, name, address.value)
        config = _Config((grid, 1, 1), (block, 1, 1), shared_bytes)
        attribute = _Attribute(CLUSTER_DIMENSION, 0, (cluster, 1, 1))
        config.attributes, config.num_attributes = ctypes.pointer(attribute), 1 if cluster > 1 else 0
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(there))
        self._do("cuLaunchKernelEx", ctypes.byref(config), function, arguments, None)
        self._do("cuCtxSynchronize")
        for array, address in copies:
            self._do("cuMemcpyDtoH_v2", ctypes.c_void_p(array.ctypes.data), address, ctypes.c_size_t(array.nbytes))
            self._do("cuMemFree_v2", address)
        return 0
