"""Memory that foreign arrays name: what kernels could not read is refused, and streams of another device are, too."""

from types import SimpleNamespace

import pytest

from arcbeam.arrays.on_device import import_array
from arcbeam.core.errors import CudaError
from arcbeam.gpu import _cuda
from arcbeam.gpu._launch import Stream
from tests.cuda_host.exporters import Exporter, InterfaceOnly, Reader, import_all

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
def test_one_request_to_the_driver_for_what_is_near(reader, fake, make):
    def calls_of(arrays):
        before = fake.library.fake_calls()
        import_all(arrays, reader)
        return fake.library.fake_calls() - before

    alone = calls_of([make((0, 4))])
    assert [calls_of([make((3, 4)) for _ in range(n)]) - alone for n in (1, 2, 100)] == [1, 1, 1]
    assert calls_of(make((50, 3, 4))) - alone == 1


def test_a_driver_that_does_not_answer(reader, fake):
    fake.fail("pointer_attributes", 803)
    with pytest.raises(CudaError, match=r"DRIVER_MISMATCH \(803\) while finding whose memory an address is"):
        import_all([InterfaceOnly(shape=(3, 4))], reader)
    for code in (1, 201):
        fake.refuse("pointer_attributes", code=code)
        with pytest.raises(ValueError, match="which the driver does not know"):
            import_all([InterfaceOnly(shape=(3, 4))], reader)
        fake.allow()


def test_streams_of_another_device(reader, fake):
    """The driver knows its handles; default streams have the same one everywhere, but some libraries say whose."""
    other = Reader(Stream(_cuda.context_of(1)))
    said = rf"expected a stream of cuda:0, where the decoder is, got the handle {other.address:#x}, which is no"
    with pytest.raises(ValueError, match=f"^cuda_stream: {said}"):
        import_all(Exporter((2, 3, 4)), reader, cuda_stream=other.address)
    items = [InterfaceOnly(shape=(3, 4), stream=2), InterfaceOnly(shape=(3, 4), stream=other.address)]
    with pytest.raises(ValueError, match=rf"^log_probs\[1\]: stream in __cuda_array_interface__: {said}"):
        import_all(items, reader)
    of_torch = SimpleNamespace(cuda_stream=0, device=SimpleNamespace(index=1))
    of_cupy = SimpleNamespace(ptr=0, device_id=1)
    of_cuda_core = SimpleNamespace(__cuda_stream__=(0, 1), device=SimpleNamespace(device_id=1))
    for stream in (of_torch, of_cupy, of_cuda_core):
        with pytest.raises(ValueError, match=r"^cuda_stream: expected a stream of cuda:0, .* got one of cuda:1"):
            import_all(Exporter((2, 3, 4)), reader, cuda_stream=stream)
    here = SimpleNamespace(cuda_stream=2, device=SimpleNamespace(index=0))
    anywhere = SimpleNamespace(ptr=2, device_id=-1)
    for stream in (here, anywhere):
        import_all(Exporter((2, 3, 4)), reader, cuda_stream=stream)
    other.stream = None


def test_a_driver_that_fails_while_streams_are_ordered(reader, fake):
    fake.fail("event_record", 803)
    with pytest.raises(CudaError, match=r"DRIVER_MISMATCH \(803\) while recording an event on the producer's stream"):
        import_all(Exporter((2, 3, 4)), reader, cuda_stream=2)
