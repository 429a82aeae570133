"""Arrays of the host that are pinned where they lie: whole pages, once, all or none, until their owner goes."""

import mmap

import numpy as np
import pytest

from arcbeam import CudaError
from arcbeam.gpu import _cuda, _registered_memory
from arcbeam.gpu import _launch as _cuda_launch
from arcbeam.gpu import _memory as _cuda_memory
from arcbeam.gpu._registered_memory import RegisteredMemory, parts_of, span_of

PAGE = mmap.PAGESIZE


def pages(count):
    """Bytes that begin at a page."""
    memory = np.frombuffer(mmap.mmap(-1, count * PAGE), np.uint8)
    assert memory.ctypes.data % PAGE == 0
    return memory


def registered(arrays, mapped=False):
    return RegisteredMemory(_cuda.context_of(0), arrays, arrays, mapped)


def test_spans_are_whole_pages_within():
    assert span_of(0, 0) == (0, 0)
    assert span_of(2 * PAGE, 3 * PAGE) == (2 * PAGE, 5 * PAGE)
    assert span_of(2 * PAGE + 1, 3 * PAGE) == (3 * PAGE, 5 * PAGE)
    assert span_of(2 * PAGE - 1, 3 * PAGE) == (2 * PAGE, 4 * PAGE)
    for start, size in ((5, 1), (PAGE - 1, 2), (PAGE + 7, PAGE)):
        first, end = span_of(start, size)
        assert first == end, "no page is whole"


def test_parts_meet_at_the_borders_of_pages():
    assert parts_of(0, 0) == []
    assert parts_of(5, 1) == [(0, 1)]
    assert parts_of(0, 2 * PAGE) == [(0, 2 * PAGE)]
    assert parts_of(PAGE - 2, PAGE + 5) == [(0, 2), (2, PAGE + 2), (PAGE + 2, PAGE + 5)]
    assert parts_of(PAGE - 1, 2) == [(0, 1), (1, 2)]


def test_copies_reach_over_no_border(fake):
    """The driver refuses those that do; what lies beside the arrays is not registered."""
    memory = pages(4)
    array = memory[PAGE - 3 : 3 * PAGE + 5]
    held = registered([array])
    assert held.bytes == 2 * PAGE
    context = _cuda.context_of(0)
    to = _cuda_memory.DeviceBuffer(_cuda_memory.MemoryPool(context), _cuda_launch.Stream(context), "a test")
    with pytest.raises(CudaError, match=r"\(1\) while copying to the device"):
        to.write(array)
    for begin, end in parts_of(array.ctypes.data, len(array)):
        to.write(array[begin:end], begin)
    to.write(memory[: PAGE - 3])
    del held
    to.write(array)


@pytest.mark.parametrize("read_only", [True, False])
def test_registered_and_released(fake, read_only):
    if not read_only:
        fake.library.fake_writable_alone(0)
    memory = pages(8)
    held = registered([memory[: 2 * PAGE + 1], memory[4 * PAGE : 5 * PAGE], memory[7 * PAGE + 1 :]])
    assert (held.bytes, held.refused, fake.living("registered")) == (3 * PAGE, None, 2)
    assert fake.library.fake_registered_bytes() == 3 * PAGE
    assert not held.warn_due()
    del held
    assert fake.living("registered") == 0


def test_what_is_registered_already_counts_and_stays(fake):
    memory = pages(8)
    theirs = registered([memory[:PAGE]])
    held = registered([memory[:PAGE], memory[4 * PAGE :]])
    assert (held.bytes, held.refused, fake.living("registered")) == (5 * PAGE, None, 2)
    del held
    assert fake.living("registered") == 1
    del theirs
    assert fake.living("registered") == 0


@pytest.mark.parametrize("code", [1, 2, 304, 500, 800, 801])
@pytest.mark.parametrize("nth", [1, 2])
def test_all_or_none(fake, code, nth):
    memory = pages(8)
    fake.fail("host_register", code, nth)
    held = registered([memory[:PAGE], memory[4 * PAGE :]])
    assert (held.bytes, fake.living("registered")) == (0, 0)
    assert f", {code}" in held.refused
    assert [held.warn_due(), held.warn_due()] == [True, False], "once"


def test_a_lost_device_is_an_error(fake):
    memory = pages(8)
    fake.fail("host_register", 700)
    with pytest.raises(CudaError, match=r"CUDA_ERROR_ILLEGAL_ADDRESS \(700\) while pinning host memory"):
        registered([memory[:PAGE], memory[4 * PAGE :]])
    assert fake.living("registered") == 0
    fake.library.fake_heal()


def test_a_file_that_the_host_has_no_room_for(fake, monkeypatch):
    """Its pages take memory only when they are pinned; those of other arrays have it."""
    memory = pages(2)
    monkeypatch.setattr(_registered_memory, "host_bytes_left", lambda: 2 * PAGE - 1)
    held = registered([memory], mapped=True)
    assert (held.bytes, held.refused) == (0, f"the host has {2 * PAGE - 1:,} bytes left")
    assert registered([memory], mapped=False).bytes == 2 * PAGE
    for left in (None, 2 * PAGE):
        monkeypatch.setattr(_registered_memory, "host_bytes_left", lambda left=left: left)
        assert registered([memory], mapped=True).bytes == 2 * PAGE
