"""Log-probs that are on a GPU already: the only place where a foreign device array becomes an address."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from operator import index as whole
from typing import Any

import numpy as np

from arcbeam.arrays._array_memory import DeviceMemory
from arcbeam.arrays._dlpack import Import
from arcbeam.arrays._plain_rows import plain_batch, plain_rows
from arcbeam.arrays.batches import Inputs, InputSpec, check_shape, one_width, rounded, table_of, table_of_batch
from arcbeam.core.errors import CudaError

_VALUE_BYTES = {"float32": 4, "float16": 2}
_CUDA, _CUDA_HOST, _CUDA_MANAGED = 2, 3, 13  # DLPack's device types
_INVALID_HANDLE, _INVALID_CONTEXT = 400, 201  # what the driver says to a stream of another device
_NAMED, _CURRENT = "stream in __cuda_array_interface__", "the current stream of its library"
_TYPESTRS = {"<f4": "float32", "<f2": "float16", "=f4": "float32", "=f2": "float16"}


@dataclass(frozen=True)
class DeviceArray:
    """An array on a GPU, which stays alive, and unchanged by us, as long as this object."""

    address: int  # of the first value
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in values
    dtype: str  # "float32" or "float16"
    device: int  # the GPU's number
    owner: Any  # keeps the memory alive

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


def as_device_inputs(log_probs: Any, lengths: Any, spec: InputSpec, *, reader: Any, cuda_stream: Any = None) -> Inputs:
    """Checks a batch on a GPU and describes it by addresses, without a copy and without waiting for it."""
    # `reader`, the stream that will read, waits later for the producers: for `cuda_stream`, or the one that each
    # reports.
    refuse_capture(reader)
    columns, exact = spec.columns, spec.exact
    name, axis, values = spec.name, spec.axis, spec.values
    if cuda_stream is not None:
        handle = stream_address(cuda_stream)
        _check_device_of(cuda_stream, reader.context.ordinal)
        _wait_for(reader, handle, "cuda_stream")
    ordered = cuda_stream is None
    producers = _Producers(name, reader, ordered, values)
    if not isinstance(log_probs, (list, tuple)):
        with reader.context:
            plain = plain_batch(log_probs, columns, exact, producers.memory)
            if plain is not None:
                producers.add_of_batch(plain[2])
            else:
                address, shape, strides, dtype, owner = producers.take(log_probs)
            producers.finish()
        if plain is not None:
            reader.refuse_capture()
            return Inputs(table_of(plain[0], lengths), plain[1], log_probs, reader)
        check_shape(shape, name, ("batch", "frames", axis), columns, exact)
        _check_values_together(shape, strides, name)
        reader.refuse_capture()
        steps = (strides[0] * _VALUE_BYTES[dtype], strides[1])
        table = table_of_batch(address, shape, steps, dtype == "float16", lengths)
        return Inputs(table, shape[2], owner, reader)

    def take(item: Any, i: int) -> tuple[int, int, int, bool, int, Any]:
        address, shape, strides, dtype, owner = producers.take(item, i)
        if len(shape) != 2 or shape[1] != columns or shape[0] >= 2**31:
            check_shape(shape, f"{name}[{i}]", ("frames", axis), columns, exact)
        if strides[1] != 1:
            _check_values_together(shape, strides, f"{name}[{i}]")
        return address, strides[0], shape[0], dtype == "float16", shape[1], owner

    with reader.context:
        table, owners, widths, streams = plain_rows(log_probs, columns, exact, take, producers.memory)
        producers.add(streams)
        producers.finish()
    reader.refuse_capture()
    return Inputs(table_of(table, lengths), one_width(widths, columns), owners, reader)


def device_width(item: Any, name: str, spec: InputSpec, reader: Any) -> int:
    """The columns of one array of a list, checked as `as_device_inputs` checks it."""
    array = import_array(item, name, reader, False, spec.values)
    check_shape(array.shape, name, ("frames", spec.axis), spec.columns, spec.exact)
    _check_values_together(array.shape, array.strides, name)
    return array.shape[1]


def refuse_capture(reader: Any) -> None:
    """CudaError while this thread captures a CUDA graph with torch or CuPy."""
    # The decoder's calls of the driver would spoil the capture, or become a part of it that never runs. Producers are
    # called only after this check, because they would pull `reader` into the capture.
    ordinal = reader.context.ordinal
    torch = getattr(sys.modules.get("torch"), "cuda", None)
    if torch is not None and torch.is_initialized():
        reader.refuse_capture(torch.current_stream(ordinal).cuda_stream or 1)
    cupy = getattr(sys.modules.get("cupy"), "cuda", None)
    if cupy is not None:
        reader.refuse_capture(cupy.get_current_stream(ordinal).ptr or 1)


def _check_values_together(shape: tuple[int, ...], strides: tuple[int, ...], name: str) -> None:
    if 0 not in shape and shape[-1] > 1 and strides[-1] != 1:
        raise ValueError(
            f"{name}: expected the values of a frame side by side, got a stride of {strides[-1]}; make the "
            "array contiguous first"
        )


def import_array(item: Any, name: str, reader: Any, ordered: bool = True, values: str = "log-probs") -> DeviceArray:
    """Takes one array over; with `ordered`, later work of the stream `reader` waits for its producer."""
    producers = _Producers(name, reader, ordered, values)
    with reader.context:
        address, shape, strides, dtype, owner = producers.take(item)
        producers.finish()
    return DeviceArray(address, shape, strides, dtype, reader.context.ordinal, owner)


_Taken = tuple[int, tuple[int, ...], tuple[int, ...], str, Any]  # address, shape, strides in values, dtype, owner


class _Producers:
    """Takes over a batch's arrays and makes `reader`, whose context must be current, wait once for each producer."""

    def __init__(self, name: str, reader: Any, ordered: bool, values: str) -> None:
        self.name, self.values = name, values  # what messages call the batch, and what is in it
        self.reader, self.ordered, self.ordinal = reader, ordered, reader.context.ordinal
        self.memory = DeviceMemory(reader.context)
        self.stream = reader.address if ordered else -1  # a producer makes it wait for the producer's own; -1: none
        self.streams: dict[int, str] = {}  # that the reader has to wait for, and what messages call them
        self.ordered_kind: type | None = None
        self.old: type | None = None

    def name_of(self, index: int | None) -> str:
        return self.name if index is None else f"{self.name}[{index}]"

    def take(self, item: Any, index: int | None = None) -> _Taken:
        """Takes one array over, and checks that kernels can read all of it; `index` is its place in a list."""
        taken = self.unchecked(item, index)
        address, shape, strides, dtype, _ = taken
        wrong = self.memory.why_not(address, shape, strides, _VALUE_BYTES[dtype])
        if wrong is not None:
            raise ValueError(f"{self.name_of(index)}: expected {wrong[0]}, got {wrong[1]}")
        return taken

    def unchecked(self, item: Any, index: int | None) -> _Taken:
        """The array as its maker describes it."""
        location = getattr(item, "__dlpack_device__", None)
        if location is None:
            interface = getattr(item, "__cuda_array_interface__", None)
            if interface is not None:
                return self.by_interface(item, interface, index)
        else:
            kind, number = location()
            kind = int(kind)
            if (kind == _CUDA and int(number) == self.ordinal) or kind == _CUDA_MANAGED:
                return self.by_dlpack(item, index)
            if kind == _CUDA:
                raise TypeError(
                    f"{self.name_of(index)}: expected an array on cuda:{self.ordinal}, where the decoder is, "
                    f"got one on cuda:{int(number)}"
                )
        raise TypeError(f"{self.name_of(index)}: expected an array on cuda:{self.ordinal}, got {_kind_of(item)}")

    def by_dlpack(self, item: Any, index: int | None) -> _Taken:
        if getattr(item, "requires_grad", False):
            item = item.detach()
        if self.ordered:  # by the library's own stream, for which the reader then waits
            item = rounded(item)
        kind = type(item)
        stream = -1 if kind is self.ordered_kind else self.stream
        if kind is self.old:
            taken = Import(item.__dlpack__(stream=stream))
        else:
            try:
                taken = Import(item.__dlpack__(stream=stream, max_version=(1, 0)))
            except TypeError:  # a producer from before version 1
                taken = Import(item.__dlpack__(stream=stream))
                self.old = kind
        # Tensors of torch do not record which stream writes them: each makes our stream wait for torch's current one.
        if kind.__module__ == "torch" and kind.__name__ == "Tensor":
            self.ordered_kind = kind
        dtype = taken.dtype
        if dtype not in _VALUE_BYTES:
            raise TypeError(f"{self.name_of(index)}: expected float32 or float16 {self.values}, got {dtype}")
        return taken.address, taken.shape, taken.strides, dtype, taken

    def by_interface(self, item: Any, interface: Any, index: int | None) -> _Taken:
        try:
            dtype, address = _TYPESTRS.get(interface["typestr"]), whole(interface["data"][0] or 0)
            shape, steps = tuple([whole(n) for n in interface["shape"]]), interface.get("strides")
            steps = steps if steps is None else tuple([whole(n) for n in steps])
        except (AttributeError, KeyError, IndexError, TypeError) as error:
            raise TypeError(
                f"{self.name_of(index)}: expected whole numbers for data[0], shape and strides, and a typestr, in "
                f"__cuda_array_interface__, got {interface!r}"
            ) from error
        if dtype is None:
            raise TypeError(
                f"{self.name_of(index)}: expected float32 or float16 {self.values}, got {interface['typestr']}"
            )
        if interface.get("mask") is not None:
            raise TypeError(f"{self.name_of(index)}: expected an array without a mask")
        if steps is None:
            strides = _row_major(shape)
        else:
            size = _VALUE_BYTES[dtype]
            if len(steps) != len(shape):
                raise ValueError(
                    f"{self.name_of(index)}: expected a stride for each dimension of {shape}, got strides {steps}"
                )
            if any(step % size for step in steps):
                raise ValueError(
                    f"{self.name_of(index)}: expected strides of whole values, got {steps} bytes for {dtype}"
                )
            strides = tuple([step // size for step in steps])
        stream = interface.get("stream")
        if stream is not None and self.ordered:
            handle = stream if type(stream) is int and stream > 0 else stream_address(stream, "stream")
            self.streams.setdefault(handle, f"{self.name_of(index)}: {_NAMED}")
        return address, shape, strides, dtype, item

    def add(self, streams: dict[int, int | None]) -> None:
        """Adds the streams of `plain_rows`, which a given stream replaces, too."""
        for stream, index in streams.items() if self.ordered else ():
            said = f"{self.name}: {_CURRENT}" if index is None else f"{self.name_of(index)}: {_NAMED}"
            self.streams.setdefault(stream, said)

    def add_of_batch(self, streams: dict[int, bool | None]) -> None:
        """Adds the streams of `plain_batch`, likewise."""
        for stream, is_named in streams.items() if self.ordered else ():
            self.streams.setdefault(stream, f"{self.name}: {_NAMED if is_named else _CURRENT}")

    def finish(self) -> None:
        """Makes the reader wait for the streams of the arrays."""
        for stream, said in self.streams.items():
            _wait_for(self.reader, stream, said)


def _wait_for(reader: Any, stream: int, name: str) -> None:
    try:
        reader.wait_for_stream(stream)
    except CudaError as error:
        if error.code not in (_INVALID_HANDLE, _INVALID_CONTEXT):
            raise
        raise ValueError(
            f"{name}: expected a stream of cuda:{reader.context.ordinal}, where the decoder is, got the handle "
            f"{stream:#x}, which is no stream there ({error.name})"
        ) from error


def _check_device_of(stream: Any, ordinal: int) -> None:
    """ValueError if a stream says that it is of another device: default streams have one handle on all devices."""
    device = getattr(stream, "device", None)
    for owner, attribute in ((stream, "device_id"), (device, "index"), (device, "device_id")):
        number = getattr(owner, attribute, None)
        if isinstance(number, int) and number >= 0 and number != ordinal:
            raise ValueError(
                f"cuda_stream: expected a stream of cuda:{ordinal}, where the decoder is, got one of cuda:{number}"
            )


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([math.prod(shape[i + 1 :]) for i in range(len(shape))])


def stream_address(stream: Any, name: str = "cuda_stream") -> int:
    """The driver's handle of a stream: given as that number, or a stream of torch, CuPy or cuda.core."""
    for attribute in ("cuda_stream", "ptr"):
        stream = getattr(stream, attribute, stream)
    if hasattr(stream, "__cuda_stream__"):
        pair = stream.__cuda_stream__
        stream = (pair() if callable(pair) else pair)[1]
    if isinstance(stream, bool) or not isinstance(stream, int) or stream < 0:
        raise TypeError(f"{name}: expected a CUDA stream or its handle, got {type(stream).__name__} {stream!r}")
    return stream or 1  # 0 is the legacy default stream, whose handle is 1


_ANY = -1  # memory that every GPU reads


def _device_of(item: Any) -> int | None:
    """The GPU that an array is on, _ANY if every GPU can read it, None if it is not on a GPU."""
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
