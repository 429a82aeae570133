"""Memory of the host for copies and for kernels that read it: pinned, and what stands in where that is refused."""

import ctypes
import mmap
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from arcbeam import CudaError, CudaOutOfMemoryError
from arcbeam.gpu import _cuda, _host_buffers
from arcbeam.gpu._host_buffers import HostBuffer, SharedBuffer
from arcbeam.gpu._launch import Stream
from arcbeam.gpu._memory import DeviceBuffer, MemoryPool

ADVICE = [["advise", "3", "-1"], ["advise", "5", "0"]]
NOTHING = (0, 0, 0)


def told():
    return pytest.warns(
        UserWarning, match=r"the host does not pin [\d,]+ bytes .*CUDA_ERROR_OUT_OF_MEMORY, 2.* for cuda:0"
    )


def written_and_read(buffer, size):
    """Whether all of it can be written to, for the address sanitizer's sake, and read."""
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    ctypes.memmove(buffer.host_address, data.ctypes.data, size)
    return ctypes.string_at(buffer.host_address, size) == data.tobytes()


def state(buffer):
    return buffer.capacity, buffer.host_address


# For copies


def test_copies_go_through_pinned_memory(fake):
    buffer = HostBuffer(_cuda.context_of(0))
    assert (*state(buffer), buffer.pageable_bytes) == NOTHING
    buffer.resize(100)
    assert (buffer.capacity, buffer.pageable_bytes, fake.living("pinned")) == (4096, 0, 1)
    before = state(buffer)
    buffer.resize(4096)
    assert state(buffer) == before
    assert written_and_read(buffer, 4096)


@pytest.mark.parametrize("code", [2, 304, 800, 801])
def test_copies_go_through_pageable_memory_where_it_is_refused(fake, code):
    context = _cuda.context_of(0)
    buffer = HostBuffer(context)
    fake.refuse("host_allocate", code=code)
    with pytest.warns(
        UserWarning, match=f"does not pin 12,288 bytes of memory .*, {code}.* the process waits for copies"
    ):
        buffer.resize(10_000)
    assert (buffer.capacity, buffer.pageable_bytes, fake.living("pinned")) == (12288, 12288, 0)
    assert buffer.host_address % 4096 == 0 and written_and_read(buffer, 12288)
    other = HostBuffer(context)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it has been said
        other.resize(100)
        buffer.resize(12289)
        assert buffer.capacity == buffer.pageable_bytes == 20480, "half as much again, as of pinned memory"
        assert written_and_read(buffer, 20480)
        fake.allow()
        buffer.resize(20481)
    assert (buffer.capacity, buffer.pageable_bytes, fake.living("pinned")) == (32768, 0, 1), "and tried again"
    assert written_and_read(buffer, 32768)


def test_a_growth_that_is_refused(fake):
    """Pinned at first, pageable then; what it was goes, as with any growth."""
    buffer = HostBuffer(_cuda.context_of(0))
    buffer.resize(100)
    fake.refuse("host_allocate")
    with told():
        buffer.resize(5000)
    assert (buffer.capacity, buffer.pageable_bytes, fake.living("pinned")) == (8192, 8192, 0)
    assert written_and_read(buffer, 8192)


def test_other_errors_are_errors(fake):
    """And no memory is there afterwards, until it is requested again."""
    for make in (HostBuffer, SharedBuffer):
        buffer = make(_cuda.context_of(0))
        buffer.resize(100)
        fake.fail("host_allocate", 400)
        with pytest.raises(CudaError, match=r"400.* while allocating pinned memory"):
            buffer.resize(5000)
        assert state(buffer) == (0, 0) and fake.living("pinned") == 0
        buffer.resize(5000)
        assert buffer.capacity == 8192


def test_neither_pinned_nor_pageable(fake):
    buffer = HostBuffer(_cuda.context_of(0))
    fake.refuse("host_allocate")
    with pytest.raises(CudaOutOfMemoryError, match="bytes of host memory can be pinned"):
        buffer.resize(1 << 62)
    assert state(buffer) == (0, 0)
    with told():
        buffer.resize(100)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the size of the address space in /proc")
def test_pageable_memory_is_given_back(fake):
    """When it grows, and with its owner. AddressSanitizer holds on to 256 MiB of what is freed."""

    def taken():
        return int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE

    context = _cuda.context_of(0)
    fake.refuse("host_allocate")
    with told():
        HostBuffer(context).resize(1)
    before = taken()
    for _ in range(40):
        buffer = HostBuffer(context)
        for megabytes in (16, 32):
            buffer.resize(megabytes << 20)
    assert taken() - before < 400 << 20, "of 640 and 1,280 MiB"
    del buffer


def test_a_warning_that_is_an_error_leaves_the_memory(fake):
    for make in (HostBuffer, SharedBuffer):
        fake.start()
        buffer = make(_cuda.context_of(0))
        fake.refuse("host_allocate")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(UserWarning, match="the host does not pin"):
                buffer.resize(100)
        assert buffer.capacity >= 100 and written_and_read(buffer, 100)
        del buffer


def test_each_device_is_told_of(fake):
    fake.start(devices=2)
    fake.refuse("host_allocate")
    for ordinal in (0, 1):
        with pytest.warns(UserWarning, match=f"for cuda:{ordinal};"):
            HostBuffer(_cuda.context_of(ordinal)).resize(1)


# For kernels that read it


def test_shared_memory_is_pinned(fake):
    shared = SharedBuffer(_cuda.context_of(0))
    assert (*state(shared), shared.managed) == (0, 0, False)
    for size, capacity in ((100, 4096), (5000, 8192), (8192, 8192)):
        shared.resize(size)
        assert (shared.capacity, shared.managed) == (capacity, False)
        assert (fake.living("managed"), fake.living("pinned")) == (0, 1)
        assert written_and_read(shared, capacity)


def test_managed_memory_where_it_is_refused(fake):
    shared = SharedBuffer(_cuda.context_of(0))
    shared.resize(100)
    fake.refuse("host_allocate")
    with told():
        shared.resize(5000)
    assert shared.managed and shared.capacity >= 8192 and shared.host_address % (1 << 21) == 0
    assert (fake.living("managed"), fake.living("pinned")) == (1, 0)
    assert written_and_read(shared, shared.capacity)
    shared.resize(shared.capacity + 1)
    assert (fake.living("managed"), fake.living("pinned")) == (1, 0)
    fake.allow()
    shared.resize(shared.capacity + 1)
    assert not shared.managed and (fake.living("managed"), fake.living("pinned")) == (0, 1)


def test_managed_memory_that_stays_on_the_host(fake):
    far = SharedBuffer(_cuda.context_of(0), 4096)
    far.resize(4096)
    assert not far.managed
    far.resize(4097)
    assert far.managed and far.host_address % (1 << 21) == 0
    assert fake.journal() == ADVICE
    assert (fake.living("managed"), fake.living("pinned")) == (1, 0)
    assert written_and_read(far, far.capacity)
    del far
    assert fake.living("managed") == 0


@pytest.mark.parametrize(("call", "nth"), [("managed_allocate", 1), ("managed_advise", 1), ("managed_advise", 2)])
def test_pinned_where_managed_memory_is_refused(fake, call, nth):
    far = SharedBuffer(_cuda.context_of(0), 0)
    fake.fail(call, 801, nth)
    far.resize(100)
    assert far.capacity >= 100 and not far.managed and far.host_address
    assert (fake.living("managed"), fake.living("pinned")) == (0, 1)


def test_pinned_where_the_device_cannot(fake):
    fake.library.fake_unmanaged(0)
    far = SharedBuffer(_cuda.context_of(0), 0)
    far.resize(100)
    assert not far.managed and fake.living("managed") == 0
    fake.refuse("host_allocate")
    with pytest.raises(CudaOutOfMemoryError, match=r"no 6,144 bytes|no 8,192 bytes of host memory can be pinned"):
        far.resize(5000)
    assert state(far) == (0, 0) and fake.living("pinned") == 0
    fake.allow()
    far.resize(5000)
    assert far.capacity == 8192


def test_managed_memory_is_never_more_than_the_device_has_free(fake):
    """A program whose managed memory is more may hang the device."""
    fake.start(memory=(4 << 20) + 5)
    context = _cuda.context_of(0)
    far = SharedBuffer(context, 0)
    far.resize(4 << 20)
    assert far.managed
    del far
    taken = DeviceBuffer(MemoryPool(context), Stream(context), "what is not free")
    taken.resize(1 << 16)
    far = SharedBuffer(context, 0)
    far.resize(4 << 20)
    assert not far.managed
    del far
    fake.refuse("host_allocate")
    with pytest.raises(CudaOutOfMemoryError):
        SharedBuffer(context).resize(4 << 20)


def test_more_than_the_host_has_is_refused_by_pinning(fake, monkeypatch):
    monkeypatch.setattr(_host_buffers, "host_bytes_left", lambda: (2 << 20) - 1)
    far = SharedBuffer(_cuda.context_of(0), 0)
    fake.fail("host_allocate", 2)
    with pytest.raises(CudaOutOfMemoryError, match="4,096 bytes of host memory can be pinned"):
        far.resize(100)
    assert fake.living("managed") == 0
    monkeypatch.setattr(_host_buffers, "host_bytes_left", lambda: None)  # a system that does not tell
    far.resize(100)
    assert far.managed


@pytest.mark.parametrize("make", [HostBuffer, SharedBuffer, lambda context: SharedBuffer(context, 0)])
def test_none_for_nothing(fake, make):
    buffer = make(_cuda.context_of(0))
    buffer.resize(0)
    assert state(buffer) == (0, 0) and fake.living() == 1, "its context"
