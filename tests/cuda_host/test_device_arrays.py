"""Arrays on a device, from exporters as torch, CuPy and JAX write them: addresses, order of streams, ownership."""

import ctypes
import gc
from types import SimpleNamespace

import numpy as np
import pytest
from arcbeam._cuda_launch import Stream
from arcbeam._cuda_memory import DeviceBuffer, MemoryPool
from arcbeam._dlpack import Import

from arcbeam import _cuda
from arcbeam.device_arrays import as_device_utterances, import_array, is_on_device, stream_address
from arcbeam.errors import CudaError

I32, I64, U8, U16, U32, U64, P = (
    ctypes.c_int32, ctypes.c_int64, ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p,
)  # fmt: skip


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", P), ("device_type", I32), ("device_id", I32), ("ndim", I32), ("code", U8), ("bits", U8),
        ("lanes", U16), ("shape", ctypes.POINTER(I64)), ("strides", ctypes.POINTER(I64)), ("byte_offset", U64),
    ]  # fmt: skip


DELETER = ctypes.CFUNCTYPE(None, P)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", P), ("deleter", DELETER)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", U32),
        ("minor", U32),
        ("context", P),
        ("deleter", DELETER),
        ("flags", U64),
        ("tensor", Tensor),
    ]


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [P, ctypes.c_char_p, P]
capsule_name = ctypes.pythonapi.PyCapsule_GetName
capsule_name.restype, capsule_name.argtypes = ctypes.c_char_p, [ctypes.py_object]

CODES = {"float32": (2, 32), "float16": (2, 16), "float64": (2, 64), "bfloat16": (4, 16), "int32": (0, 32)}


class Exporter:
    """An array on a device with DLPack; strides in values."""

    def __init__(self, shape, strides=None, dtype="float32", address=0x10000, device=(2, 0), offset=0, major=None):
        self.shape, self.strides, self.dtype, self.device = shape, strides, dtype, device
        self.address, self.offset, self.major = address, offset, major
        self.released, self.streams, self.capsules = 0, [], []

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, stream=None, max_version=None):
        self.streams.append(stream)
        self.deleter = DELETER(self._release)
        one = Managed() if self.major is None else Versioned(self.major, 0)
        self.held = [one, (I64 * 9)(*self.shape), (I64 * 9)(*(self.strides or ()))]
        code, bits = CODES[self.dtype]
        strides = ctypes.cast(self.held[2], ctypes.POINTER(I64)) if self.strides else None
        shape = ctypes.cast(self.held[1], ctypes.POINTER(I64))
        one.tensor = Tensor(self.address, *self.device, len(self.shape), code, bits, 1, shape, strides, self.offset)
        one.deleter = self.deleter
        self.name = b"dltensor" if self.major is None else b"dltensor_versioned"
        capsule = new_capsule(ctypes.addressof(one), self.name, None)
        self.capsules.append(capsule)
        return capsule

    def _release(self, _):
        self.released += 1


class OldExporter(Exporter):
    """From before version 1 of the protocol."""

    def __dlpack__(self, *, stream=None):
        return super().__dlpack__(stream=stream)


class InterfaceOnly:
    def __init__(self, **said):
        defaults = {"shape": (2, 3, 4), "typestr": "<f4", "data": (0x20000, True), "version": 3}
        self.__cuda_array_interface__ = defaults | said


class Reader:
    """A stream that goes with its test, though pytest keeps the fixture."""

    def __init__(self, stream):
        self.stream = stream

    def __getattr__(self, name):
        return getattr(self.stream, name)


@pytest.fixture
def reader(fake):
    fake.start(devices=2)
    for start, kind, device in (
        (0x10000, "memory", 0), (0x20000, "memory", 0), (0x30000, "memory", 1), (0x40000, "managed", 1),
        (0x50000, "pinned", 0), (0x60000, "moved", 0),
    ):  # fmt: skip
        fake.lend(kind, start, 0x1000, device)
    made = Reader(Stream(_cuda.context_of(0)))
    yield made
    made.stream = None


def import_all(log_probs, reader, lengths=None, columns=4, exact=True, **options):
    return as_device_utterances(log_probs, lengths, columns=columns, exact=exact, reader=reader, **options)


@pytest.mark.parametrize("kind", [Exporter, OldExporter])
@pytest.mark.parametrize("major", [None, 1])
def test_a_batch_by_dlpack(reader, kind, major):
    batch = kind((2, 3, 4), (24, 8, 1), offset=16, major=major)
    assert is_on_device(batch)
    got = import_all(batch, reader, [3, 2])
    start = 0x10000 + 16
    assert got.table.tolist() == [[start, 8, 3, 0], [start + 24 * 4, 8, 2, 0]]
    assert got.columns == 4
    assert batch.streams == [reader.address], "the producer orders our stream after its own"
    assert capsule_name(batch.capsules[0]) == b"used_" + batch.name
    assert batch.released == 0
    del got
    gc.collect()
    assert batch.released == 1


def test_half_precision_and_compact_strides(reader):
    got = import_all(Exporter((2, 3, 4), dtype="float16"), reader)
    assert got.table.tolist() == [[0x10000, 4, 3, 1], [0x10000 + 24, 4, 3, 1]]


def test_a_list_of_utterances(reader):
    items = [Exporter((5, 4)), InterfaceOnly(shape=(2, 4), strides=(32, 4)), Exporter((0, 4), address=0)]
    got = import_all(items, reader)
    assert got.table.tolist() == [[0x10000, 4, 5, 0], [0x20000, 8, 2, 0], [0, 4, 0, 0]]


def test_an_empty_batch(reader):
    assert import_all(Exporter((0, 3, 4)), reader).table.shape == (0, 4)


def test_transposed_batches_keep_their_rows(reader):
    got = import_all(Exporter((2, 3, 4), (4, 8, 1)), reader)
    assert got.table[:, :2].tolist() == [[0x10000, 8], [0x10000 + 16, 8]]
    with pytest.raises(ValueError, match="values of a frame side by side, got a stride of 3"):
        import_all(Exporter((2, 3, 4), (12, 1, 3)), reader)


def test_producers_are_asked_where_the_reader_is(reader, fake):
    """As torch wants it, whose current device is another GPU."""

    class Asked(Exporter):
        def __dlpack__(self, **asked):
            contexts.append(fake.library.fake_current_device())
            return super().__dlpack__(**asked)

    second, contexts = Reader(Stream(_cuda.context_of(1))), []
    import_all(Asked((2, 3, 4), device=(2, 1), address=0x30000), second)
    import_all([Asked((3, 4), device=(2, 1), address=0x30000) for _ in range(2)], second)
    import_all(Asked((2, 3, 4)), reader)
    assert contexts == [1, 1, 1, 0]
    assert fake.library.fake_current() == 0


def test_the_interface_orders_streams(reader, fake):
    import_all(InterfaceOnly(stream=2), reader)
    assert [line[:2] for line in fake.journal()] == [["record", "2"], ["wait", str(reader.address)]]
    import_all(InterfaceOnly(stream=None), reader)
    import_all(InterfaceOnly(), reader)
    assert len(fake.journal()) == 2


def test_a_stream_of_many_arrays_is_waited_for_once(reader, fake):
    import_all([InterfaceOnly(shape=(3, 4), stream=s) for s in (2, 1, 2, None, 1)], reader)
    waits = [line[:2] for line in fake.journal()]
    assert sorted(line for line in waits if line[0] == "record") == [["record", "1"], ["record", "2"]]
    assert waits.count(["wait", str(reader.address)]) == 2


def test_the_current_stream_of_torch_is_asked_for_once(reader):
    tensor = type("Tensor", (Exporter,), {"__module__": "torch"})
    items = [tensor((3, 4)), Exporter((3, 4)), tensor((3, 4)), tensor((3, 4)), Exporter((3, 4))]
    import_all(items, reader)
    there = reader.address
    assert [item.streams for item in items] == [[there], [there], [-1], [-1], [there]]


def test_old_producers_of_a_list(reader):
    items = [OldExporter((3, 4)), Exporter((2, 4), major=1), OldExporter((1, 4)), Exporter((0, 4), major=1)]
    got = import_all(items, reader)
    assert got.table[:, 2].tolist() == [3, 2, 1, 0]
    assert all(item.streams == [reader.address] for item in items)
    del got
    gc.collect()
    assert [item.released for item in items] == [1] * 4


def test_a_given_stream_replaces_the_producers(reader, fake):
    batch = Exporter((2, 3, 4))
    import_all(batch, reader, stream=1)
    assert batch.streams == [-1]
    import_all(InterfaceOnly(stream=2), reader, stream=0)
    assert [line[:2] for line in fake.journal()] == [["record", "1"], ["wait", str(reader.address)]] * 2


def test_streams_of_others():
    class Torch:
        cuda_stream = 0

    class CuPy:
        ptr = 77

    class Protocol:
        def __cuda_stream__(self):
            return (0, 99)

    assert [stream_address(s) for s in (Torch(), CuPy(), Protocol(), 2)] == [1, 77, 99, 2]
    for wrong in ("1", -1, True, 1.5, None):
        with pytest.raises(TypeError, match="stream: expected a CUDA stream or its handle"):
            stream_address(wrong)


@pytest.mark.parametrize(
    ("item", "error", "said"),
    [
        (Exporter((2, 3, 4), device=(2, 1)), TypeError, "array on cuda:0, where the decoder is, got one on cuda:1"),
        (Exporter((2, 3, 4), device=(10, 0)), TypeError, "array on cuda:0, got one of DLPack device type 10"),
        (np.zeros((2, 3, 4), np.float32), TypeError, "array on cuda:0, got one in CPU memory"),
        ("text", TypeError, "array on cuda:0, got str"),
        (Exporter((2, 3, 4), dtype="float64"), TypeError, "float32 or float16 log-probs, got float64"),
        (Exporter((2, 3, 4), dtype="bfloat16"), TypeError, "float32 or float16 log-probs, got bfloat16"),
        (Exporter((2, 3, 4), dtype="int32"), TypeError, "float32 or float16 log-probs, got int32"),
        (Exporter((3, 4)), ValueError, r"expected \[batch, frames, columns\], got 2 dimensions"),
        (Exporter((2, 3, 5)), ValueError, "expected 4 columns, got 5"),
        (InterfaceOnly(typestr="<f8"), TypeError, "float32 or float16 log-probs, got <f8"),
        (InterfaceOnly(mask=object()), TypeError, "without a mask"),
        (InterfaceOnly(strides=(50, 17, 4)), ValueError, "strides of whole values"),
        ([Exporter((3, 4)), np.zeros((3, 4), np.float32)], TypeError, r"log_probs\[1\]: .* got one in CPU memory"),
        ([Exporter((3, 4)), Exporter((2, 3, 4))], ValueError, r"log_probs\[1\]: expected \[frames, columns\]"),
        (InterfaceOnly(strides=(48, 16)), ValueError, r"each dimension of \(2, 3, 4\), got strides \(48, 16\)"),
        (InterfaceOnly(data=("address", True)), TypeError, r"log_probs: expected whole numbers for data\[0\]"),
        (InterfaceOnly(shape=(2, 3.0, 4)), TypeError, r"log_probs: expected whole numbers for .* shape"),
        (InterfaceOnly(data=None), TypeError, r"log_probs: expected whole numbers for data\[0\]"),
        ([InterfaceOnly(shape=(-1, 4))], ValueError, r"log_probs\[0\]: expected a shape without negative .*\(-1, 4\)"),
        (Exporter((2, 3, 4), (2**61, 4, 1)), ValueError, r"strides of fewer than 2\*\*62 bytes, got"),
    ],
)
def test_bad_input(reader, item, error, said):
    with pytest.raises(error, match=said):
        import_all(item, reader)


def test_bad_lengths(reader):
    for lengths, error in [([4, 1], ValueError), ([1], ValueError), ([1.0, 2.0], TypeError)]:
        with pytest.raises(error, match="lengths"):
            import_all(Exporter((2, 3, 4)), reader, lengths)


def test_utterances_of_several_widths(reader):
    with pytest.raises(ValueError, match="utterances of one width"):
        import_all([Exporter((3, 4)), Exporter((3, 5))], reader, exact=False)


def test_what_is_refused_is_given_back(reader):
    batch = Exporter((2, 3, 4), dtype="float64")
    with pytest.raises(TypeError):
        import_all(batch, reader)
    gc.collect()
    assert batch.released == 1


def test_managed_memory_fits_every_device(reader):
    assert import_array(Exporter((3, 4), device=(13, 1), address=0x40000), "log_probs", reader).device == 0
    assert import_all([InterfaceOnly(shape=(3, 4), data=(0x40000, True))], reader).table[0, 0] == 0x40000


def test_a_capsule_is_taken_once():
    batch = Exporter((2, 3))
    capsule = batch.__dlpack__()
    first = Import(capsule)
    assert (first.shape, first.strides, first.dtype, first.device) == ((2, 3), (3, 1), "float32", (2, 0))
    with pytest.raises(TypeError, match="nobody has taken yet"):
        Import(capsule)
    with pytest.raises(TypeError, match="expected a DLPack capsule"):
        Import(object())
    newer = Exporter((2, 3), major=2)
    with pytest.raises(TypeError, match=r"version 1, got 2\.0"):
        Import(newer.__dlpack__())
    assert newer.released == 0, "it stays its producer's"


def test_only_what_is_on_a_device_is_said_to_be(fake):
    assert is_on_device([Exporter((3, 4))])
    assert is_on_device(InterfaceOnly())
    assert not is_on_device(np.zeros(3))
    assert not is_on_device([])
    assert not is_on_device([np.zeros(3)])
    assert not is_on_device(Exporter((3, 4), device=(3, 0)))


HERE = "memory of cuda:0, where the decoder is, got "


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (0x10002, r"an address that is a multiple of 4, .*, got 0x10002; copy the array"),
        (0x70000, HERE + "the address 0x70000, which the driver does not know: memory of the host, or freed"),
        (0, HERE + "the address 0x0, which the driver does not know"),
        (-4, HERE + "the address -4"),
        (2**64 - 4, HERE + "the address 18446744073709551612"),
        (0x30000, HERE + "an address on cuda:1"),
        (0x60000, HERE + "the address 0x60000 of host memory, which no kernel reaches there"),
        (0x10FF4, "all of the array in one allocation, which here has 4,096 bytes, got 36 bytes outside of it"),
    ],
)
def test_memory_that_kernels_cannot_read(reader, fake, address, said):
    """Of an array alone, of one in a list; whatever its maker says."""
    array = InterfaceOnly(shape=(3, 4), data=(address, True))
    makers = [array] if address % 2**63 != address else [array, Exporter((3, 4), address=address, major=1)]
    for maker in makers:
        with pytest.raises(ValueError, match=rf"log_probs\[1\]: expected {said}"):
            import_all([InterfaceOnly(shape=(3, 4)), maker], reader)
        with pytest.raises(ValueError, match=f"frames: expected {said}"):
            import_array(maker, "frames", reader)
    assert import_all([InterfaceOnly(shape=(3, 4))], reader).table[0, 0] == 0x20000
    assert fake.library.fake_current() == 0


def test_offsets_count(reader):
    """Of DLPack, where the address of the memory is aligned and its own."""
    with pytest.raises(ValueError, match=r"a multiple of 4, .* got 0x10006"):
        import_all(Exporter((2, 3, 4), offset=6), reader)
    with pytest.raises(ValueError, match=r"a multiple of 2, .* got 0x10005"):
        import_all(Exporter((2, 3, 4), dtype="float16", offset=5), reader)
    assert import_all(Exporter((2, 3, 4), dtype="float16", offset=6), reader).table[0, 0] == 0x10006
    with pytest.raises(ValueError, match="4,096 bytes, got 48 bytes outside of it"):
        import_all(Exporter((2, 3, 4), offset=4096 - 48), reader)
    assert import_all(Exporter((2, 3, 4), offset=4096 - 96), reader).table[1, 0] == 0x11000 - 48


@pytest.mark.parametrize(
    ("offset", "shape", "strides", "outside"),
    [
        (0, (4, 3, 4), (256, 4, 1), 0),
        (0, (4, 3, 4), (340, 4, 1), 32),  # the rows of the last utterance
        (0, (2, 256, 4), (0, 4, 1), 0),  # both the same
        (0, (2, 257, 4), (0, 4, 1), 16),
        (4080, (2, 100, 4), (0, 0, 1), 0),  # all rows the same
        (0, (2, 1021, 4), (0, 1, 1), 0),  # rows that overlap
        (0, (2, 1022, 4), (0, 1, 1), 4),
        (4080, (1, 256, 4), (0, -4, 1), 0),  # rows in reverse
        (4076, (1, 256, 4), (0, -4, 1), 4),
        (4080, (1, 257, 4), (0, -4, 1), 16),
        (2048, (257, 1, 4), (-2, 0, 1), 0),
        (2048, (258, 1, 4), (-2, 0, 1), 8),
        (0, (2, 3, 4), (1 << 40, 4, 1), (1 << 42) + 48 - 4096),
        (0, (1, 1, 4), (1 << 40, 1 << 40, 1), 0),  # a stride that nothing takes
        (0, (0, 3, 4), (1 << 40, 4, 1), 0),  # nothing is read
    ],
)
def test_all_of_an_array_is_in_its_allocation(reader, offset, shape, strides, outside):
    steps = tuple([4 * stride for stride in strides])
    for maker in (
        Exporter(shape, strides, offset=offset),
        InterfaceOnly(shape=shape, strides=steps, data=(0x10000 + offset, True)),
    ):
        if not outside:
            got = import_all(maker, reader).table.tolist()
            assert got == [[0x10000 + offset + i * steps[0], strides[1], shape[1], 0] for i in range(shape[0])]
            continue
        with pytest.raises(ValueError, match=rf"one allocation, .* got {outside:,} bytes outside of it, with the"):
            import_all(maker, reader)


def test_memory_of_an_unknown_length_is_taken(reader, fake):
    fake.library.fake_host_is_device(1)
    assert import_all([InterfaceOnly(shape=(3, 4), data=(0x70000, True))], reader).table[0, 0] == 0x70000


def test_pinned_memory_is_read_where_it_is(reader):
    assert import_all([InterfaceOnly(shape=(3, 4), data=(0x50000, True))], reader).table[0, 0] == 0x50000


@pytest.mark.parametrize("make", [Exporter, lambda shape: InterfaceOnly(shape=shape)])
def test_the_driver_is_asked_once_an_array(reader, fake, make):
    def calls_of(arrays):
        before = fake.library.fake_calls()
        import_all(arrays, reader)
        return fake.library.fake_calls() - before

    alone = calls_of([make((0, 4))])
    assert [calls_of([make((3, 4)) for _ in range(n)]) - alone for n in (1, 2, 100)] == [1, 2, 100]
    assert calls_of(make((50, 3, 4))) - alone == 1


def test_a_driver_that_does_not_answer(reader, fake):
    fake.fail("pointer_attributes", 803)
    with pytest.raises(CudaError, match=r"DRIVER_MISMATCH \(803\) while asking whose memory an address is"):
        import_all([InterfaceOnly(shape=(3, 4))], reader)
    for code in (1, 201):
        fake.fail("pointer_attributes", code)
        with pytest.raises(ValueError, match="which the driver does not know"):
            import_all([InterfaceOnly(shape=(3, 4))], reader)


def test_streams_of_another_device(reader, fake):
    """The driver knows its handles; default streams have the same one everywhere, but some libraries say whose."""
    other = Reader(Stream(_cuda.context_of(1)))
    said = rf"expected a stream of cuda:0, where the decoder is, got the handle {other.address:#x}, which is none there"
    with pytest.raises(ValueError, match=f"^stream: {said}"):
        import_all(Exporter((2, 3, 4)), reader, stream=other.address)
    items = [InterfaceOnly(shape=(3, 4), stream=2), InterfaceOnly(shape=(3, 4), stream=other.address)]
    with pytest.raises(ValueError, match=rf"^log_probs\[1\]: stream in __cuda_array_interface__: {said}"):
        import_all(items, reader)
    of_torch = SimpleNamespace(cuda_stream=0, device=SimpleNamespace(index=1))
    of_cupy = SimpleNamespace(ptr=0, device_id=1)
    of_cuda_core = SimpleNamespace(__cuda_stream__=(0, 1), device=SimpleNamespace(device_id=1))
    for stream in (of_torch, of_cupy, of_cuda_core):
        with pytest.raises(ValueError, match=r"^stream: expected a stream of cuda:0, .* got one of cuda:1"):
            import_all(Exporter((2, 3, 4)), reader, stream=stream)
    here = SimpleNamespace(cuda_stream=2, device=SimpleNamespace(index=0))
    anywhere = SimpleNamespace(ptr=2, device_id=-1)
    for stream in (here, anywhere):
        import_all(Exporter((2, 3, 4)), reader, stream=stream)
    other.stream = None


def test_a_driver_that_fails_while_streams_are_ordered(reader, fake):
    fake.fail("event_record", 803)
    with pytest.raises(CudaError, match=r"DRIVER_MISMATCH \(803\) while recording an event on the producer's stream"):
        import_all(Exporter((2, 3, 4)), reader, stream=2)


def test_the_driver_says_whose_an_address_is(reader):
    buffer = DeviceBuffer(MemoryPool(reader.context), reader.stream, "array")
    buffer.resize(100)
    assert _cuda.device_of_address(reader.context, buffer.address) == 0
    assert _cuda.device_of_address(reader.context, 16) == -1
