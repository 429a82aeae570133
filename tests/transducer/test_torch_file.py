"""Files of torch.save, read without torch: every tensor, and nothing else that a pickle may import."""

import contextlib
import io
import pickle
import zipfile
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcbeam import FormatError
from arcbeam.files.torch_file import read_torch_file
from tests.transducer.archives import BFloat16, Parameter, torch_file

WHOLE = np.arange(24, dtype=np.float32).reshape(4, 6)
VALUE = OrderedDict(
    whole=WHOLE,
    part=WHOLE[1:3, 2:],
    turned=WHOLE.T,
    half=np.array([1.5, -2.0], np.float16),
    double=np.array(0.1),
    number=np.array([2**40]),
    empty=np.zeros((0, 3), np.float32),
    brain=BFloat16([1.0, -3.140625, 1e38]),
    parameter=Parameter(WHOLE[0]),
    nested={"a": [1, "two", None, 3.0]},
    unknown=io.StringIO(),
)


def read(content, name="w.ckpt"):
    return read_torch_file(io.BytesIO(content), name)


class Evil:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was obeyed",))


def test_every_kind_of_tensor():
    value = dict(VALUE)
    del value["unknown"]
    found = read(torch_file(value))
    assert list(found) == list(value)
    for name in ("whole", "part", "turned", "half", "double", "number", "empty"):
        assert found[name].dtype == value[name].dtype
        np.testing.assert_array_equal(found[name], value[name])
    bits = np.array([1.0, -3.140625, 1e38], np.float32).view(np.uint32) >> 16 << 16
    np.testing.assert_array_equal(found["brain"], bits.view(np.float32))
    np.testing.assert_array_equal(found["parameter"], WHOLE[0])
    assert found["nested"] == {"a": [1, "two", None, 3.0]}


def test_other_objects_are_made_into_nothing():
    class_of_ours = {"weight": WHOLE, "evil": Evil(), "path": __import__("pathlib").Path("x"), "array": {1, 2}}
    found = read(torch_file(class_of_ours))
    np.testing.assert_array_equal(found["weight"], WHOLE)


def test_what_is_no_such_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_torch_file(str(tmp_path / "none.pt"), "none.pt")
    with pytest.raises(
        FormatError, match=r"w.ckpt: expected a file of torch.save, which is a zip file since torch 1.6"
    ):
        read(b"\x80\x02}q\x00.")
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("a.txt", "a")
    with pytest.raises(FormatError, match=r"w.ckpt: expected data.pkl, .* got a zip file without it"):
        read(other.getvalue())


def rewritten(content, change):
    """The archive with some files' contents changed; to None: left out."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            data = change.get(name, old.read(name))
            if data is not None:
                new.writestr(name, data)
    return out.getvalue()


def test_files_that_lie():
    content = torch_file({"w": WHOLE})
    with pytest.raises(FormatError, match=r"a tensor of shape \[4, 6\], got 23 values"):
        read(rewritten(content, {"archive/data/0": WHOLE.tobytes()[:-4]}))
    with pytest.raises(FormatError, match=r"w.ckpt: .*: expected archive/data/0 in the archive, got none"):
        read(rewritten(content, {"archive/data/0": None}))
    with pytest.raises(FormatError, match=r"w.ckpt: expected values in little-endian order"):
        read(rewritten(content, {"archive/byteorder": b"big"}))
    with pytest.raises(FormatError, match=r"w.ckpt: byte 2 of the pickle: expected a frame of 6 bytes, but 5 are left"):
        read(rewritten(content, {"archive/data.pkl": pickle.dumps([1])[:-1]}))


@given(data=st.data())
def test_damaged_pickles(data):
    """Whatever the bytes: a value or a FormatError."""
    value = dict(VALUE)
    del value["unknown"]
    content = torch_file(value)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        pickled = bytearray(archive.read("archive/data.pkl"))
    for _ in range(data.draw(st.integers(1, 4))):
        pickled[data.draw(st.integers(0, len(pickled) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(FormatError):
        read(rewritten(content, {"archive/data.pkl": bytes(pickled)}))


def test_a_file_of_torch_itself(tmp_path):
    torch = pytest.importorskip("torch", reason="writes the file")
    value = {
        "whole": torch.arange(24.0).reshape(4, 6),
        "turned": torch.arange(24.0).reshape(4, 6).T,
        "brain": torch.tensor([1.0, -3.140625]).bfloat16(),
        "parameter": torch.nn.Parameter(torch.ones(3)),
        "optimizer": {"state": {0: {"step": torch.tensor(3)}}, "lr": 0.1},
    }
    torch.save(value, tmp_path / "w.pt")
    found = read_torch_file(str(tmp_path / "w.pt"), "w.pt")
    for name in ("whole", "turned", "brain", "parameter"):
        np.testing.assert_array_equal(found[name], value[name].detach().float().numpy())
    assert found["optimizer"]["lr"] == 0.1
