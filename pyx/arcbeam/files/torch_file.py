"""Reads the tensors of a file that ``torch.save`` wrote, without torch and without running anything in its pickle."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from arcbeam.core.errors import FormatError
from arcbeam.files.kinds import refuse_other
from arcbeam.files.pickled_data import DROPPED, Name, Reader, Stateful
from arcbeam.files.reading import Budget, reading
from arcbeam.files.zip_file import ZipMembers

# Types of storages: the dtype of their values. float32 holds every bfloat16 exactly; its bits are read as integers.
STORAGES: dict[str, np.dtype[Any]] = {
    "FloatStorage": np.dtype("<f4"),
    "DoubleStorage": np.dtype("<f8"),
    "HalfStorage": np.dtype("<f2"),
    "BFloat16Storage": np.dtype("<u2"),
    "LongStorage": np.dtype("<i8"),
    "IntStorage": np.dtype("<i4"),
    "ShortStorage": np.dtype("<i2"),
    "CharStorage": np.dtype("i1"),
    "ByteStorage": np.dtype("u1"),
    "BoolStorage": np.dtype("u1"),
}
TENSOR = Name("torch._utils", "_rebuild_tensor_v2")
PARAMETER = Name("torch._utils", "_rebuild_parameter")
RAGGED = "RaggedTensor"  # of k2: a tuple of tensors is its state
EXPECTED = (
    "a file of torch.save, which is a zip file since torch 1.6 (load an older one with torch.load and give its state "
    "dict)"
)
MOST_AXES = 16


@dataclass(frozen=True, slots=True, eq=False)
class _Storage:
    values: np.ndarray


def read_torch_file(file: str | os.PathLike[str] | IO[bytes], name: str, max_bytes: int | str | None = None) -> Any:
    """What ``torch.save`` wrote, as data: tensors are read-only numpy arrays; objects of other types are `DROPPED`."""
    if isinstance(file, (str, os.PathLike)):
        refuse_other(file, EXPECTED, "a file of torch.save", "a zip archive")
        with open(os.fspath(file), "rb") as opened:
            return read_torch_file(opened, name, max_bytes)
    size = file.seek(0, os.SEEK_END)
    content, shapes = (Budget(name, size, max_bytes) for _ in range(2))
    with reading(name, EXPECTED), ZipMembers(file, size, content) as members:
        pickled = next((n for n in members.names if n == "data.pkl" or n.endswith("/data.pkl")), None)
        if pickled is None:
            raise FormatError("expected data.pkl, which torch.save writes, got a zip file without it")
        folder = pickled.removesuffix("data.pkl")
        if f"{folder}byteorder" in members and members.read(f"{folder}byteorder") != b"little":
            raise FormatError("expected values in little-endian order")
        tensors = _Tensors(members, folder, shapes)
        return Reader(members.read(pickled), tensors.make, tensors.storage).read()


class _Tensors:
    """Makes tensors and their storages, each of which is read once."""

    def __init__(self, members: ZipMembers, folder: str, budget: Budget) -> None:
        self._members = members
        self._folder = folder
        self._budget = budget
        self._bytes: dict[str, bytes] = {}
        self._storages: dict[tuple[str, str], _Storage] = {}

    def storage(self, place: Any) -> Any:
        """The storage that a pickle's persistent id names: ("storage", type, file, device, number of values)."""
        if type(place) is not tuple or len(place) < 3 or place[0] != "storage" or type(place[2]) is not str:
            raise FormatError("expected the place of a storage")
        kind, key = place[1:3]
        if type(kind) is not Name or kind.module != "torch" or kind.name not in STORAGES:
            return DROPPED
        made = self._storages.get((kind.name, key))
        if made is None:
            made = self._storages[kind.name, key] = _Storage(self._values(kind.name, key))
        return made

    def _values(self, kind: str, key: str) -> np.ndarray:
        if key not in self._bytes:
            self._bytes[key] = self._members.read(f"{self._folder}data/{key}")
        content, dtype = self._bytes[key], STORAGES[kind]
        values = np.frombuffer(content, dtype, count=len(content) // dtype.itemsize)
        if kind == "BFloat16Storage":
            values = (values.astype(np.uint32) << 16).view(np.float32)
        elif kind == "BoolStorage":
            values = values != 0
        values.flags.writeable = False
        return values

    def make(self, name: Name, arguments: tuple[Any, ...]) -> Any:
        """The stand-in for an object that is made by a call: a tensor, a `Stateful`, or `DROPPED`."""
        if name.name == RAGGED and not arguments:
            return Stateful()
        if name == PARAMETER and arguments and isinstance(arguments[0], np.ndarray):
            return arguments[0]
        if name != TENSOR or not arguments or type(arguments[0]) is not _Storage:
            return DROPPED
        if len(arguments) < 4:
            raise FormatError(f"expected storage, offset, size and stride of a tensor, got {len(arguments)} arguments")
        return self._tensor(arguments[0].values, *arguments[1:4])

    def _tensor(self, values: np.ndarray, offset: Any, size: Any, stride: Any) -> np.ndarray:
        for numbers in ((offset,), size, stride):
            if type(numbers) is not tuple or any(type(number) is not int for number in numbers):
                raise FormatError("expected whole numbers and tuples of them as offset, size and stride of a tensor")
        if len(size) != len(stride) or len(size) > MOST_AXES or min((offset, *size, *stride)) < 0:
            raise FormatError(f"the strides {_shown(stride)} do not fit a tensor of shape {_shown(size)}")
        count = math.prod(size)
        if count == 0:
            return np.zeros(size, values.dtype)
        # A step along an axis of one element is never taken, and may be anything.
        steps = [step if n > 1 else 0 for n, step in zip(size, stride, strict=True)]
        last = offset + sum((n - 1) * step for n, step in zip(size, steps, strict=True))
        # Steps of 0 make many elements of one; no network has such weights, and their copies would be large.
        if last >= len(values) or count > len(values):
            raise FormatError(f"expected a storage for a tensor of shape {_shown(size)}, got {len(values)} values")
        self._budget.take(count * values.itemsize, "tensors")
        return np.lib.stride_tricks.as_strided(
            values[offset:], size, [step * values.itemsize for step in steps], writeable=False
        )


def _shown(numbers: tuple[int, ...]) -> str:
    return f"[{', '.join(str(n) if abs(n) < 1 << 64 else '...' for n in numbers[:MOST_AXES])}]"
