"""Reads the tensors of a file that ``torch.save`` wrote, without torch and without running what a pickle asks for."""

from __future__ import annotations

import pickle
import zipfile
from collections import OrderedDict
from typing import IO, Any

import numpy as np

from arcbeam.errors import FormatError

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
    "BoolStorage": np.dtype("?"),
}


class _Anything:
    """Stands for an object of a type that is not read: made from anything, and holds nothing."""

    def __new__(cls, *_: Any, **__: Any) -> _Anything:
        return super().__new__(cls)

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __call__(self, *_: Any, **__: Any) -> _Anything:
        return self

    def __setstate__(self, _: Any) -> None:
        pass

    def __setitem__(self, *_: Any) -> None:
        pass

    def append(self, _: Any) -> None:
        pass

    def extend(self, _: Any) -> None:
        pass


class _Storage:
    def __init__(self, kind: str, values: np.ndarray) -> None:
        self.kind = kind
        self.values = values


class _Unpickler(pickle.Unpickler):
    """Knows dictionaries, numbers, strings and tensors; everything else becomes :class:`_Anything`."""

    def __init__(self, file: IO[bytes], archive: zipfile.ZipFile, folder: str) -> None:
        super().__init__(file, encoding="utf-8")
        self._archive = archive
        self._folder = folder

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda tensor, *_: tensor
        if module == "torch" and name in STORAGES:
            return type(name, (), {"kind": name})
        return _Anything

    def persistent_load(self, pid: Any) -> Any:
        what, storage, key, *_ = pid
        if what != "storage" or not hasattr(storage, "kind"):
            return _Anything()
        values = self._archive.read(f"{self._folder}data/{key}")
        dtype = STORAGES[storage.kind]
        return _Storage(storage.kind, np.frombuffer(values, dtype, count=len(values) // dtype.itemsize))


def _tensor(storage: Any, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any) -> Any:
    if not isinstance(storage, _Storage):
        return _Anything()
    values = storage.values
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if 0 in size:
        last = offset - 1
    if min((offset, *size, *stride)) < 0 or last >= len(values):
        raise pickle.UnpicklingError(f"a tensor of shape {list(size)} in a storage of {len(values)} values")
    view = np.lib.stride_tricks.as_strided(
        values[offset:], size, [step * values.itemsize for step in stride], writeable=False
    )
    if storage.kind == "BFloat16Storage":
        return (view.astype(np.uint32) << 16).view(np.float32)
    return np.array(view)


def read_torch_file(file: str | IO[bytes], name: str) -> Any:
    """What ``torch.save`` wrote: dictionaries, numbers and strings as they are, tensors as numpy arrays.

    Parameters
    ----------
    file : path, or file object that can seek
    name : str
        What messages call it.

    Raises
    ------
    FormatError
        Not such a file, a damaged one, or one of torch before 1.6.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            pickled = next((n for n in names if n == "data.pkl" or n.endswith("/data.pkl")), None)
            if pickled is None:
                raise FormatError(f"{name}: a zip file without data.pkl was not written by torch.save")
            folder = pickled.removesuffix("data.pkl")
            if f"{folder}byteorder" in names and archive.read(f"{folder}byteorder") != b"little":
                raise FormatError(f"{name}: expected values in little-endian order")
            with archive.open(pickled) as data:
                return _Unpickler(data, archive, folder).load()
    except zipfile.BadZipFile as error:
        raise FormatError(
            f"{name}: expected a file of torch.save, which is a zip file since torch 1.6 ({error}); load an older one "
            f"with torch.load and give its state dict"
        ) from None
    except FormatError:
        raise
    except (OSError, MemoryError):
        raise
    except Exception as error:  # a damaged pickle may raise anything
        raise FormatError(f"{name}: damaged, or not a file of torch.save ({type(error).__name__}: {error})") from None
