"""The weights of a transducer from a file of ``torch.save`` or safetensors; the file's first bytes say which."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from arcbeam.core.errors import FormatError
from arcbeam.core.packages import require
from arcbeam.files.reading import Budget, check_is_file, reading
from arcbeam.files.torch_file import read_torch_file
from arcbeam.transducer.network import LstmPrediction, StatelessPrediction

SAFETENSORS: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),  # numpy has none; float32 holds each of them exactly
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U8": np.dtype("u1"),
}
HEADER_BYTES = 8
TABLES = "tables of the prediction network"


@dataclass(frozen=True)
class Source:
    """The source of weights; messages call it `name`."""

    name: str
    budget: Budget | None = None  # of what a file may unpack to

    @property
    def error(self) -> type[ValueError]:
        """The kind of error for content that does not fit."""
        return ValueError if self.budget is None else FormatError

    def take_tensors(self, weights: Any, prefixes: tuple[str, ...]) -> dict[str, Any]:
        """The entries of a state dict whose names begin so; from a file, only tensors can be among them."""
        if not isinstance(weights, Mapping):
            raise FormatError(f"{self.name}: expected a state dict, got {type(weights).__name__}")
        found = {key: value for key, value in weights.items() if isinstance(key, str) and key.startswith(prefixes)}
        if self.budget is not None:
            for key, value in found.items():
                if not isinstance(value, np.ndarray):
                    raise FormatError(f"{self.name}: {key}: expected a tensor, got {type(value).__name__}")
        return found

    def check_bytes(self, count: int, what: str) -> None:
        """FormatError if the file may not take this many bytes."""
        if self.budget is not None:
            Budget(self.name, self.budget.size, self.budget.most).take(count, what)

    def check_tables(self, prediction: LstmPrediction | StatelessPrediction) -> None:
        """FormatError if a file's weights are small, but the tables that decoding makes of them would be huge."""
        # Whatever depends on a token alone is tabulated: 4 gates for each unit of an LSTM, or every place of a context.
        places = 4 if isinstance(prediction, LstmPrediction) else prediction.context
        self.check_bytes(4 * places * prediction.units * prediction.tokens, TABLES)


def file_source(path: str | os.PathLike[str], max_bytes: int | str | None) -> Source:
    """A file as the source of weights; OSError if it is not a file."""
    check_is_file(path)
    return Source(os.fsdecode(path), Budget(path, os.stat(path).st_size, max_bytes))


def is_safetensors(path: str | os.PathLike[str]) -> bool:
    """Whether the file begins like safetensors: with the size of a JSON object, and its brace."""
    with open(os.fspath(path), "rb") as file:
        head, size = file.read(HEADER_BYTES + 1), os.fstat(file.fileno()).st_size
    return head[HEADER_BYTES:] == b"{" and int.from_bytes(head[:HEADER_BYTES], "little") <= size - HEADER_BYTES


def read_checkpoint(path: str | os.PathLike[str], max_bytes: int | str | None = None) -> Any:
    """The content of a file of ``torch.save`` or safetensors: usually a dictionary of tensors, as numpy arrays."""
    check_is_file(path)
    name = os.fsdecode(path)
    if not is_safetensors(path):
        return read_torch_file(path, name, max_bytes)
    deserialize = _safetensors(name).deserialize
    with open(path, "rb") as file, reading(name, "a safetensors file"):
        return {key: _tensor(key, **fields) for key, fields in deserialize(file.read())}


def names_of_tensors(path: str | os.PathLike[str]) -> list[str]:
    """The names in a safetensors file, whose values are not read; raises the errors of `read_checkpoint`."""
    check_is_file(path)
    safe_open = _safetensors(os.fsdecode(path)).safe_open
    with reading(path, "a safetensors file"), safe_open(os.fspath(path), framework="np") as file:
        return list(file.keys())


def _safetensors(name: str) -> Any:
    return require("safetensors", f"{name}: a safetensors file")


def _tensor(key: str, *, dtype: str, shape: list[int], data: bytes) -> np.ndarray:
    if dtype not in SAFETENSORS:
        raise FormatError(f"{key}: expected values of one of the types {', '.join(SAFETENSORS)}, got {dtype}")
    values = np.frombuffer(data, SAFETENSORS[dtype])
    if dtype == "BF16":
        values = (values.astype(np.uint32) << 16).view(np.float32)
    return values.reshape(shape)
