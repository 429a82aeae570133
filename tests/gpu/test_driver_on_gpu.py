"""The host layer on a real driver: what the fake driver of tests/cuda_host stands in for elsewhere."""

import ctypes
import gc
import struct
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from arcbeam.arrays.batches import InputSpec
from arcbeam.arrays.on_device import as_device_inputs
from arcbeam.core.errors import CudaError, CudaOutOfMemoryError
from arcbeam.gpu import _cuda, _host_buffers
from arcbeam.gpu._host_buffers import SharedBuffer
from arcbeam.gpu._launch import Event, Module, Stream, launch_kernel
from arcbeam.gpu._memory import DeviceBuffer, MemoryPool, PinnedBuffer


class Engine:
    """The handles that an engine has."""

    def __init__(self, gpu: int, image: bytes | None = None) -> None:
        self.context = _cuda.context_of(gpu)
        self.stream = Stream(self.context)
        self.pool = MemoryPool(self.context)
        self.buffer = DeviceBuffer(self.pool, self.stream, "test values")
        self.pinned = PinnedBuffer(self.context)
        self.module = Module(self.context, "probe", image) if image else None

    def launch(self, name, count, factor=0.0, **shape):
        parameter = struct.pack("<QIf", self.buffer.address, count, factor)
        launch_kernel(self.module.function(name), self.stream, parameter, **shape)

    def floats(self, n):
        return np.frombuffer(self.buffer.read(4 * n), dtype=np.float32)


def test_properties(gpu):
    assert _cuda.driver_version() >= (12, 0)
    for i in range(_cuda.device_count()):
        properties = _cuda.device_properties(i)
        assert properties["name"]
        assert properties["compute_capability"] >= (5, 0)
        assert properties["multiprocessors"] > 0
        assert properties["shared_bytes_per_block"] >= 48 * 1024
        assert properties["memory_bytes"] > 1 << 30
        assert properties["clusters"] == (properties["compute_capability"] >= (9, 0))
    free, total = _cuda.context_of(gpu).memory()
    assert 0 < free <= total


def test_properties_are_those_that_torch_sees(gpu):
    torch = pytest.importorskip("torch")
    properties, theirs = _cuda.device_properties(gpu), torch.cuda.get_device_properties(gpu)
    assert properties["name"] == theirs.name
    assert properties["compute_capability"] == (theirs.major, theirs.minor)
    assert properties["multiprocessors"] == theirs.multi_processor_count
    assert properties["l2_bytes"] == theirs.L2_cache_size


def test_bytes_go_there_and_back(gpu):
    engine = Engine(gpu)
    data = np.random.default_rng(0).integers(0, 256, 3_000_001, dtype=np.uint8)
    engine.buffer.write(data)
    engine.buffer.resize(10_000_000, keep=True)
    assert bytes(engine.buffer.read(len(data))) == data.tobytes()
    engine.pinned.resize(len(data))
    view = np.frombuffer(engine.pinned, dtype=np.uint8)
    view[: len(data)] = data[::-1]
    engine.pinned.send(engine.buffer, len(data))
    engine.stream.finish()
    view[:] = 0
    engine.pinned.receive(engine.buffer, len(data))
    engine.stream.finish()
    assert (view[: len(data)] == data[::-1]).all()
    engine.buffer.fill(7)
    assert set(engine.buffer.read(1000)) == {7}


@pytest.mark.parametrize(("left", "pinned_most"), [(None, 0), (0, 0), (None, 1 << 30)])
def test_host_memory_that_kernels_read(gpu, monkeypatch, left, pinned_most):
    """Managed or pinned, which it is where the host has too little left: the device finds what the host has written."""
    monkeypatch.setattr(_host_buffers, "host_bytes_left", lambda: left)
    engine, far = Engine(gpu), SharedBuffer(_cuda.context_of(gpu), pinned_most)
    data = np.random.default_rng(0).integers(0, 256, 3_000_001, dtype=np.uint8)
    far.resize(len(data))
    if left == 0 or pinned_most:
        assert not far.managed
    ctypes.memmove(far.host_address, data.ctypes.data, len(data))
    engine.buffer.copy_from(far.host_address, len(data))
    assert bytes(engine.buffer.read(len(data))) == data.tobytes()


def test_a_launch_passes_its_struct(gpu, probe_image):
    engine = Engine(gpu, probe_image)
    engine.buffer.write(np.arange(1000, dtype=np.float32).view(np.uint8))
    engine.launch("scale", 1000, 2.0, blocks=4, threads=256)
    assert engine.floats(1000).tolist() == [2.0 * i + 1.0 for i in range(1000)]
    assert engine.module.function("scale").fits(256) > 0
    assert 0 < engine.module.function("scale").resources()["registers"] < 256
    with pytest.raises(CudaError, match="have no 'absent'"):
        engine.module.function("absent")


@pytest.mark.parametrize("cluster", [1, 2, 8, 16])
def test_clusters(gpu, probe_image, cluster):
    if not _cuda.device_properties(gpu)["clusters"]:
        pytest.skip("the device has no clusters")
    engine = Engine(gpu, probe_image)
    engine.buffer.resize(4 * 32)
    # The driver answers for launches with clusters only.
    if cluster > 1 and engine.module.function("cluster_size").clusters(cluster, 128) == 0:
        pytest.skip(f"the device holds no cluster of {cluster}")
    engine.launch("cluster_size", 32, blocks=32, threads=128, cluster=cluster)
    assert engine.floats(32).tolist() == [cluster] * 32


def test_what_code_was_compiled_for(gpu, probe_image, probe_ptx):
    """The driver says the device's version of what it has compiled from PTX, though the code is as the PTX was."""
    properties = _cuda.device_properties(gpu)
    major, minor = properties["compute_capability"]
    native, old = (Engine(gpu, image).module.function("cluster_size") for image in (probe_image, probe_ptx))
    assert (native.architecture, old.architecture) == (10 * major + minor, 80)
    assert (native.clusters(2, 128) > 0) == properties["clusters"]
    assert old.clusters(2, 128) == 0


def test_all_of_the_shared_memory(gpu, probe_image):
    engine = Engine(gpu, probe_image)
    engine.buffer.write(bytes(4))
    shared = _cuda.device_properties(gpu)["shared_bytes_per_block"]
    engine.launch("shared_memory", shared // 4, blocks=2, threads=128, shared_bytes=shared // 4 * 4)
    assert engine.floats(1)[0] == 256
    with pytest.raises(CudaError, match="shared memory"):
        engine.launch("shared_memory", 1, blocks=1, threads=32, shared_bytes=shared + 1024)


def test_a_launch_that_cannot_be_does_not_harm(gpu, probe_image):
    engine = Engine(gpu, probe_image)
    engine.buffer.write(np.ones(4, np.float32).view(np.uint8))
    with pytest.raises(CudaError, match="launching scale as 1 blocks of 4096 threads") as caught:
        engine.launch("scale", 4, 1.0, blocks=1, threads=4096)
    assert caught.value.name == "CUDA_ERROR_INVALID_VALUE"
    engine.launch("scale", 4, 1.0, blocks=1, threads=32)
    assert engine.floats(4).tolist() == [2.0] * 4
    assert engine.context.lost == 0


def test_an_image_that_is_none(gpu):
    with pytest.raises(CudaError, match="no kernel of 'probe' runs on cuda:0"):
        Module(_cuda.context_of(gpu), "probe", b"this is no fatbin, but long enough to look at" + bytes(100))


def test_events(gpu, probe_image):
    engine = Engine(gpu, probe_image)
    engine.buffer.resize(4)
    start, end = Event(engine.context, timed=True), Event(engine.context, timed=True)
    start.mark(engine.stream)
    engine.launch("slow", 100_000, 3.0, blocks=1, threads=1)
    end.mark(engine.stream)
    assert end.reached(0) is False
    assert end.reached(60_000) is True
    assert end.seconds_since(start) >= 0.09
    assert engine.floats(1)[0] == 3.0


def test_streams_wait_for_each_other(gpu, probe_image):
    producer, consumer = Engine(gpu, probe_image), Stream(_cuda.context_of(gpu))
    reader = DeviceBuffer(producer.pool, consumer, "copy")
    reader.resize(4)
    producer.buffer.write(bytes(4))
    producer.launch("slow", 100_000, 5.0, blocks=1, threads=1)
    consumer.wait_for_stream(producer.stream.address)
    done = Event(producer.context)
    done.mark(consumer)
    assert done.reached(60_000)
    assert producer.floats(1)[0] == 5.0


def test_out_of_memory_can_be_recovered_from(gpu):
    engine = Engine(gpu)
    with pytest.raises(CudaOutOfMemoryError, match="allocate 1,099,511,627,776 bytes for test values on cuda:0"):
        engine.buffer.resize(1 << 40)
    engine.buffer.write(b"still works")
    assert bytes(engine.buffer.read(11)) == b"still works"
    assert engine.context.lost == 0


def producers():
    """Libraries that make an array [2, 50, 8] on the device, late: their streams are busy when it is taken."""

    def torch_array(half):
        torch = pytest.importorskip("torch")
        busy = torch.ones(4096, 4096, device="cuda")
        for _ in range(20):
            busy = busy @ busy * 1e-4
        made = torch.arange(800, device="cuda", dtype=torch.float32).reshape(2, 50, 8) + busy[0, 0] * 0
        return made.half() if half else made

    def cupy_array(half):
        cupy = pytest.importorskip("cupy")
        busy = cupy.ones((4096, 4096), dtype=cupy.float32)
        for _ in range(20):
            busy = busy @ busy * cupy.float32(1e-4)
        made = cupy.arange(800, dtype=cupy.float32).reshape(2, 50, 8) + busy[0, 0] * cupy.float32(0)
        return made.astype(cupy.float16) if half else made

    def jax_array(half):
        jax = pytest.importorskip("jax")
        if not any(device.platform == "gpu" for device in jax.devices()):
            pytest.skip("this jax has no GPU")
        return jax.numpy.arange(800, dtype="float16" if half else "float32").reshape(2, 50, 8)

    return {"torch": torch_array, "cupy": cupy_array, "jax": jax_array}


class InterfaceOnly:
    def __init__(self, array, **said):
        self.array = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__ | said


class Claimed:
    """Memory at an address, as somebody says."""

    def __init__(self, address, shape, strides=None):
        self.__cuda_array_interface__ = {
            "data": (address, True), "shape": shape, "strides": strides, "typestr": "<f4", "version": 3,
        }  # fmt: skip


def read_rows(engine, utterances, half):
    """Copies what the addresses point to, on the engine's stream, as a kernel would read it."""
    size = 2 if half else 4
    found = []
    for address, stride, frames, is_half in utterances.table.tolist():
        assert bool(is_half) is half
        copy = DeviceBuffer(engine.pool, engine.stream, "copy")
        copy.copy_from(address, frames * stride * size)
        found.append(np.frombuffer(copy.read(frames * stride * size), np.float16 if half else np.float32))
    return np.concatenate(found).astype(np.float32)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("library", ["torch", "cupy", "jax"])
def test_arrays_come_in_without_a_copy_and_in_order(gpu, library, half):
    engine = Engine(gpu)
    array = producers()[library](half)
    got = as_device_inputs(array, None, InputSpec(8, True), reader=engine.stream)
    expected = np.arange(800).astype(np.float16 if half else np.float32).astype(np.float32)
    assert (read_rows(engine, got, half) == expected).all()
    if library == "torch":
        assert got.table[0, 0] == array.data_ptr()
    assert _cuda.device_of_address(engine.context, int(got.table[0, 0])) == gpu


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_the_array_interface_and_a_given_stream(gpu, library):
    engine = Engine(gpu)
    array = InterfaceOnly(producers()[library](False))
    got = as_device_inputs(array, None, InputSpec(8, True), reader=engine.stream, cuda_stream=0)
    assert (read_rows(engine, got, False) == np.arange(800)).all()


def refused(engine, array, said):
    with pytest.raises(ValueError, match=said):
        as_device_inputs([array], None, InputSpec(8, True), reader=engine.stream)


def test_memory_that_kernels_cannot_read(gpu):
    """Of arcbeam's pools, of the host alone, and what both see."""
    engine, far = Engine(gpu), SharedBuffer(_cuda.context_of(gpu), 0)
    engine.buffer.resize(1 << 20)
    address = engine.buffer.address
    whole = Claimed(address, (1 << 15, 8))
    got = as_device_inputs([whole], None, InputSpec(8, True), reader=engine.stream)
    assert got.table.tolist() == [[address, 8, 1 << 15, 0]]
    refused(engine, Claimed(address, (1 << 20, 8), (1 << 22, 4)), "all of the array in one allocation")
    refused(engine, Claimed(address + (1 << 19), (1 << 20, 8), (-(1 << 22), 4)), "all of the array in one allocation")
    refused(engine, Claimed(address + 2, (3, 8)), "an address that is a multiple of 4")
    host = np.zeros((3, 8), np.float32)
    refused(engine, Claimed(host.ctypes.data, host.shape), "which the driver does not know: memory of the host")
    far.resize(1 << 20)  # managed, or pinned where that is refused
    taken = as_device_inputs([Claimed(far.host_address, (3, 8))], None, InputSpec(8, True), reader=engine.stream)
    assert taken.table[0, 0] == far.host_address
    engine.stream.finish()
    assert engine.context.lost == 0


def test_memory_of_torch_that_kernels_cannot_read(gpu):
    """Segments of its allocator may be mapped in pieces (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True)."""
    torch = pytest.importorskip("torch")
    engine = Engine(gpu)
    array = torch.zeros((1 << 17, 8), device=f"cuda:{gpu}")
    for taken in (array, InterfaceOnly(array), array.expand(3, 1 << 17, 8)[1], array[:1].expand(50, 8)):
        got = as_device_inputs([taken], None, InputSpec(8, True), reader=engine.stream)
        assert got.table[0, 0] == array.data_ptr()
    refused(engine, InterfaceOnly(array, strides=(1 << 30, 4)), "all of the array in one allocation")


def test_lists_of_torch(gpu):
    """Tensors of many segments of its allocator, in any order; each is where it says."""
    torch = pytest.importorskip("torch")
    engine = Engine(gpu)
    made = [torch.full((3 + 977 * i % 3000, 8), i, device=f"cuda:{gpu}", dtype=torch.float32) for i in range(500)]
    made = [made[7 * i % 500] for i in range(500)]
    got = as_device_inputs(made, None, InputSpec(8, True), reader=engine.stream)
    assert got.table.tolist() == [[t.data_ptr(), 8, t.shape[0], 0] for t in made]
    made = [t.half()[::2] for t in made]
    got = as_device_inputs(made, None, InputSpec(8, True), reader=engine.stream)
    assert got.table.tolist() == [[t.data_ptr(), 16, t.shape[0], 1] for t in made]
    addresses = got.table[:, 0].tolist()
    made.clear()
    again = [torch.empty((3000, 8), device=f"cuda:{gpu}", dtype=torch.float16) for _ in range(500)]
    assert not {t.data_ptr() for t in again} & set(addresses), "the batch keeps its arrays"
    for bad, said in (
        (torch.zeros(3, 8), f"expected an array on cuda:{gpu}, got one in CPU memory"),
        (torch.zeros((3, 8), device=f"cuda:{gpu}", dtype=torch.int32), "float32 or float16 log-probs, got int32"),
    ):
        with pytest.raises(TypeError, match=said):
            as_device_inputs([again[0], bad], None, InputSpec(8, True), reader=engine.stream)
    wide = torch.full((3, 8), 0.1, device=f"cuda:{gpu}", dtype=torch.float64)
    got = as_device_inputs([again[0].float(), wide], None, InputSpec(8, True), reader=engine.stream)
    assert got.table[1].tolist() == [got.table[1, 0], 8, 3, 0] and got.table[1, 0] != wide.data_ptr()


def test_streams_of_another_device(gpu):
    if _cuda.device_count() < 2:
        pytest.skip("one device only")
    torch = pytest.importorskip("torch")
    engine, other = Engine(gpu), Stream(_cuda.context_of(1))
    array = torch.zeros((3, 8), device=f"cuda:{gpu}")
    for stream in (other.address, torch.cuda.default_stream(1), torch.cuda.Stream(device=1)):
        with pytest.raises(ValueError, match=f"cuda_stream: expected a stream of cuda:{gpu}, where the decoder is"):
            as_device_inputs([array], None, InputSpec(8, True), reader=engine.stream, cuda_stream=stream)
    as_device_inputs([array], None, InputSpec(8, True), reader=engine.stream, cuda_stream=torch.cuda.Stream(device=gpu))
    assert engine.context.lost == 0


def test_a_side_stream_of_torch(gpu):
    torch = pytest.importorskip("torch")
    engine = Engine(gpu)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        array = producers()["torch"](False)
        by_protocol = as_device_inputs(array, None, InputSpec(8, True), reader=engine.stream)
    assert (read_rows(engine, by_protocol, False) == np.arange(800)).all()
    with torch.cuda.stream(side):
        array = producers()["torch"](False)
    given = as_device_inputs(array, None, InputSpec(8, True), reader=engine.stream, cuda_stream=side)
    assert (read_rows(engine, given, False) == np.arange(800)).all()


def test_beside_torch_in_one_context(gpu, probe_image):
    torch = pytest.importorskip("torch")
    engine = Engine(gpu, probe_image)
    theirs = torch.ones(1000, device=f"cuda:{gpu}")
    torch.cuda.synchronize()
    parameter = struct.pack("<QIf", theirs.data_ptr(), 1000, 4.0)
    launch_kernel(engine.module.function("scale"), engine.stream, parameter, blocks=4, threads=256)
    engine.stream.finish()
    assert (theirs == 5.0).all().item()
    del engine
    gc.collect()
    assert (theirs + 1 == 6.0).all().item()


def run(body):
    code = f"import sys\nsys.path[:0] = {sys.path!r}\n" + textwrap.dedent(body)
    # From 3.12 on Python warns of a fork beside threads, which the driver has.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    got = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert got.returncode == 0, got.stderr
    assert got.stderr == ""
    return got.stdout


@pytest.mark.parametrize("beside", ["", "import torch; kept = torch.ones(10, device='cuda')"])
def test_owners_may_live_until_the_interpreter_ends(gpu, beside):
    if beside:
        pytest.importorskip("torch")
    run(
        f"""
        import sys
        {beside}
        from arcbeam.gpu import _cuda
        from arcbeam.gpu._launch import Event, Stream
        from arcbeam.gpu._memory import DeviceBuffer, MemoryPool, PinnedBuffer
        context = _cuda.context_of(0)
        stream = Stream(context)
        buffer = DeviceBuffer(MemoryPool(context), stream, "test values")
        buffer.resize(1000)
        pinned = PinnedBuffer(context)
        pinned.resize(1000)
        sys.kept = [context, stream, buffer, pinned, Event(context)]
        sys.kept.append(sys.kept)
        """
    )
