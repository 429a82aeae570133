"""What a failing driver becomes: a typed exception that says what was done and what the driver said."""

import gc
import os
import pickle
import subprocess
import sys
import textwrap

import pytest

from arcbeam.core.errors import ArcbeamError, CudaError, CudaOutOfMemoryError
from arcbeam.gpu import _cuda
from arcbeam.gpu._launch import Event, Module, Stream, launch_kernel, load
from arcbeam.gpu._memory import DeviceBuffer, MemoryPool, PinnedBuffer


def use_everything():
    """One engine's life: makes, grows, copies, launches, waits, drops."""
    context = _cuda.context_of(0)
    stream, other = Stream(context), Stream(context)
    pool = MemoryPool(context)
    buffer = DeviceBuffer(pool, stream, "the token log")
    buffer.write(b"abc" * 100)
    buffer.resize(200_000, keep=True)
    buffer.fill(1)
    pinned = PinnedBuffer(context)
    pinned.resize(100)
    pinned.send(buffer, 100)
    pinned.receive(buffer, 100)
    function = load(context, "decode").function("decode")
    function.fits(128)
    function.clusters(16, 128, 60_000)
    function.resources()
    launch_kernel(function, stream, bytes(12), blocks=8, threads=128, cluster=16, shared_bytes=60_000)
    start, end = Event(context, True), Event(context, True)
    start.mark(stream)
    end.mark(stream)
    end.reached(1000)
    end.seconds_since(start)
    other.wait_for_stream(stream.address)
    stream.finish()
    pool.reserved_bytes()
    buffer.read(10)
    _cuda.driver_version()


def test_every_call_that_fails_is_an_exception_and_leaves_nothing(fake):
    use_everything()
    calls = fake.library.fake_calls()
    assert calls > 100
    raised = set()
    for nth in range(1, calls + 1):
        fake.start()
        fake.fail("", 400, nth)
        freeing = True
        try:
            use_everything()
        except CudaError as error:
            assert (error.name, error.code) == ("CUDA_ERROR_INVALID_HANDLE", 400), error
            assert "CUDA_ERROR_INVALID_HANDLE" in str(error)
            assert "the fake driver's text of 400" in str(error)
            raised.add(error.action)
            freeing = False
        stays = 3 if freeing else 0  # what cannot be freed: at most the module with its two kernels
        if fake.living() > stays:
            gc.collect()
        assert fake.living() <= stays, nth
        assert fake.library.fake_current() == 0
    assert {
        "making the device's context", "making the context current", "making a stream", "making a memory pool",
        "allocating device memory", "copying to the device", "copying from the device", "moving device memory",
        "filling device memory", "allocating pinned memory", "loading the kernels", "finding a kernel",
        "making an event", "recording an event", "recording an event on the producer's stream", "ordering streams",
        "waiting for the device", "waiting for the stream", "reading the time between events",
        "counting the blocks that fit", "counting the clusters that fit", "reserving shared memory",
        "allowing large clusters", "reading what a kernel needs", "reading a memory pool's size",
        "counting the devices", "reading the driver's version", "finding a device",
    } <= raised  # fmt: skip
    assert any(action.startswith("launching decode as 8 blocks of 128 threads in clusters of 16") for action in raised)
    fake.start()


def test_errors_can_be_caught_by_their_kinds():
    error = CudaOutOfMemoryError("no room", name="CUDA_ERROR_OUT_OF_MEMORY", code=2, action="allocating")
    assert isinstance(error, (CudaError, MemoryError))
    assert isinstance(error, ArcbeamError)
    assert isinstance(error, RuntimeError)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.name, again.code, again.action) == (str(error), error.name, 2, "allocating")


def test_out_of_memory_says_how_much_and_can_be_recovered_from(fake):
    fake.start(memory=1 << 20)
    context = _cuda.context_of(0)
    stream, pool = Stream(context), MemoryPool(context)
    buffer = DeviceBuffer(pool, stream, "the token log")
    with pytest.raises(CudaOutOfMemoryError) as caught:
        buffer.resize(10 << 20)
    said = str(caught.value)
    assert "CUDA_ERROR_OUT_OF_MEMORY (2): cannot allocate 10,485,760 bytes for the token log on cuda:0" in said
    assert "1,048,576 of 1,048,576 are free" in said
    assert caught.value.code == 2
    buffer.resize(500_000)
    buffer.write(b"still works")
    assert bytes(buffer.read(11)) == b"still works"


def test_memory_that_the_pool_keeps_is_found_again(fake):
    fake.start(memory=1 << 20)
    context = _cuda.context_of(0)
    stream, pool = Stream(context), MemoryPool(context)
    kept = DeviceBuffer(pool, stream, "first")
    kept.resize(900_000)
    del kept
    assert pool.reserved_bytes() > 900_000
    fake.fail("allocate", 2)
    second = DeviceBuffer(pool, stream, "second")
    second.resize(900_000)
    assert second.capacity >= 900_000


def test_a_lost_device_is_said_at_once_from_then_on(fake):
    context = _cuda.context_of(0)
    stream = Stream(context)
    fake.fail("stream_synchronize", 700)
    with pytest.raises(CudaError, match=r"CUDA_ERROR_ILLEGAL_ADDRESS \(700\) while waiting for the stream on cuda:0"):
        stream.finish()
    assert context.lost == 700
    calls = fake.library.fake_calls()
    for again in (stream.finish, lambda: Stream(context), lambda: _cuda.context_of(0)):
        with pytest.raises(
            CudaError, match=r"because an earlier call failed with CUDA_ERROR_ILLEGAL_ADDRESS"
        ) as caught:
            again()
        assert "start a new process" in str(caught.value)
    assert fake.library.fake_calls() <= calls + 1
    fake.library.fake_heal()  # so that the books can be closed


def test_one_lost_device_leaves_the_other(fake):
    fake.start(devices=2)
    first, second = Stream(_cuda.context_of(0)), Stream(_cuda.context_of(1))
    fake.fail("stream_synchronize", 719)
    with pytest.raises(CudaError, match="CUDA_ERROR_LAUNCH_FAILED"):
        first.finish()
    second.finish()
    fake.library.fake_heal()


def test_a_launch_that_fails_names_the_kernel(fake):
    context = _cuda.context_of(0)
    function = load(context, "decode").function("decode")
    stream = Stream(context)
    fake.fail("launch", 701)
    with pytest.raises(CudaError, match="launching decode as 3 blocks of 64 threads in clusters of 1 with 16 bytes"):
        launch_kernel(function, stream, bytes(12), blocks=3, threads=64, shared_bytes=16)
    launch_kernel(function, stream, bytes(12), blocks=3, threads=64, shared_bytes=16)


def test_no_kernel_for_this_device(fake):
    fake.library.fake_device(0, 7, 5, 1)
    with pytest.raises(CudaError) as caught:
        load(_cuda.context_of(0), "decode")
    said = str(caught.value)
    assert "no kernel of 'decode' runs on cuda:0 (Fake 0, compute capability 7.5)" in said
    assert "CUDA_ERROR_NO_BINARY_FOR_GPU (209). Built for 8.0, 9.0, and as PTX of 9.0 for newer ones" in said
    assert "The driver says: nothing fits" in said


def test_ptx_that_the_driver_cannot_compile(fake):
    fake.fail("module_load", 222)
    with pytest.raises(CudaError, match="the PTX needs a newer driver"):
        Module(_cuda.context_of(0), "decode", b"arch 9.0\n\0")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (34, "no CUDA driver: libcuda.so.1 comes with NVIDIA's driver"),
        (100, "no CUDA device: the driver sees none; CUDA_VISIBLE_DEVICES may hide them"),
        (3, "never does in a process forked from one that used it"),
        (803, "differ in version: reboot after an update"),
        (999, "the CUDA driver does not start"),
    ],
)
def test_a_driver_that_does_not_start(fake, code, said):
    _cuda.use_driver(0)
    fake.library.fake_start(code, 13000)
    with pytest.raises(CudaError, match=said):
        _cuda.use_driver(fake.library.fake_table())
    fake.library.fake_start(0, 13000)


IN_A_CHILD = """
    import ctypes, os, sys
    sys.path[:0] = {path!r}
    from arcbeam.gpu import _cuda
    from arcbeam.gpu._launch import Stream
    from arcbeam.gpu._memory import DeviceBuffer, MemoryPool
    from arcbeam.core.errors import CudaError

    library = ctypes.CDLL({library!r})
    library.fake_table.restype = ctypes.c_void_p
    library.fake_living.restype = ctypes.c_int64
    library.fake_calls.restype = ctypes.c_int64
    library.fake_reset(1, 1 << 20)
    _cuda.use_driver(library.fake_table())
"""


def run(fake, body):
    code = textwrap.dedent(IN_A_CHILD).format(path=sys.path, library=fake.library._name) + textwrap.dedent(body)
    got = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert got.returncode == 0, got.stderr
    assert got.stderr == ""
    return got.stdout


def test_handles_do_not_work_in_a_forked_child(fake):
    said = run(
        fake,
        """
        context = _cuda.context_of(0)
        stream = Stream(context)
        buffer = DeviceBuffer(MemoryPool(context), stream, "tokens")
        buffer.resize(10)
        child = os.fork()
        if child == 0:
            calls = library.fake_calls()
            for use in (stream.finish, lambda: _cuda.context_of(0), _cuda.device_count, lambda: buffer.resize(10**6)):
                try:
                    use()
                except CudaError as error:
                    print(error, flush=True)
            del use, stream, buffer, context
            assert library.fake_calls() == calls, "the child called the driver"
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        stream.finish()
        print("parent works", flush=True)
        """,
    )
    lines = said.splitlines()
    assert len(lines) == 5
    assert lines[-1] == "parent works"
    for line in lines[:4]:
        assert "was forked from it: the driver does not work in a forked child" in line
        assert "'spawn' or 'forkserver'" in line


def test_a_fork_before_the_first_use_is_harmless(fake):
    run(
        fake,
        """
        _cuda.use_driver(0)
        """,
    )
    code = textwrap.dedent(IN_A_CHILD).format(path=sys.path, library=fake.library._name)
    before, start = code.split("library.fake_reset", 1)
    child = before + textwrap.dedent(
        """
        child = os.fork()
        library.fake_reset"""
    ).lstrip("\n") + start + textwrap.dedent(
        """
        Stream(_cuda.context_of(0)).finish()
        if child:
            assert os.waitpid(child, 0)[1] == 0
        """
    )  # fmt: skip
    got = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, timeout=120)
    assert got.returncode == 0, got.stderr


def test_owners_may_live_until_the_interpreter_ends(fake):
    run(
        fake,
        """
        context = _cuda.context_of(0)
        stream = Stream(context)
        buffer = DeviceBuffer(MemoryPool(context), stream, "tokens")
        buffer.resize(10)
        cycle = [stream, buffer, context]
        cycle.append(cycle)
        sys.kept = cycle
        """,
    )


def test_what_a_build_without_cuda_says():
    code = """
    import sys
    sys.path[:0] = {path!r}
    import arcbeam.gpu.kernel_images as images
    from arcbeam.gpu import _cuda
    images.build_record = lambda: images.BuildRecord(
        no_driver_calls="the package cuda-bindings was missing", no_kernels="nvcc was missing")
    for use in (lambda: _cuda.context_of(0), lambda: images.image("decode")):
        try:
            use()
        except images.MissingDependencyError as error:
            print(error)
    """
    code = textwrap.dedent(code).format(path=sys.path)
    got = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=os.sep)
    first, second = got.stdout.splitlines()
    assert "cannot call the CUDA driver, because the package cuda-bindings was missing when it was built" in first
    assert "has no CUDA kernels, because nvcc was missing when it was built" in second
