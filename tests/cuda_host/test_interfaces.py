"""Lists of arrays on a device by ``__cuda_array_interface__``: the table, the streams and the errors of one alone."""

import gc
import weakref
from types import MappingProxyType

import numpy as np
import pytest

from tests.cuda_host.exporters import Exporter, InterfaceOnly, exchanged, import_all

PLAIN = {"shape": (3, 4), "typestr": "<f4", "data": (0x20000, True), "version": 3}


class Checked(InterfaceOnly):
    """An array whose interface is no dict, so that all of it is checked in Python."""

    def __init__(self, **said):
        super().__init__(**said)
        self.__cuda_array_interface__ = MappingProxyType(self.__cuda_array_interface__)


class Read:
    """An array that makes its interface anew each time it is read, and counts how often."""

    def __init__(self, **said):
        self.said, self.times = PLAIN | said, 0

    @property
    def __cuda_array_interface__(self):
        self.times += 1
        return dict(self.said)


class WithDlpack(Read, Exporter):
    """An array that also exports itself by DLPack, as CuPy's do."""

    def __init__(self, **said):
        Exporter.__init__(self, (3, 4), address=0x10000)
        Read.__init__(self, **said)


GOOD = [
    {}, {"typestr": "<f2"}, {"strides": None}, {"strides": (16, 4)}, {"strides": (32, 4)}, {"strides": (0, 4)},
    {"strides": (-16, 4), "data": (0x20FF0, True)}, {"data": (0x20004, False)}, {"mask": None}, {"stream": None},
    {"shape": (0, 4)}, {"shape": (0, 4), "data": (0, True)}, {"shape": (0, 4), "data": (None, True)},
    {"shape": (0, 4), "strides": (16, 8)}, {"shape": (1, 4), "strides": (4 << 40, 4)}, {"stream": 1}, {"stream": 2},
    {"data": [0x20000, True]}, {"shape": [3, 4]}, {"strides": [16, 4]}, {"shape": (np.int64(3), 4)},
    {"typestr": "=f4"}, {"data": (np.uint64(0x20000), True)}, {"descr": [("", "<f4")]}, {"data": (0x40000, True)},
]  # fmt: skip


@pytest.mark.parametrize("said", GOOD, ids=str)
def test_a_list_is_what_its_arrays_say(reader, said):
    got, wanted = [import_all([kind(**PLAIN | said), kind(**PLAIN)], reader) for kind in (Read, Checked)]
    assert got.table.tolist() == wanted.table.tolist()
    assert got.table[0, 2] == len(np.empty((PLAIN | said)["shape"])) and got.columns == wanted.columns == 4


BAD = [
    {"data": (0x30000, True)}, {"data": (0x60000, True)}, {"data": (0x70000, True)}, {"data": (0x20002, True)},
    {"data": (0x20FF4, True)}, {"data": (0, True)}, {"data": (None, True)}, {"data": (-4, True)},
    {"data": (2**64 - 4, True)}, {"data": (2**70, True)}, {"data": ("address", True)}, {"data": (1.0, True)},
    {"data": None}, {"data": ()}, {"shape": (2, 3, 4)}, {"shape": (4,)}, {"shape": ()}, {"shape": (3, 5)},
    {"shape": (3, 3)}, {"shape": (-1, 4)}, {"shape": (2**31, 4)}, {"shape": (3, 4.0)}, {"shape": None},
    {"shape": (3, 2**70)}, {"strides": (16,)}, {"strides": (17, 4)}, {"strides": (16, 6)}, {"strides": (4, 16)},
    {"strides": (-16, 4)}, {"strides": (1 << 40, 4)}, {"strides": (1 << 63, 4)}, {"strides": (16.0, 4)}, {"strides": 4},
    {"typestr": "<f8"}, {"typestr": ">f4"}, {"typestr": "<i4"}, {"typestr": None}, {"typestr": []}, {"typestr": b"<f4"},
    {"mask": object}, {"stream": -1}, {"stream": True}, {"stream": "2"}, {"stream": 1.0}, {"stream": 2**70},
    {"stream": 0x999},
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_faults_are_those_that_arrays_alone_have(reader, bad):
    said = []
    for kind in (Read, Checked):
        with pytest.raises((TypeError, ValueError, OverflowError)) as raised:
            import_all([kind(**PLAIN), kind(**PLAIN), kind(**PLAIN | bad), kind(**PLAIN)], reader)
        said.append((raised.type, str(raised.value).replace("mappingproxy(", "").replace("})", "}")))
    assert said[0] == said[1]
    assert said[0][1].startswith(("log_probs[2]: ", "Python int too large", "stream: expected a CUDA stream"))
    assert import_all([Read()], reader).table[0, 0] == 0x20000, "the reader goes on"


@pytest.mark.parametrize("missing", ["data", "shape", "typestr"])
def test_entries_that_are_missing(reader, missing):
    item = Read()
    del item.said[missing]
    with pytest.raises(TypeError, match=r"log_probs\[1\]: expected whole numbers for data\[0\], shape and strides"):
        import_all([Read(), item], reader)


@pytest.mark.parametrize("kind", [ValueError, RuntimeError, KeyboardInterrupt])
def test_an_interface_that_raises(reader, kind):
    class Raises:
        @property
        def __cuda_array_interface__(self):
            raise kind("as its maker says it")

    with pytest.raises(kind, match="as its maker says it"):
        import_all([Read(), Raises()], reader)


def test_an_interface_is_read_once(reader):
    items = [Read() for _ in range(9)]
    import_all(items, reader)
    assert [item.times for item in items] == [1] * 9


def test_several_widths(reader):
    with pytest.raises(ValueError, match=r"the same number of columns in all utterances, got \[4, 5, 6\]"):
        import_all([Read(), Read(shape=(3, 5)), Checked(shape=(3, 6)), Read()], reader, exact=False)
    assert import_all([Read(shape=(3, 5))], reader, exact=False).columns == 5


def test_arrays_live_as_long_as_the_batch(reader):
    items = [Read()]
    seen = weakref.ref(items[0])
    got = import_all(items, reader)
    items.clear()
    gc.collect()
    assert seen() is not None
    del got
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize("stream", [1, 2, None])
def test_arrays_with_dlpack_are_taken_by_the_interface_if_it_names_a_stream(reader, fake, stream):
    items = [WithDlpack(stream=stream) for _ in range(3)]
    assert import_all(items, reader).table[:, 0].tolist() == [0x20000] * 3
    assert not any(item.streams for item in items)
    waits = [line[:2] for line in fake.journal()]
    assert waits == ([["record", str(stream)], ["wait", str(reader.address)]] if stream else [])


def test_other_arrays_with_dlpack_order_streams_by_it(reader):
    items = [WithDlpack() for _ in range(3)]
    assert import_all(items, reader).table[:, 0].tolist() == [0x10000] * 3
    assert [item.streams for item in items] == [[reader.address]] * 3
    assert [item.times for item in items] == [1, 0, 0], "of a type that names no stream it is read no more"


def test_arrays_with_dlpack_on_another_device(reader):
    elsewhere = WithDlpack(stream=1, data=(0x30000, True))
    elsewhere.device = (2, 1)
    with pytest.raises(TypeError, match=r"log_probs\[1\]: .*array on cuda:0, where the decoder is, got one on cuda:1"):
        import_all([WithDlpack(stream=1), elsewhere], reader)


def test_a_given_stream_replaces_those_that_arrays_name(reader, fake):
    for bad in (2, "none that is checked"):
        import_all([Read(stream=2), Read(stream=bad)], reader, cuda_stream=1)
    assert [line[:2] for line in fake.journal()] == [["record", "1"], ["wait", str(reader.address)]] * 2


def test_lists_of_all_kinds(reader, fake):
    kind = exchanged()
    items = [
        Read(stream=2), kind((2, 4), address=0x10100), Checked(shape=(1, 4)), Exporter((5, 4)), WithDlpack(stream=1),
        Read(shape=(0, 4)), kind((7, 4)),
    ]  # fmt: skip
    assert import_all(items, reader).table.tolist() == [
        [0x20000, 4, 3, 0], [0x10100, 4, 2, 0], [0x20000, 4, 1, 0], [0x10000, 4, 5, 0], [0x20000, 4, 3, 0],
        [0x20000, 4, 0, 0], [0x10000, 4, 7, 0],
    ]  # fmt: skip
    records = [line[1] for line in fake.journal() if line[0] == "record"]
    assert sorted(records) == ["1", "2"], "the reader waits once for each stream"
    for bad, said in ((np.zeros((3, 4), np.float32), "got one in CPU memory"), (None, "got NoneType")):
        with pytest.raises(TypeError, match=rf"log_probs\[7\]: expected an array on cuda:0, {said}"):
            import_all([*items, bad], reader)


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"shape": (50, 3, 4)},
        {"strides": (48, 16, 4)},
        {"strides": (256, 32, 4), "typestr": "<f4"},
        {"strides": (16, 48, 4)},  # [frames, batch, columns], turned
        {"typestr": "<f2"},
        {"strides": (-48, 16, 4), "data": (0x20000 + 48, True)},
        {"strides": (48, -16, 4), "data": (0x20000 + 32, True)},
        {"strides": (0, 16, 4)},
        {"shape": (0, 3, 4)},
        {"shape": (2, 0, 4)},
        {"shape": (1, 3, 4), "strides": (1 << 40, 16, 4)},
        {"stream": 2},
        {"stream": 0x77},
        {"shape": (100, 3, 4)},
        {"data": (0x10000, True), "strides": (0x10000, 16, 4)},  # of two allocations
        {"strides": (1 << 40, 16, 4)},
        {"data": (0x1FFF0, True)},
        {"data": (0x20002, True)},
        {"strides": (48, 16, 8)},
        {"strides": (49, 16, 4)},
        {"shape": (2, 3, 5)},
        {"shape": (3, 4)},
        {"typestr": "<f8"},
    ],
)
def test_an_array_of_a_whole_batch_is_taken_as_one_that_is_checked_in_python(reader, fake, said):
    outcomes = []
    for make in (InterfaceOnly, Checked):
        before = len(fake.journal())
        try:
            found = import_all(make(**said), reader)
            outcome = found.table.tolist(), found.columns, found.on_host
        except (TypeError, ValueError) as error:
            outcome = type(error), str(error)
        waits = [line[0] for line in fake.journal()[before:]]
        outcomes.append((outcome, waits))
    assert outcomes[0] == outcomes[1]
