"""Log-probs that lie on a GPU already: the one place where a foreign device array becomes an address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from arcbeam._dlpack import Import
from arcbeam.log_probs import Utterances, check_shape, one_width, table_of, table_of_batch

_VALUE_BYTES = {"float32": 4, "float16": 2}
_CUDA, _CUDA_HOST, _CUDA_MANAGED = 2, 3, 13  # DLPack's device types
_TYPESTRS = {"<f4": "float32", "<f2": "float16", "=f4": "float32", "=f2": "float16"}


@dataclass(frozen=True)
class DeviceArray:
    """An array on a GPU, alive and unchanged by us as long as this object.

    Attributes
    ----------
    address : int
        Of the first value.
    shape, strides : tuple of int
        Strides in values.
    dtype : str
        ``"float32"`` or ``"float16"``.
    device : int
        The GPU's number.
    owner : object
        What keeps the memory.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: int
    owner: Any

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]


def is_on_device(log_probs: Any) -> bool:
    """Whether a batch, or the first of a list of utterances, lies on a GPU."""
    first = log_probs[0] if isinstance(log_probs, (list, tuple)) and log_probs else log_probs
    return _device_of(first) is not None


def as_device_utterances(
    log_probs: Any,
    lengths: Any = None,
    *,
    columns: int,
    exact: bool,
    reader: Any,
    stream: Any = None,
    name: str = "log_probs",
    axis: str = "columns",
    values: str = "log-probs",
) -> Utterances:
    """Checks a batch on a GPU and describes it by addresses, without a copy and without waiting for it.

    Parameters
    ----------
    log_probs : array [batch, frames, columns], or sequence of arrays [frames, columns]
        float32 or float16 of torch, CuPy, JAX or anything with DLPack or ``__cuda_array_interface__``. The values of a
        frame must lie together.
    lengths, columns, exact, name, axis, values
        As for :func:`arcbeam.log_probs.as_utterances`.
    reader : arcbeam._cuda_launch.Stream
        The stream that will read; what it does later waits for the arrays' producers.
    stream : int, or a stream of torch, CuPy or cuda.core; optional
        Where the arrays are being written. By default each producer is asked.

    Raises
    ------
    TypeError
        A type other than float32 or float16, something that is not an array, an array of another device.
    ValueError
        Wrong number of dimensions or columns, values of a frame that lie apart, lengths out of range.
    """
    if stream is not None:
        reader.wait_for_stream(stream_address(stream))
    ask = stream is None
    if not isinstance(log_probs, (list, tuple)):
        batch = import_array(log_probs, name, reader, ask, values)
        check_shape(batch, name, ("batch", "frames", axis), columns, exact)
        _check_values_together(batch, name)
        steps = (batch.strides[0] * _VALUE_BYTES[batch.dtype], batch.strides[1])
        table = table_of_batch(batch.address, batch.shape, steps, batch.dtype == "float16", lengths)
        return Utterances(table, batch.shape[2], batch)
    arrays = [import_array(item, f"{name}[{i}]", reader, ask, values) for i, item in enumerate(log_probs)]
    for i, array in enumerate(arrays):
        check_shape(array, f"{name}[{i}]", ("frames", axis), columns, exact)
        _check_values_together(array, f"{name}[{i}]")
    rows = [(array.address, array.strides[0], array.shape[0], array.dtype == "float16") for array in arrays]
    return Utterances(table_of(rows, lengths), one_width(arrays, columns), arrays)


def _check_values_together(array: DeviceArray, name: str) -> None:
    if 0 not in array.shape and array.shape[-1] > 1 and array.strides[-1] != 1:
        raise ValueError(
            f"{name}: expected the values of a frame side by side, got a stride of {array.strides[-1]}; make the "
            "array contiguous first"
        )


def import_array(
    item: Any, name: str, reader: Any, ask_producer: bool = True, values: str = "log-probs"
) -> DeviceArray:
    """Takes one array over; with `ask_producer`, work of the stream `reader` from now on waits for its producer."""
    wanted = reader.context.ordinal
    got = _device_of(item)
    if got is None:
        raise TypeError(f"{name}: expected an array on cuda:{wanted}, got {_kind_of(item)}")
    if got not in (wanted, _ANY):
        raise TypeError(f"{name}: expected an array on cuda:{wanted}, where the decoder is, got one on cuda:{got}")
    if getattr(item, "requires_grad", False):
        item = item.detach()
    if hasattr(item, "__dlpack__"):
        return _by_dlpack(item, name, reader, ask_producer, values)
    return _by_interface(item, name, reader, ask_producer, values)


def _by_dlpack(item: Any, name: str, reader: Any, ask_producer: bool, values: str) -> DeviceArray:
    # The producer makes the stream that it is told wait for its own; -1 is none.
    stream = reader.address if ask_producer else -1
    try:
        capsule = item.__dlpack__(stream=stream, max_version=(1, 0))
    except TypeError:  # a producer from before version 1
        capsule = item.__dlpack__(stream=stream)
    taken = Import(capsule)
    if taken.dtype not in _VALUE_BYTES:
        raise TypeError(f"{name}: expected float32 or float16 {values}, got {taken.dtype}")
    return DeviceArray(taken.address, taken.shape, taken.strides, taken.dtype, reader.context.ordinal, taken)


def _by_interface(item: Any, name: str, reader: Any, ask_producer: bool, values: str) -> DeviceArray:
    said = item.__cuda_array_interface__
    dtype = _TYPESTRS.get(said["typestr"])
    if dtype is None:
        raise TypeError(f"{name}: expected float32 or float16 {values}, got {said['typestr']}")
    if said.get("mask") is not None:
        raise TypeError(f"{name}: expected an array without a mask")
    shape = tuple(said["shape"])
    size = _VALUE_BYTES[dtype]
    steps = said.get("strides")
    if steps is None:
        steps = [size * int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
    if any(step % size for step in steps):
        raise ValueError(f"{name}: expected strides of whole values, got {tuple(steps)} bytes for {dtype}")
    if ask_producer and said.get("stream") is not None:
        reader.wait_for_stream(stream_address(said["stream"]))
    strides = tuple(step // size for step in steps)
    return DeviceArray(said["data"][0], shape, strides, dtype, reader.context.ordinal, item)


def stream_address(stream: Any) -> int:
    """The driver's handle of a stream: given as that number, or a stream of torch, CuPy or cuda.core."""
    for attribute in ("cuda_stream", "ptr"):
        stream = getattr(stream, attribute, stream)
    if hasattr(stream, "__cuda_stream__"):
        pair = stream.__cuda_stream__
        stream = (pair() if callable(pair) else pair)[1]
    if isinstance(stream, bool) or not isinstance(stream, int) or stream < 0:
        raise TypeError(f"stream: expected a CUDA stream or its handle, got {type(stream).__name__} {stream!r}")
    return stream or 1  # 0 is the legacy default stream, whose handle is 1


_ANY = -1  # memory that every GPU reads


def _device_of(item: Any) -> int | None:
    """The GPU an array is on, _ANY where that does not matter, None for what is not on a GPU."""
    if hasattr(item, "__dlpack_device__"):
        kind, number = (int(part) for part in item.__dlpack_device__())
        if kind == _CUDA:
            return number
        return _ANY if kind == _CUDA_MANAGED else None
    return _ANY if hasattr(item, "__cuda_array_interface__") else None


def _kind_of(item: Any) -> str:
    if hasattr(item, "__dlpack_device__"):
        kind = int(item.__dlpack_device__()[0])
        return "one in CPU memory" if kind in (1, _CUDA_HOST) else f"one of DLPack device type {kind}"
    return "one in CPU memory" if isinstance(item, np.ndarray) else type(item).__name__
