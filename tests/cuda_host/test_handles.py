"""Contexts, memory, kernels and streams on the fake driver: what they do, and that nothing is left of them."""

import gc
import random
from functools import partial

import numpy as np
import pytest

from arcbeam.core.errors import CapacityError, CudaError
from arcbeam.gpu import _cuda
from arcbeam.gpu._launch import Event, Module, Stream, launch_kernel, load
from arcbeam.gpu._memory import DeviceBuffer, MemoryPool, PinnedBuffer
from tests.processes import in_threads


def engine(ordinal=0):
    """The handles that an engine has, in the order in which they are made."""
    context = _cuda.context_of(ordinal)
    stream = Stream(context)
    pool = MemoryPool(context)
    buffer = DeviceBuffer(pool, stream, "tokens")
    buffer.resize(1000)
    pinned = PinnedBuffer(context)
    pinned.resize(5000)
    module = load(context, "decode")
    return [context, stream, pool, buffer, pinned, module, module.function("decode"), Event(context)]


def test_properties(fake):
    fake.start(devices=2)
    fake.library.fake_device(1, 12, 0, 1)
    assert _cuda.device_count() == 2
    assert _cuda.driver_version() == (13, 0)
    properties = _cuda.device_properties(1)
    assert properties["name"] == "Fake 1"
    assert properties["compute_capability"] == (12, 0)
    assert properties["multiprocessors"] == 132
    assert properties["shared_bytes_per_block"] == 232448
    assert properties["memory_bytes"] == 1 << 30
    assert properties["clusters"] is True
    assert fake.living() == 0


def test_a_context_is_shared_and_released_with_its_last_owner(fake):
    one, two = _cuda.context_of(0), _cuda.context_of(0)
    assert one is two
    assert fake.living("context") == 1
    stream = Stream(one)
    del one, two
    assert fake.living("context") == 1
    del stream
    assert fake.living("context") == 0


@pytest.mark.parametrize("seed", range(8))
def test_owners_go_in_any_order(fake, seed):
    handles = engine()
    random.Random(seed).shuffle(handles)
    while handles:
        handles.pop()
    assert fake.living() == 0


def test_owners_in_a_cycle_are_freed(fake):
    handles = engine()
    handles.append(handles)
    del handles
    assert fake.living() > 0
    gc.collect()
    assert fake.living() == 0


def test_two_hundred_engines_leave_nothing(fake):
    kept = engine()
    before = fake.living()
    for _ in range(200):
        engine()
    assert fake.living() == before
    many = [engine() for _ in range(200)]
    assert fake.living("stream") == 201
    assert fake.living("module") == 1, "kernels are loaded once a context"
    del many
    assert fake.living() == before
    del kept


def test_two_devices_side_by_side(fake):
    fake.start(devices=2)
    first, second = engine(0), engine(1)
    assert fake.living("context") == 2
    first[3].write(b"first")
    second[3].write(b"other")
    assert bytes(first[3].read(5)) == b"first"
    assert bytes(second[3].read(5)) == b"other"


def test_bytes_go_there_and_back(fake):
    _, stream, pool, buffer, pinned, *_ = engine()
    data = np.random.default_rng(0).integers(0, 256, 200_000, dtype=np.uint8)
    buffer.write(data)
    assert bytes(buffer.read(len(data))) == data.tobytes()
    buffer.resize(1_000_000, keep=True)
    assert bytes(buffer.read(len(data))) == data.tobytes()
    pinned.resize(3000)
    view = np.frombuffer(pinned, dtype=np.uint8)
    view[:3000] = 7
    pinned.send(buffer, 3000, offset=10)
    stream.finish()
    assert bytes(buffer.read(3020))[10:3010] == b"\7" * 3000
    buffer.fill(9)
    pinned.receive(buffer, 100)
    stream.finish()
    assert view[:100].tolist() == [9] * 100
    other = DeviceBuffer(pool, stream, "copy")
    other.copy_from(buffer.address, 100, offset=5)
    assert bytes(other.read(105))[5:] == b"\t" * 100
    with pytest.raises(BufferError, match="cannot grow while arrays are views of it"):
        pinned.resize(1 << 20)
    del view
    pinned.resize(1 << 20)


def test_buffers_grow_by_half_and_stay(fake):
    context = _cuda.context_of(0)
    stream, pool = Stream(context), MemoryPool(context)
    buffer = DeviceBuffer(pool, stream, "tokens")
    buffer.resize(1)
    assert buffer.capacity == 65536
    buffer.resize(65537)
    assert buffer.capacity == 131072
    buffer.resize(10)
    assert buffer.capacity == 131072
    assert pool.used_bytes == 131072
    del buffer
    assert pool.used_bytes == 0
    assert pool.peak_bytes >= 131072
    assert pool.reserved_bytes() > 0


def test_the_memory_limit_is_named(fake):
    context = _cuda.context_of(0)
    stream, pool = Stream(context), MemoryPool(context, 100_000)
    buffer = DeviceBuffer(pool, stream, "the token log")
    buffer.resize(65536)
    with pytest.raises(CapacityError, match="memory_limit: cannot allocate 90,000 bytes for the token log") as caught:
        buffer.resize(90_000, keep=True)
    assert "65,536 of 100,000 are used" in str(caught.value)
    assert buffer.capacity == 65536
    buffer.resize(90_000)
    assert 90_000 <= buffer.capacity <= 100_000


def test_a_launch_passes_its_shape_and_its_struct(fake):
    context, stream, *_, function, _ = engine()
    parameter = bytes(range(12))
    launch_kernel(function, stream, parameter, blocks=132, threads=256, cluster=2, shared_bytes=100_000)
    assert fake.launches() == [("decode", 132, 256, 2, 100_000, parameter)]
    assert function.fits(256) == 8
    assert function.clusters(16, 256) == 8
    assert function.resources()["registers"] == 104
    assert context.memory()[1] == 1 << 30


@pytest.mark.parametrize(
    ("device", "code", "architecture"),
    [
        ((9, 0), "arch 9.0", 90),
        ((9, 0), "arch 9.0\nptx 8.0", 90),
        ((9, 0), "arch 8.0\nptx 8.0", 80),
        ((12, 1), "arch 9.0\narch 12.0\nptx 12.0", 120),
        ((12, 1), "arch 9.0\nptx 9.0", 90),
        ((8, 6), "arch 8.0\narch 9.0\nptx 9.0", 80),
    ],
)
def test_what_code_was_compiled_for(fake, device, code, architecture):
    fake.library.fake_device(0, *device, 1)
    module = Module(_cuda.context_of(0), "decode", f"{code}\nkernel decode 12\n\0".encode())
    function = module.function("decode")
    assert function.architecture == architecture
    assert (function.clusters(4, 256) > 0) == (architecture >= 90)


def test_an_event_is_waited_for(fake):
    context, stream, *_, event = engine()
    event.mark(stream)
    fake.library.fake_not_ready(1000)
    assert event.reached(0) is False
    assert event.reached(10_000) is True
    start, end = Event(context, True), Event(context, timed=True)
    start.mark(stream)
    end.mark(stream)
    assert end.seconds_since(start) == pytest.approx(0.0015)


def test_a_producers_stream_comes_first(fake):
    context, stream, *_ = engine()
    stream.wait_for_stream(1)
    record, wait = fake.journal()
    assert record[:2] == ["record", "1"]
    assert wait[:2] == ["wait", str(stream.address)]
    assert record[2] == wait[2]
    assert context.ordinal == 0


def test_a_handle_keeps_what_it_stands_on(fake):
    function = Module(_cuda.context_of(0), "decode", b"arch 9.0\nkernel decode 1\n\0").function("decode")
    stream = Stream(_cuda.context_of(0))
    launch_kernel(function, stream, b"\0", blocks=1, threads=1)
    with pytest.raises(CudaError, match="no 'absent'"):
        function.module.function("absent")


def test_several_threads(fake):
    kept = _cuda.context_of(0)

    def work(seed):
        for i in range(20):
            _, stream, _, buffer, *_, function, event = engine()
            data = bytes([seed, i]) * 500
            buffer.write(data)
            launch_kernel(function, stream, bytes(12), blocks=1 + seed, threads=32)
            event.mark(stream)
            assert event.reached(10_000)
            assert bytes(buffer.read(1000)) == data

    in_threads(*(partial(work, seed) for seed in range(8)))
    assert len(fake.launches()) == 160
    del kept


def test_threads_that_make_and_drop_the_context(fake):
    def work():
        for _ in range(50):
            Stream(_cuda.context_of(0))

    in_threads(*[work] * 8)
    assert fake.living() == 0
