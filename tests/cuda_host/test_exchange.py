"""Lists of arrays on a device by DLPack's C exchange: the table, the streams and the errors of ``__dlpack__``."""

import gc
import weakref

import numpy as np
import pytest

from arcbeam.core.errors import CudaError
from tests.cuda_host.exporters import Exporter, InterfaceOnly, exchanged, import_all


def list_of(kind):
    return [
        kind((5, 4)), kind((3, 4), (8, 1), offset=16), kind((2, 4), dtype="float16", address=0x20000),
        kind((0, 4), address=0), kind((9, 4), (-4, 1), address=0x10FF0), kind((1, 4), (77, 1), address=0x10FF0),
        kind((100, 4), (0, 1), address=0x10FF0),
    ]  # fmt: skip


def test_a_list_is_what_its_arrays_say(reader):
    kind = exchanged()
    items = list_of(kind)
    got, wanted = import_all(items, reader, [4, 3, 2, 0, 9, 1, 7]), import_all(list_of(Exporter), reader)
    assert got.table[:, 2].tolist() == [4, 3, 2, 0, 9, 1, 7]
    assert got.table[:, [0, 1, 3]].tolist() == wanted.table[:, [0, 1, 3]].tolist()
    assert got.columns == 4
    assert kind.requested == [("stream", 2, 0), *["describe"] * 7]
    assert not any(item.streams for item in items)
    assert import_all([kind((5, 6))], reader, exact=False).columns == 6


def test_arrays_live_as_long_as_the_batch(reader):
    items = [exchanged()((5, 4))]
    seen = weakref.ref(items[0])
    got = import_all(items, reader)
    items.clear()
    gc.collect()
    assert seen() is not None
    del got
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize(("current", "handle"), [(None, "1"), (2, "2")])
def test_the_reader_waits_once_for_the_stream_of_a_library(reader, fake, current, handle):
    kind, other = exchanged(current), exchanged(1)
    import_all([kind((3, 4)) for _ in range(9)], reader)
    there = str(reader.address)
    assert [line[:2] for line in fake.journal()] == [["record", handle], ["wait", there]]
    import_all([kind((3, 4)), other((3, 4)), kind((3, 4))], reader)
    records = {line[1] for line in fake.journal()[2:] if line[0] == "record"}
    assert records == {handle, "1"}


def test_a_given_stream_replaces_that_of_the_library(reader, fake):
    import_all([exchanged(2)((3, 4))], reader, cuda_stream=1)
    assert [line[:2] for line in fake.journal()] == [["record", "1"], ["wait", str(reader.address)]]


def test_a_captured_stream_of_a_library(reader, fake):
    fake.library.fake_capture(2)
    with pytest.raises(CudaError, match="a CUDA graph is being captured"):
        import_all([exchanged(2)((3, 4))], reader)
    fake.library.fake_end_capture()


BAD = [
    {"device": (2, 1)}, {"device": (1, 0)}, {"dtype": "float64"}, {"dtype": "bfloat16"}, {"dtype": "int32"},
    {"shape": (2, 3, 4)}, {"shape": (3, 5)}, {"shape": (2**31, 4)}, {"strides": (1, 3)}, {"address": 0x10002},
    {"offset": 2}, {"address": 0x70000}, {"address": 0}, {"address": 2**64 - 4}, {"address": 0x30000},
    {"address": 0x60000}, {"address": 0x10FF4}, {"strides": (-4, 1)}, {"strides": (1 << 40, 1)}, {"shape": (-1, 4)},
    {"strides": (1 << 61, 1)}, {"offset": 4096},
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_faults_are_those_that_arrays_alone_have(reader, bad):
    said = []
    for kind in (Exporter, exchanged()):
        with pytest.raises((TypeError, ValueError), match=r"log_probs\[2\]: ") as raised:
            import_all([kind((3, 4)), kind((3, 4)), kind(**{"shape": (3, 4)} | bad), kind((3, 4))], reader)
        said.append((raised.type, str(raised.value)))
    assert said[0] == said[1]


def test_several_widths(reader):
    kind = exchanged()
    with pytest.raises(ValueError, match="the same number of columns in all utterances"):
        import_all([kind((3, 4)), kind((3, 5))], reader, exact=False)


def test_arrays_without_the_exchange_beside_others(reader):
    kind = exchanged()
    items = [kind((3, 4)), InterfaceOnly(shape=(2, 4)), Exporter((1, 4))]
    assert import_all(items, reader).table[:, 2].tolist() == [3, 2, 1]
    assert [items[0].streams, items[2].streams] == [[], [reader.address]], "each in the way it has"
    with pytest.raises(TypeError, match=r"log_probs\[1\]: .* got one in CPU memory"):
        import_all([kind((3, 4)), np.zeros((3, 4), np.float32)], reader)


@pytest.mark.parametrize(
    "kind",
    [
        type("Subclass", (exchanged(),), {}), exchanged(major=2), exchanged(major=2, older=exchanged(major=3)),
        exchanged(name=b"another"), exchanged(fails=["describe"]), exchanged(fails=["current_stream"]),
        exchanged(lacks=["describe"]),
    ],
)  # fmt: skip
def test_what_cannot_be_exchanged_exports_itself(reader, kind):
    items = [kind((3, 4)), kind((2, 4))]
    assert import_all(items, reader).table[:, 2].tolist() == [3, 2]
    assert all(item.streams == [reader.address] for item in items)


def test_an_older_version_is_found(reader):
    older = exchanged()
    item = exchanged(major=2, older=exchanged(major=3, older=older))((3, 4))
    assert import_all([item], reader).table[0, 2] == 3
    assert older.requested == [("stream", 2, 0), "describe"]


def test_one_request_to_the_driver_for_what_is_near(reader, fake):
    kind = exchanged()
    fake.lend("memory", 0x11000, 0x1000)
    fake.lend("memory", 0x80000, 0x40000)

    def calls_of(*addresses):
        before = fake.library.fake_calls()
        import_all([kind((3, 4), address=address) for address in addresses], reader)
        return fake.library.fake_calls() - before

    alone = calls_of(0x10000) - 1
    assert calls_of(*range(0x10000, 0x10F00, 16)) - alone == 1
    assert calls_of(*range(0x10000, 0x10F00, 16), *range(0x11000, 0x11F00, 16)) - alone == 2, "each allocation"
    assert calls_of(*[0x10000, 0x20000] * 9) - alone == 2
    assert calls_of(*range(0x80000, 0xC0000, 0x1000)) - alone == 4, "each 64 KiB"
    with pytest.raises(ValueError, match=r"log_probs\[1\]: .* 36 bytes outside"):
        calls_of(0x10000, 0x10FF4)


def test_memory_of_an_unknown_length(reader, fake):
    fake.library.fake_host_is_device(1)
    item = exchanged()((3, 4), address=0x70000)
    assert import_all([item], reader).table[0, 0] == 0x70000
    assert not item.streams


def test_a_driver_that_does_not_answer(reader, fake):
    fake.fail("pointer_attributes", 803)
    with pytest.raises(CudaError, match=r"DRIVER_MISMATCH \(803\) while finding whose memory an address is"):
        import_all([exchanged()((3, 4))], reader)
    fake.fail("event_record", 803)
    with pytest.raises(CudaError, match=r"DRIVER_MISMATCH \(803\) while recording an event"):
        import_all([exchanged()((3, 4))], reader)
