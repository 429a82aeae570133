"""Arrays on a device, from exporters as torch, CuPy and JAX write them: addresses, order of streams, ownership."""

import gc
from types import SimpleNamespace

import numpy as np
import pytest

from arcbeam.arrays._dlpack import Import
from arcbeam.arrays.bad_values import fault_of_log_probs
from arcbeam.arrays.batches import InputSpec
from arcbeam.arrays.intake import kept_chunk, take_chunks
from arcbeam.arrays.on_device import import_array, is_on_device, stream_address
from arcbeam.gpu import _cuda
from arcbeam.gpu._launch import Stream
from arcbeam.gpu._memory import DeviceBuffer, MemoryPool
from tests.cuda_host.exporters import Exporter, InterfaceOnly, OldExporter, Reader, capsule_name, import_all
from tests.decode.emulated_gpu import DeviceArray


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


def keeper(reader, max_frames=5):
    engine = SimpleNamespace(stream=reader)
    return lambda chunk, wanted, cuda_stream=None: kept_chunk(
        chunk, wanted, engine, cuda_stream, max_frames, fault_of_log_probs
    )


def test_a_chunk_that_is_decoded_later(reader):
    """It is checked, and its producer ordered before the reader, by the thread that has it; it is not copied."""
    wanted, keep = InputSpec(4, False), keeper(reader)
    chunk = Exporter((5, 6), (8, 1))
    assert keep(chunk, wanted) == (chunk, 5, 6, False, False, None)
    assert chunk.streams == [reader.address]
    with pytest.raises(ValueError, match="values of a frame side by side"):
        keep(Exporter((5, 6), (1, 8)), wanted)
    on_host = np.ones((3, 4), np.float16)
    array, *rest = keep(on_host, wanted)
    on_host[:] = 0
    assert (array == 1).all() and rest == [3, 4, True, False, None]
    assert keep(None, wanted)[1:] == (0, 4, True, False, None)
    with pytest.raises(TypeError, match="expected an array in CPU memory"):
        keeper(None)(chunk, wanted)
    with pytest.raises(ValueError, match="cuda_stream: expected None"):
        keep(on_host, wanted, 2)


def test_a_chunk_that_is_written_on_a_stream(reader, fake):
    chunk = InterfaceOnly(shape=(3, 4), stream=1)
    keeper(reader)(chunk, InputSpec(4, False), 2)
    assert [line[:2] for line in fake.journal()] == [["record", "2"], ["wait", str(reader.address)]]


@pytest.mark.parametrize("bad", [None, np.nan, np.inf, -np.inf])
def test_a_long_chunk_is_copied_and_checked(reader, fake, bad):
    values = np.arange(24, dtype=np.float32).reshape(6, 4)
    if bad is not None:
        values[5, 3] = bad
    fake.lend("memory", values.ctypes.data, values.nbytes)
    for chunk in (values, DeviceArray(values)):
        array, *rest = keeper(reader.stream)(chunk, InputSpec(4, False))
        assert array.tobytes() == values.tobytes() and not np.shares_memory(array, values)
        *rest, fault = rest
        assert rest == [6, 4, True, True] and (fault is None) == (bad in (None, -np.inf))
        assert fault is None or f"got {bad} in utterance 0, frame 5, column 3" in str(fault)
    assert keeper(reader.stream, 6)(values, InputSpec(4, False)).is_long is False


def test_chunks_that_do_not_fit_are_left_out(reader):
    """Those of the others have their addresses; lengths count all."""
    engine, wanted = SimpleNamespace(stream=reader), InputSpec(4, True)
    chunks = [
        Exporter((5, 4)), Exporter((5, 3)), np.ones((5, 4), np.float32), Exporter((5, 4), (1, 5)),
        InterfaceOnly(shape=(2, 4), strides=(32, 4)),
    ]  # fmt: skip
    taken, faults = take_chunks(chunks, [4, 5, 5, 5, 2], 5, wanted, engine, None, "return")
    assert taken.table[[0, 4]].tolist() == [[0x10000, 4, 4, 0], [0x20000, 8, 2, 0]]
    assert taken.table[1:4, 2].tolist() == [0, 0, 0] and not taken.on_host
    said = {at: f"{type(error).__name__} {error}" for at, error in faults.items()}
    assert list(said) == [1, 2, 3]
    assert "ValueError log_probs[1]: expected 4 columns, got 3" in said[1]
    assert "TypeError log_probs[2]: expected an array on cuda:0" in said[2]
    assert "ValueError log_probs[3]: expected the values of a frame side by side" in said[3]
    alone, faults = take_chunks([Exporter((5, 3))], None, 1, wanted, engine, 2, "return")
    assert alone.table[0, 2] == 0 and list(faults) == [0]


def test_an_empty_batch(reader):
    assert import_all(Exporter((0, 3, 4)), reader).table.shape == (0, 4)


def test_transposed_batches_keep_their_rows(reader):
    got = import_all(Exporter((2, 3, 4), (4, 8, 1)), reader)
    assert got.table[:, :2].tolist() == [[0x10000, 8], [0x10000 + 16, 8]]
    with pytest.raises(ValueError, match="values of a frame side by side, got a stride of 3"):
        import_all(Exporter((2, 3, 4), (12, 1, 3)), reader)


def test_requests_to_producers_name_where_the_reader_is(reader, fake):
    """As torch wants it, whose current device is another GPU."""

    class Outputs(Exporter):
        def __dlpack__(self, **requested):
            contexts.append(fake.library.fake_current_device())
            return super().__dlpack__(**requested)

    second, contexts = Reader(Stream(_cuda.context_of(1))), []
    import_all(Outputs((2, 3, 4), device=(2, 1), address=0x30000), second)
    import_all([Outputs((3, 4), device=(2, 1), address=0x30000) for _ in range(2)], second)
    import_all(Outputs((2, 3, 4)), reader)
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


def test_the_current_stream_of_torch_is_read_once(reader):
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
    import_all(batch, reader, cuda_stream=1)
    assert batch.streams == [-1]
    import_all(InterfaceOnly(stream=2), reader, cuda_stream=0)
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


class Wide(Exporter):
    """An array of a library that rounds to float32 on its own."""

    def float(self):
        self.narrow = Exporter(self.shape, address=self.address + 0x100)
        return self.narrow


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_other_floats_are_rounded_by_their_library(reader, dtype):
    for kind, items in ((Wide((2, 3, 4), dtype=dtype),) * 2, (wide := Wide((3, 4), dtype=dtype), [wide])):
        taken = import_all(items, reader)
        assert taken.table[0].tolist()[0] == 0x10100 and taken.table[0, 3] == 0
        assert kind.narrow.streams == [reader.address]
    with pytest.raises(TypeError, match=f"got {dtype}"):  # no order between the library's work and that stream's
        import_all(Wide((2, 3, 4), dtype=dtype), reader, cuda_stream=1)


def test_bad_lengths(reader):
    for lengths, error in [([4, 1], ValueError), ([1], ValueError), ([1.0, 2.0], TypeError)]:
        with pytest.raises(error, match="lengths"):
            import_all(Exporter((2, 3, 4)), reader, lengths)


def test_utterances_of_several_widths(reader):
    with pytest.raises(ValueError, match="the same number of columns in all utterances"):
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
    with pytest.raises(TypeError, match="has not been taken over before"):
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


def test_the_driver_says_whose_an_address_is(reader):
    buffer = DeviceBuffer(MemoryPool(reader.context), reader.stream, "array")
    buffer.resize(100)
    assert _cuda.device_of_address(reader.context, buffer.address) == 0
    assert _cuda.device_of_address(reader.context, 16) == -1
