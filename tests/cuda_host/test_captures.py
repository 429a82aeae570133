"""While a CUDA graph is being captured nothing is decoded: an error says so, and the capture is left alone."""

import sys
from types import SimpleNamespace

import pytest

from arcbeam import CudaError
from arcbeam.arrays.batches import InputSpec
from arcbeam.arrays.on_device import as_device_inputs, import_array, refuse_capture
from arcbeam.gpu import _cuda
from arcbeam.gpu._launch import Event, Stream
from tests.cuda_host.exporters import Exporter

SAID = (
    r"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED \(900\) while checking whether a stream is captured on cuda:0: .*; a CUDA "
    "graph is being captured: decode before the capture or after it"
)
PRODUCER = 2  # a stream that the fake driver knows from elsewhere


def take(reader, arrays, **more):
    return as_device_inputs(arrays, None, InputSpec(3, True), reader=reader, **more)


def library(stream, initialised=True):
    """torch and CuPy, as far as they tell the current stream."""
    return SimpleNamespace(
        cuda=SimpleNamespace(
            is_initialized=lambda: initialised,
            current_stream=lambda device: SimpleNamespace(cuda_stream=stream),
            get_current_stream=lambda device: SimpleNamespace(ptr=stream),
        )
    )


def touched(fake):
    """Streams that events were recorded on, or that wait."""
    return {line[1] for line in fake.journal() if line[0] in ("record", "wait")}


@pytest.fixture(autouse=True)
def memory_of_exporters(fake):
    fake.lend("memory", Exporter((4, 3)).address, 1 << 12)


@pytest.mark.parametrize("name", ["torch", "cupy"])
def test_the_current_stream_of_a_library(fake, monkeypatch, name):
    reader = Stream(_cuda.context_of(0))
    monkeypatch.setitem(sys.modules, name, library(PRODUCER))
    array = Exporter((4, 3))
    take(reader, [array])
    fake.library.fake_capture(PRODUCER)
    for arrays in ([array], Exporter((1, 4, 3))):
        with pytest.raises(CudaError, match=SAID) as caught:
            take(reader, arrays)
        assert (caught.value.name, caught.value.code) == ("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", 900)
    assert len(array.streams) == 1, "no request to the producer"
    with pytest.raises(CudaError, match=SAID):
        refuse_capture(reader)
    assert fake.library.fake_capturing() == 1, "our stream is not a part of it"
    fake.library.fake_end_capture()
    take(reader, [array])


def test_a_library_that_has_not_begun(fake, monkeypatch):
    reader = Stream(_cuda.context_of(0))
    monkeypatch.setitem(sys.modules, "torch", library(PRODUCER, initialised=False))
    fake.library.fake_capture(PRODUCER)
    take(reader, [Exporter((4, 3))])
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())  # in the midst of its import
    take(reader, [Exporter((4, 3))])


def test_the_default_stream(fake, monkeypatch):
    """And nothing is read of it while a stream that waits for it is being captured."""
    reader = Stream(_cuda.context_of(0))
    monkeypatch.setitem(sys.modules, "torch", library(0))
    take(reader, [Exporter((4, 3))])
    fake.fail("stream_capturing", 906)
    with pytest.raises(CudaError, match=r"STREAM_CAPTURE_IMPLICIT \(906\) .*; a CUDA graph is being captured"):
        take(reader, [Exporter((4, 3))])


def test_a_stream_that_is_named(fake):
    reader = Stream(_cuda.context_of(0))
    fake.library.fake_capture(PRODUCER)
    with pytest.raises(CudaError, match=SAID):
        take(reader, [Exporter((4, 3))], cuda_stream=PRODUCER)
    with pytest.raises(CudaError, match=SAID):
        reader.wait_for_stream(PRODUCER)
    said = SimpleNamespace(
        __cuda_array_interface__={
            "data": (0x10000, True), "shape": (4, 3), "typestr": "<f4", "version": 3, "stream": PRODUCER,
        }
    )  # fmt: skip
    with pytest.raises(CudaError, match=SAID):
        take(reader, [said])
    assert touched(fake) == set()
    assert fake.library.fake_capturing() == 1


class Pulling(Exporter):
    """Of a library that we do not know: its `__dlpack__` has our stream wait for a stream that is being captured."""

    def __init__(self, fake, *shape):
        super().__init__(shape)
        self.fake = fake

    def __dlpack__(self, *, stream=None, max_version=None):
        self.fake.library.fake_capture(stream)
        return super().__dlpack__(stream=stream, max_version=max_version)


def test_a_producer_that_pulls_our_stream_in(fake):
    reader = Stream(_cuda.context_of(0))
    for arrays in ([Pulling(fake, 4, 3)], Pulling(fake, 1, 4, 3)):
        with pytest.raises(CudaError, match=SAID):
            take(reader, arrays)
        fake.library.fake_end_capture()
        take(reader, [Exporter((4, 3))])
    reader.finish()


@pytest.mark.parametrize("code", [900, 907])
def test_what_a_capture_forbids_is_said_to_be_that(fake, code):
    reader = Stream(_cuda.context_of(0))
    event = Event(reader.context)
    event.mark(reader)
    fake.fail("event_query", code)
    with pytest.raises(CudaError, match=rf"\({code}\) .*; a CUDA graph is being captured: decode before the capture"):
        event.reached()
    assert event.reached(), "the device goes on"


def test_single_arrays(fake):
    """The check is that of a batch: who imports one array checks it alone."""
    reader = Stream(_cuda.context_of(0))
    import_array(Exporter((4, 3)), "x", reader)
    reader.refuse_capture()
    fake.library.fake_capture(reader.address)
    with pytest.raises(CudaError, match=SAID):
        reader.refuse_capture()
    fake.library.fake_end_capture()
