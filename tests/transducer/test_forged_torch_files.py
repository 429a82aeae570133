"""Checkpoints that were made to do harm: what they need is refused, and memory stays in proportion to the file.

Pickles are put together by hand, operation by operation, as no pickler would write them.
"""

import io
import struct
import zipfile

import numpy as np
import pytest

from arcbeam import FormatError
from arcbeam.files.pickled_data import DROPPED
from arcbeam.files.torch_file import read_torch_file
from tests.files.mutants import little_memory  # noqa: F401 - a fixture

PROTOCOL, STOP = b"\x80\x02", b"."
VALUES = np.arange(8, dtype=np.float32)
TENSOR, PARAMETER = b"ctorch._utils\n_rebuild_tensor_v2\n", b"ctorch._utils\n_rebuild_parameter\n"
LONGS = b"ctorch\nLongStorage\n"


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def whole(value):
    return b"J" + struct.pack("<i", value) if abs(value) < 1 << 31 else b"\x8a\x10" + value.to_bytes(16, "little")


def numbers(*values):
    return b"(" + b"".join(whole(v) for v in values) + b"t"


def storage(key="0", kind=b"ctorch\nFloatStorage\n"):
    return b"(" + text("storage") + kind + text(key) + text("cpu") + whole(len(VALUES)) + b"tQ"


def tensor(size, stride, offset=None, of=None):
    return TENSOR + b"(" + (of or storage()) + (offset or whole(0)) + size + stride + b"\x89)tR"


def packed(pickled, storages=None, compression=zipfile.ZIP_STORED):
    """A checkpoint; a storage is bytes, or a number of MiB that are zero."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression, compresslevel=1) as archive:
        archive.writestr("a/data.pkl", PROTOCOL + pickled + STOP)
        for i, content in enumerate([VALUES.tobytes()] if storages is None else storages):
            with archive.open(f"a/data/{i}", "w") as member:
                for piece in [content] if isinstance(content, bytes) else [bytes(1 << 20)] * content:
                    member.write(piece)
    return file.getvalue()


def read(content, **options):
    return read_torch_file(io.BytesIO(content), "w.pt", **options)


def test_what_the_forgeries_are_made_of_is_read():
    np.testing.assert_array_equal(read(packed(tensor(numbers(2, 3), numbers(3, 1)))), VALUES[:6].reshape(2, 3))
    np.testing.assert_array_equal(read(packed(tensor(numbers(2), numbers(4), whole(1)))), VALUES[[1, 5]])
    assert read(packed(tensor(numbers(), numbers(), whole(7)))) == 7
    # Of an axis with one element the step is never taken.
    np.testing.assert_array_equal(read(packed(tensor(numbers(1, 2), numbers(1 << 100, 1)))), VALUES[:2][None])
    assert read(packed(tensor(numbers(0, 5), numbers(5, 1)))).shape == (0, 5)


NO_VALUES = tensor(numbers(5, 0), numbers(1, 1))
FORGED = {
    # What is in the place of the storage's values has another length than it says.
    "attributes for a storage": (
        storage() + b"q\x01}" + text("values") + NO_VALUES + b"sb0" + tensor(numbers(5), numbers(1), of=b"h\x01"),
        r"byte \d+ of the pickle: expected an object that may have attributes, got _Storage",
    ),
    "attributes for a function": (TENSOR + b"}" + text("__defaults__") + b")sb", "may have attributes, got Name"),
    "attributes for a tensor": (tensor(numbers(2), numbers(1)) + b"}b", "may have attributes, got ndarray"),
    "attributes for a text": (text("a") + b"}b", "may have attributes, got str"),
    "tensors as sizes, whose product wraps around": (
        tensor(*(tensor(numbers(1), numbers(1), whole(i), storage("1", LONGS)) for i in (0, 1))),
        "expected whole numbers and tuples of them as offset, size and stride of a tensor",
    ),
    "a tensor as the offset": (
        tensor(
            numbers(1),
            numbers(1),
            offset=tensor(numbers(), numbers(), of=storage("1", LONGS)),
        ),
        "expected whole numbers and tuples",
    ),
    "lists as sizes": (tensor(b"](" + whole(2) + b"e", numbers(1)), "expected whole numbers and tuples"),
    "truths as sizes": (tensor(b"\x88\x85", numbers(1)), "expected whole numbers and tuples"),
    "reals as strides": (tensor(numbers(2), b"G?\xf0\0\0\0\0\0\0\x85"), "expected whole numbers and tuples"),
    "more strides than sizes": (tensor(numbers(2), numbers(1, 1)), r"strides \[1, 1\] do not fit .* shape \[2\]"),
    "a negative offset": (tensor(numbers(2), numbers(1), whole(-1)), "a tensor of shape"),
    "a negative stride": (tensor(numbers(2), numbers(-1), whole(4)), r"the strides \[-1\] do not fit"),
    "a negative size": (tensor(numbers(-2), numbers(1)), r"shape \[-2\]"),
    "more axes than there are": (tensor(numbers(*[1] * 40), numbers(*[1] * 40)), r"shape \[1, "),
    "one element too far": (tensor(numbers(4), numbers(2), whole(2)), r"a tensor of shape \[4\], got 8 values"),
    "a product that wraps around": (
        tensor(numbers(1 << 32, 1 << 32), numbers(1 << 32, 1 << 32)),
        r"a tensor of shape \[4294967296, 4294967296\], got 8 values",
    ),
    "one element many times": (tensor(numbers(10**9), numbers(0)), r"a tensor of shape \[1000000000\], got 8 values"),
    "no elements of many": (tensor(numbers(0, 1 << 62, 1 << 62), numbers(1, 1, 1)), "expected a file of torch.save"),
    "three arguments": (TENSOR + b"(" + storage() + whole(0) + numbers(1) + b"tR", "size and stride of a tensor"),
    "a storage that is missing": (storage("9"), "expected a/data/9 in the archive, got none"),
    "a storage above the folder": (storage("../data.pkl"), "expected a/data/../data.pkl in the archive, got none"),
    "a storage that is no text": (
        b"(" + text("storage") + b"ctorch\nFloatStorage\n" + whole(0) + b"tQ",
        "the place of a storage",
    ),
    "a place that is no tuple": (text("storage") + b"Q", "expected the place of a storage"),
    "a far place in the memo": (b"Nr\0\0\0\x10", r"expected a place in the memo below \d+, got 268435456"),
    "an empty place in the memo": (b"h\5", "expected a place in the memo that was filled, got 5"),
    "a long number": (b"\x8b" + struct.pack("<i", 1 << 20) + bytes(1 << 20), "at most 64 bytes, got 1048576"),
    "a number of less than nothing": (b"\x8b" + struct.pack("<i", -1), "an integer of at most 64 bytes, got -1"),
    "a text of exabytes": (b"\x8d" + struct.pack("<Q", 1 << 62), "expected 4611686018427387904 more bytes, got"),
    "bytes of exabytes": (b"\x8e" + struct.pack("<Q", 1 << 62), "expected 4611686018427387904 more bytes, got"),
    "room for exabytes": (b"\x96" + struct.pack("<Q", 1 << 62), "expected 4611686018427387904 more bytes, got"),
    "a frame of exabytes": (b"\x95" + struct.pack("<Q", 1 << 62), "a frame of 4611686018427387904 bytes"),
    "a name without an end": (b"cos", "expected a line, got the end"),
    "a name of numbers": (b"K\1K\1\x93", "expected names of a module and an object, got int and int"),
    "a text that is none": (b"X\1\0\0\0\xff", "expected text in UTF-8"),
    "a call of a text": (text("a") + b")R", "expected the name of a type or function to call, got str"),
    "a call with a list": (TENSOR + b"]R", "expected a tuple of arguments, got list"),
    "an extension of pickle": (b"\x82\1", "unsupported operation"),
    "a buffer from elsewhere": (b"\x97", "unsupported operation"),
    "an instance by name": (b"(ios\nsystem\n", "unsupported operation"),
    "a place of a storage as text": (b"P1\n", "unsupported operation"),
    "a number as text": (b"I" + b"9" * 5000 + b"\n", "unsupported operation"),
    "protocol 0": (b"\x80\0", "expected protocol 2 to 5, got 0"),
    "an empty stack": (b"0", "expected an object on the stack, got none"),
    "no mark": (b"t", "expected a mark on the stack, got none"),
    "items of a number": (b"K\1(K\1K\1u", "expected a dictionary to set items of, got int"),
    "items of a tensor": (tensor(numbers(2), numbers(1)) + b"K\0K\1s", "to set items of, got ndarray"),
    "a key without a value": (b"}(K\1u", "expected pairs of keys and values, got 1 objects"),
    "more for a tensor": (tensor(numbers(2), numbers(1)) + b"K\1a", "expected a list to append to, got ndarray"),
    "a set of a list": (b"](K\1\x90", "expected a set to add to, got list"),
}  # fmt: skip


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("case", FORGED)
def test_forged_pickles(case):
    pickled, message = FORGED[case]
    with pytest.raises(FormatError, match=rf"^w\.pt: .*{message}"):
        read(packed(pickled, [VALUES.tobytes(), np.array([2**33 + 1, 2**31], np.int64).tobytes()]))


def test_every_operation_gives_data_or_is_refused():
    for code in range(256):
        for before in (b"", b"N", b"NN", b"}", b"](", b"(K\1", TENSOR + b")", storage() + b"}", b"cos\nsystem\n("):
            for after in (b"", b"\0", b"os\nsystem\n", b"\xff" * 8):
                try:
                    read(packed(before + bytes([code]) + after))
                except FormatError as error:
                    assert str(error).startswith("w.pt: ")


def test_what_a_pickle_names_is_not_changed_for_others():
    """Attributes for a function or a type are the process's, if there is a function."""
    kind = b"ctorch\nFloatStorage\n"
    for name, attribute in (
        (TENSOR, "__defaults__"),
        (PARAMETER, "__code__"),
        (kind, "kind"),
        (b"carray\narray\n", "a"),
    ):
        with pytest.raises(FormatError, match="may have attributes, got Name"):
            read(packed(name + b"N}" + text(attribute) + b"Ns\x86b"))
    test_what_the_forgeries_are_made_of_is_read()


def test_objects_of_other_types_hold_nothing():
    found = read(packed(b"(" + b"cos\nsystem\n" + text("false") + b"\x85R" + b"carray\narray\n" + b")\x81}b" + b"t"))
    assert found == (DROPPED, DROPPED)
    assert "system" not in repr(found)


@pytest.mark.usefixtures("little_memory")
def test_keys_that_cannot_be_hashed_harmlessly_are_left_out():
    """A tuple of tuples of tuples ... ends the process that hashes it, and large numbers are made to collide."""
    deep = b")" + b"\x85" * 300_000
    found = read(packed(b"}" + deep + b"K\1s" + whole(1 << 40) + b"K\2s" + text("a") + b"K\3s" + b"K\4K\5s]K\6s"))
    assert found == {"a": 3, 4: 5}


@pytest.mark.usefixtures("little_memory")
def test_storages_that_are_packed_small():
    for packing in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2):
        content = packed(tensor(numbers(2), numbers(1)), [100], packing)
        assert len(content) < 1 << 20
        with pytest.raises(
            FormatError, match=r"w.pt: .*(expected at most 33,554,432 bytes of content|is stored or defl)"
        ):
            read(content)
    content = packed(tensor(numbers(2), numbers(1)), [70], zipfile.ZIP_DEFLATED)
    with pytest.raises(FormatError, match=r"of content from a file of \d+.* bytes, got more; .* raise max_bytes"):
        read(content)
    assert read(content, max_bytes="80MiB").tolist() == [0, 0]
    with pytest.raises(FormatError, match="expected at most 100 bytes of content"):
        read(packed(tensor(numbers(2), numbers(1))), max_bytes=100)


@pytest.mark.usefixtures("little_memory")
def test_a_member_that_says_that_it_is_small():
    content = packed(tensor(numbers(2), numbers(1)), [1024], zipfile.ZIP_DEFLATED)
    for header, field in ((b"PK\1\2", 24), (b"PK\3\4", 22)):
        at = content.rindex(header) + field
        assert content[at : at + 4] == struct.pack("<I", 1 << 30)
        content = content[:at] + struct.pack("<I", 8) + content[at + 4 :]
    with pytest.raises(FormatError, match=r"w.pt: .*BadZipFile: Bad CRC"):
        read(content)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("size", [1 << 26, 0xFFFFFFFE])
def test_a_member_that_says_that_it_is_large(size):
    content = packed(tensor(numbers(2), numbers(1)))
    where = content.index(b"PK\1\2", content.index(b"PK\1\2") + 1)
    content = content[: where + 20] + struct.pack("<II", size, 32) + content[where + 28 :]
    with pytest.raises(FormatError, match=rf"w.pt: .*a/data/0: expected at most \d+ bytes in the archive, got {size}"):
        read(content)


@pytest.mark.usefixtures("little_memory")
def test_many_tensors_of_one_storage():
    """Views of the same bytes cost nothing, until a reader wants each of them for itself."""
    big = np.zeros(1 << 18, np.float32)
    many = (
        b"("
        + storage()
        + b"q\x010"
        + b"".join(tensor(numbers(1 << 18), numbers(1), of=b"h\x01") for _ in range(600))
        + b"t"
    )
    with pytest.raises(FormatError, match=r"w.pt: .*expected at most \d+,\d+,\d+ bytes of tensors"):
        read(packed(many, [big.tobytes()]))
    found = read(packed(many, [big.tobytes()]), max_bytes="1GiB")
    assert len(found) == 600 and len({array.ctypes.data for array in found}) == 1
    assert not found[0].flags.writeable


@pytest.mark.usefixtures("little_memory")
def test_one_storage_as_many_types():
    kinds = ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool")
    parts = [tensor(numbers(1), numbers(1), of=storage(kind=f"ctorch\n{kind}Storage\n".encode())) for kind in kinds]
    found = read(packed(b"(" + b"".join(parts) + b"t", [b"\x80\x3f" * 8]))
    assert found[3] == 1.0 and found[3].dtype == np.float32
    assert found[9].dtype == bool and found[9][0]
    other = read(packed(storage(kind=b"ctorch\nUntypedStorage\n")))
    assert other is DROPPED
