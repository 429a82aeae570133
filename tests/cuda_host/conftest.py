"""The fake driver: compiled once, put in arcbeam's table for each test, its books checked after it."""

import ctypes
import functools
import gc
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from arcbeam import CudaError
from arcbeam.gpu import _cuda, devices, kernel_images
from arcbeam.gpu._launch import Stream
from arcbeam.gpu.kernel_images import BuildRecord
from tests.cuda_host.exporters import Reader
from tests.simt.build import INCLUDES, WARNINGS, files_of, made

HERE = Path(__file__).resolve().parent
IMAGE = b"arch 9.0\narch 8.0\nkernel decode 12\nkernel other 4\n\0"


class Region(ctypes.Structure):
    _fields_ = [("first", ctypes.c_void_p), ("bytes", ctypes.c_size_t), ("kind", ctypes.c_char_p)]


class Copy(ctypes.Structure):
    _fields_ = [("to", ctypes.c_void_p), ("source", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


class FakeDriver:
    """What a test may do with the driver in ``fake_driver.cpp``."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        library.fake_table.restype = ctypes.c_void_p
        library.fake_calls.restype = ctypes.c_int64
        library.fake_living.restype = ctypes.c_int64
        library.fake_registered_bytes.restype = ctypes.c_int64
        library.fake_launches.restype = ctypes.c_char_p
        library.fake_journal.restype = ctypes.c_char_p
        library.fake_capture.argtypes = [ctypes.c_uint64]
        library.fake_reset.argtypes = [ctypes.c_int, ctypes.c_size_t]
        library.fake_memory.restype = library.fake_beside.restype = ctypes.c_size_t
        library.fake_lend.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_uint64, ctypes.c_size_t]

    def start(self, devices: int = 1, memory: int = 1 << 30) -> None:
        self.library.fake_reset(devices, memory)
        forget_devices()
        _cuda.use_driver(self.library.fake_table())

    def stop(self) -> None:
        _cuda.use_driver(0)

    def fail(self, call: str, code: int, nth: int = 1) -> None:
        self.library.fake_fail(call.encode(), nth, code)

    def lend(self, kind: str, address: int, bytes: int, device: int = 0) -> None:
        """Memory of others: ``"memory"`` of a device, ``"managed"``, ``"pinned"``, or ``"moved"``, unreachable."""
        self.library.fake_lend(kind.encode(), device, address, bytes)

    def refuse(self, *calls: str, code: int = 2, nth: int = 1) -> None:
        """All of these calls fail from the nth on."""
        for call in calls:
            self.library.fake_refuse(call.encode(), nth, code)

    def allow(self) -> None:
        """Nothing fails any more."""
        self.library.fake_fail_no_more()

    def on_launch(self, kernel) -> None:
        """Calls ``int kernel(const char* name, const LaunchShape*, void* parameter)``, a ctypes function, in launches.

        Device addresses are host addresses here, so it may do what the kernel would. It must not call the driver.
        """
        self.library.fake_on_launch(kernel)

    def memory(self) -> list[tuple[int, int, bytes]]:
        """What kernels may touch: first byte, number of bytes, and the kind of memory."""
        found = (Region * max(1, self.library.fake_memory(None, 0)))()
        count = self.library.fake_memory(found, len(found))
        return [(one.first, one.bytes, one.kind) for one in found[:count]]

    def beside(self) -> list[tuple[int, int, int]]:
        """For a kernel that runs: to where, from where and how many bytes the host copies meanwhile."""
        copies = ctypes.POINTER(Copy)()
        count = self.library.fake_beside(ctypes.byref(copies))
        return [(one.to, one.source, one.bytes) for one in copies[:count]]

    def living(self, kind: str = "") -> int:
        return int(self.library.fake_living(kind.encode()))

    def launches(self) -> list[tuple[str, int, int, int, int, bytes]]:
        lines = [line.split(" ") for line in self.library.fake_launches().decode().splitlines()]
        return [(n, int(b), int(t), int(c), int(s), bytes.fromhex(p)) for n, b, t, c, s, p in lines]

    def failures(self, run):
        """Runs it with every call of the driver failing in turn; gives each CudaError, where one was raised."""
        run()  # reads once what the device can do
        before = self.library.fake_calls()
        kept = run()
        calls = self.library.fake_calls() - before  # not those that free what was made
        del kept
        for nth in range(1, calls + 1):
            self.fail("", 803, nth)
            try:
                run()
                said = None
            except CudaError as error:
                said = error.with_traceback(None)  # whose frames hold what was made
            if said:
                yield said

    def check_empty(self) -> None:
        """Nothing may be left of what a test made."""
        gc.collect()
        assert self.living() == 0, "handles were left"
        assert self.library.fake_current() == 0, "a context was left current"

    def journal(self) -> list[list[str]]:
        return [line.split() for line in self.library.fake_journal().decode().splitlines()]


def forget_devices() -> None:
    """As in a process that has not searched for a GPU yet."""
    devices._told.clear()
    devices._auto_is_cpu = False


@functools.cache
def fake_driver() -> FakeDriver:
    """The driver of this process, compiled unless it has been already."""
    compiler = os.environ.get("CXX", "g++")
    flags = ["-std=c++17", "-O1", "-g", "-shared", "-fPIC", *WARNINGS, *INCLUDES]
    source = HERE / "fake_driver.cpp"
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    return FakeDriver(ctypes.CDLL(str(made([compiler, *flags, str(source)], files_of(source), version, ".so"))))


@pytest.fixture(scope="session")
def fake_library():
    if shutil.which(os.environ.get("CXX", "g++")) is None:
        pytest.skip("the fake driver needs a C++ compiler: g++, or the one that CXX names")
    return fake_driver()


@pytest.fixture
def fake(fake_library, monkeypatch):
    """A driver with one device of 1 GiB; nothing may be left of what the test made."""
    fake_library.start()
    record = BuildRecord(nvcc="13.0.88", architectures=("8.0", "9.0"), ptx="9.0", kernels={"decode": ""})
    monkeypatch.setattr(kernel_images, "build_record", lambda: record)
    monkeypatch.setattr(kernel_images, "image", lambda name: IMAGE)
    yield fake_library
    fake_library.check_empty()
    fake_library.stop()


@pytest.fixture
def reader(fake):
    """A stream of the first of two devices, and memory of each kind that others have."""
    fake.start(devices=2)
    for start, kind, device in (
        (0x10000, "memory", 0), (0x20000, "memory", 0), (0x30000, "memory", 1), (0x40000, "managed", 1),
        (0x50000, "pinned", 0), (0x60000, "moved", 0),
    ):  # fmt: skip
        fake.lend(kind, start, 0x1000, device)
    made = Reader(Stream(_cuda.context_of(0)))
    yield made
    made.stream = None
