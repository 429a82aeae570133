"""Arrays from anywhere, checked: the only place where a foreign host array becomes a pointer."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set, ValuesView
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from arcbeam.arrays._dlpack import Import
from arcbeam.arrays._log_softmax import log_softmax
from arcbeam.arrays._plain_rows import even_rows, plain_rows
from arcbeam.arrays.engine import Table
from arcbeam.gpu._memory import read_ranges

if TYPE_CHECKING:
    from arcbeam.gpu._launch import Stream

FLOAT_TYPES = (np.dtype(np.float32), np.dtype(np.float16))
LOG_PROBS = "log-probs"
ROUNDED_TYPES = ("float64", "bfloat16")  # that are rounded to float32
HOST_MEMORY = (1, 3)  # DLPack's types of plain and of pinned memory


@dataclass(frozen=True)
class InputSpec:
    """The requirements of a decoder on a batch, and what messages call it, its last axis and its values."""

    columns: int  # that it reads
    exact: bool  # more columns are an error
    name: str = "log_probs"
    axis: str = "columns"
    values: str = LOG_PROBS


@dataclass(frozen=True)
class Inputs:
    """The utterances of a batch, or the chunks of streams, as the engines take them."""

    table: Table
    columns: int
    arrays: Any  # [batch, frames, columns] or list of [frames, columns]: keeps the memory
    reader: Stream | None = None  # of the GPU that the arrays lie on; None: they are in the host's memory
    logits: npt.NDArray[np.bool_] | None = None  # [batch]: which are logits, on a GPU alone; None: all are log-probs

    @property
    def on_host(self) -> bool:
        """Whether the arrays are in the host's memory."""
        return self.reader is None

    def at(self, places: Sequence[int]) -> Inputs:
        """Some of them, in this order."""
        return replace(self, table=self.table[places], logits=None if self.logits is None else self.logits[places])

    def without(self, places: Sequence[int]) -> Inputs:
        """All of them, with no frames at these places."""
        table = self.table.copy()
        table[places, 2] = 0
        return replace(self, table=table)

    def part(self, places: Sequence[int], first: Sequence[int], frames: Sequence[int]) -> Inputs:
        """Of each of some of them so many frames, from one on."""
        made = self.at(places)
        value_bytes = np.where(made.table[:, 3] != 0, 2, 4)
        made.table[:, 0] += np.asarray(first, np.int64) * made.table[:, 1] * value_bytes
        made.table[:, 2] = frames
        return made

    def value(self, utterance: int, frame: int, column: int) -> np.floating[Any]:
        """A value of a batch in the host's memory."""
        address, row_stride, _, is_half = self.table[utterance].tolist()
        kind = np.dtype(np.float16 if is_half else np.float32)
        at = address + kind.itemsize * (row_stride * frame + column)
        value: np.floating[Any] = np.frombuffer(ctypes.string_at(at, kind.itemsize), kind)[0]
        return value

    def view(self, utterance: int) -> np.ndarray:
        """float32 or float16 [frames, columns]: an utterance of a batch in the host's memory, where it lies."""
        address, row_stride, frames, is_half = self.table[utterance].tolist()
        kind = np.dtype(np.float16 if is_half else np.float32)
        return np.asarray(_Rows(address, (frames, self.columns), (row_stride * kind.itemsize, kind.itemsize), kind.str))

    def rows(self, utterance: int, first: int, columns: int) -> np.ndarray:
        """float32[frames, columns]: a copy of the first columns of the frames from `first` on, on the host."""
        if not self.on_host:
            return self.at([utterance]).copied_to_host().rows(0, first, columns)
        address, row_stride, frames, is_half = self.table[utterance].tolist()
        kind = np.dtype(np.float16 if is_half else np.float32)
        copied = np.empty((frames - first, columns), np.float32)
        for place, frame in enumerate(range(first, frames)):
            at = address + kind.itemsize * row_stride * frame
            copied[place] = np.frombuffer(ctypes.string_at(at, kind.itemsize * columns), kind)
        return copied

    def copied_to_host(self) -> Inputs:
        """These, or a copy of those on a GPU in the host's memory, with the log-probs of logits."""
        if self.reader is None:
            return self
        table = self.table.copy()
        value_bytes = np.where(table[:, 3] != 0, 2, 4)
        last_row = (table[:, 2] - 1) * table[:, 1]  # in values from the first; rows may be in reverse order
        before = np.where(table[:, 2] > 0, np.minimum(last_row, 0), 0) * value_bytes
        sizes = np.where(table[:, 2] > 0, (np.abs(last_row) + self.columns) * value_bytes, 0)
        places = np.append(0, np.cumsum((sizes + 7) // 8)) * 8
        memory = np.empty(int(places[-1]) // 8, np.int64)
        read_ranges(self.reader, table[:, 0] + before, sizes, places[:-1], memory.view(np.uint8))
        table[:, 0] = memory.ctypes.data + places[:-1] - before
        copied = Inputs(table, self.columns, memory)
        return copied if self.logits is None else as_log_probs(copied, self.logits)


class _Rows:
    """Rows of values at an address, which numpy takes for an array that must not be written."""

    def __init__(self, address: int, shape: tuple[int, int], strides: tuple[int, int], kind: str) -> None:
        self.__array_interface__ = {
            "data": (address, True),
            "shape": shape,
            "strides": strides,
            "typestr": kind,
            "version": 3,
        }


def as_inputs(log_probs: Any, lengths: Any, spec: InputSpec) -> Inputs:
    """Checks a batch in CPU memory and describes it by addresses; copied only if a row is not contiguous."""
    columns, exact = spec.columns, spec.exact
    name, axis, values = spec.name, spec.axis, spec.values
    if not isinstance(log_probs, (list, tuple)):
        batch = _as_numpy(log_probs, name, values)
        check_shape(batch.shape, name, ("batch", "frames", axis), columns, exact)
        batch = batch if _is_readable(batch) else _native_copy(batch)
        address, half = batch.ctypes.data, batch.dtype == np.float16
        steps = (batch.strides[0], batch.strides[1] // batch.itemsize)
        return Inputs(table_of_batch(address, batch.shape, steps, half, lengths), batch.shape[2], batch)

    def take(item: Any, i: int) -> tuple[int, int, int, bool, int, Any]:
        array = _as_numpy(item, f"{name}[{i}]", values)
        check_shape(array.shape, f"{name}[{i}]", ("frames", axis), columns, exact)
        array = array if _is_readable(array) else _native_copy(array)
        row_stride = array.strides[0] // array.itemsize
        return array.ctypes.data, row_stride, len(array), array.dtype == np.float16, array.shape[1], array

    table, arrays, widths, _ = plain_rows(log_probs, columns, exact, take)
    return Inputs(table_of(table, lengths), one_width(widths, columns), arrays)


def host_width(item: Any, name: str, spec: InputSpec) -> int:
    """The columns of one array of a list, which is checked as `as_inputs` checks it."""
    array = _as_numpy(item, name, spec.values)
    check_shape(array.shape, name, ("frames", spec.axis), spec.columns, spec.exact)
    return int(array.shape[1])


def as_copy(chunk: Any, spec: InputSpec) -> np.ndarray:
    """A copy of an array [frames, columns] in the host's memory, which is checked as `as_inputs` checks it."""
    array = _as_numpy(chunk, spec.name, spec.values)
    check_shape(array.shape, spec.name, ("frames", spec.axis), spec.columns, spec.exact)
    return _native_copy(array)


def table_of(rows: np.ndarray, lengths: Any) -> np.ndarray:
    """The table of utterances that are arrays of their own; their frames are those of `rows`, or given by `lengths`."""
    table = rows.reshape(-1, 4)
    table[:, 2] = frames_of(table[:, 2], lengths)
    return table


def table_of_batch(
    address: int, shape: tuple[int, ...], steps: tuple[int, int], is_half: bool, lengths: Any
) -> np.ndarray:
    """The table of an array [batch, frames, columns]; `steps`: bytes to the next utterance, values to the next row."""
    table = even_rows(shape[0], address, steps, shape[1], is_half)
    if lengths is not None:
        table[:, 2] = frames_of(table[:, 2], lengths)
    return table


def one_width(widths: set[int], columns: int) -> int:
    """The number of columns of all arrays; `columns` if there are no arrays."""
    if len(widths) > 1:
        raise ValueError(f"log_probs: expected the same number of columns in all utterances, got {sorted(widths)}")
    return widths.pop() if widths else columns


def _as_numpy(item: Any, name: str, values: str) -> np.ndarray:
    if isinstance(item, np.ma.MaskedArray):
        raise TypeError(f"{name}: expected an array without a mask; give the number of valid frames as lengths")
    if isinstance(item, np.ndarray):
        array = item
    elif hasattr(item, "__dlpack__"):
        array = _from_dlpack(item, name, values)
    else:
        hint = "; arcbeam.read_log_probs reads files" if isinstance(item, (str, os.PathLike)) else ""
        if values == LOG_PROBS and hasattr(item, "logits"):  # also a mapping, in Transformers
            hint = "; give its logits, with logits=True"
        elif isinstance(item, Mapping):
            hint = "; give a list, such as list(arrays.values())"
        elif isinstance(item, Iterator | Set | ValuesView):
            hint = "; give a list of arrays"
        elif isinstance(item, list):
            hint = "; numpy.asarray(..., numpy.float32) makes one of it"
        raise TypeError(f"{name}: expected an array (numpy, or anything with DLPack), got {type(item).__name__}{hint}")
    array = rounded(array)
    if array.dtype.newbyteorder("=") not in FLOAT_TYPES:
        hint = ""
        if array.dtype == object and array.ndim == 1 and not name.endswith("]"):  # utterances of different lengths
            hint = f"; give list({name})"
        elif array.dtype.kind in "iufO":
            hint = f"; give {name}.float()" if hasattr(item, "float") else f"; give {name}.astype('float32')"
        raise TypeError(f"{name}: expected float32 or float16 {values}, got {array.dtype}{hint}")
    return array


def _from_dlpack(item: Any, name: str, values: str) -> np.ndarray:
    try:
        kind = item.__dlpack_device__()[0]
    except (RuntimeError, BufferError, ValueError) as error:  # such as a tensor of torch without values
        got = type(item).__name__
        raise TypeError(f"{name}: expected an array in CPU memory, got {got} ({error})") from None
    if int(kind) not in HOST_MEMORY:
        raise TypeError(f"{name}: expected an array in CPU memory, got DLPack device type {int(kind)}; copy it first")
    if getattr(item, "requires_grad", False):
        item = item.detach()
    try:
        return np.from_dlpack(rounded(item))
    except (RuntimeError, BufferError, TypeError) as error:
        got = getattr(item, "dtype", type(item).__name__)
        raise TypeError(f"{name}: expected float32 or float16 {values}, got {got} ({error})") from None


def rounded(array: Any) -> Any:
    """The array itself, or its values rounded to float32 by its library if they are float64 or bfloat16."""
    dtype = getattr(array, "dtype", None)
    if str(getattr(dtype, "name", dtype)).rpartition(".")[2] not in ROUNDED_TYPES:
        return array
    if not hasattr(array, "astype"):
        return array.float() if hasattr(array, "float") else array  # a tensor of torch, or of a library that cannot
    with np.errstate(over="ignore"):  # values beyond float32 are infinite there
        return array.astype(np.float32)


def resolved(array: Any) -> Any:
    """The array itself; a copy of a tensor whose values torch negates as it reads them, because DLPack hides that."""
    return array.resolve_neg() if getattr(array, "is_neg", bool)() else array


def one_or_many(batch: Any, lengths: Any) -> tuple[Any, Any, bool]:
    """A batch, its lengths, and whether it was one array of two dimensions, which becomes a batch of one."""
    if isinstance(batch, (list, tuple)) or _dimensions(batch) != 2:
        return batch, lengths, False
    is_number = getattr(lengths, "ndim", 0 if isinstance(lengths, int | float) else None) == 0
    if is_number:
        lengths = [lengths.tolist() if hasattr(lengths, "tolist") else lengths]
    return [batch], lengths, True


def _dimensions(array: Any) -> int | None:
    """How many an array has, if it says so: by its shape, or by DLPack."""
    try:
        shape = getattr(array, "shape", None)
    except RuntimeError:  # of a nested tensor of torch, which has none
        return None
    if shape is None:  # a tensor of torch that requires grad has a shape, and refuses its interface
        interface = getattr(array, "__cuda_array_interface__", None)
        shape = interface.get("shape") if isinstance(interface, dict) else None
    if not isinstance(shape, tuple) and hasattr(array, "__dlpack__"):
        try:
            on_host = int(array.__dlpack_device__()[0]) in HOST_MEMORY
            shape = np.from_dlpack(array).shape if on_host else Import(array.__dlpack__(stream=-1)).shape
        except (AttributeError, RuntimeError, BufferError, TypeError, ValueError):  # which are raised where it is read
            return None
    return len(shape) if isinstance(shape, tuple) else None


def as_log_probs(inputs: Inputs, logits: npt.NDArray[np.bool_]) -> Inputs:
    """With log-probs in place of the utterances that are logits, made now on the host or when an engine reads a GPU."""
    if not inputs.on_host:
        return replace(inputs, logits=logits)
    table = inputs.table.copy()
    frames = table[logits, 2]
    rows = log_softmax(table[logits], inputs.columns)
    table[logits, 0] = rows.ctypes.data + 4 * inputs.columns * (np.cumsum(frames) - frames)
    table[logits, 1], table[logits, 3] = inputs.columns, 0
    return replace(inputs, table=table, arrays=(inputs.arrays, rows))


def check_shape(shape: tuple[int, ...], name: str, axes: Sequence[str], columns: int, exact: bool) -> None:
    """Raises ValueError unless an array has these axes, and the columns that the graph needs."""
    if len(shape) != len(axes):
        hint = " (for one utterance, pass a list that holds it)" if len(shape) == 2 else ""
        if len(shape) == 1:
            hint = f" (one utterance is [{axes[-2]}, {axes[-1]}])"
        got = f"{len(shape)} dimension{'s'[: len(shape) != 1]} {shape}"
        raise ValueError(f"{name}: expected [{', '.join(axes)}], got {got}{hint}")
    width = shape[-1]
    if width < columns or (exact and width != columns):
        hint = ""
        if exact and shape[-2] == columns:
            turned = ", ".join((*axes[:-2], axes[-1], axes[-2]))
            hint = f" (is it [{turned}]? transpose it to [{', '.join(axes)}])"
        elif exact and axes[-1] == "columns" and width == columns + 1:
            hint = " (do the tokens lack one, such as the blank?)"
        elif axes[-1] == "features":
            hint = " (a transducer takes the output of its encoder; log-probs of a CTC model are for CtcDecoder)"
        raise ValueError(f"{name}: expected {'' if exact else 'at least '}{columns} {axes[-1]}, got {width}{hint}")
    if shape[-2] >= 2**31:
        raise ValueError(f"{name}: expected fewer than 2**31 frames, got {shape[-2]}")


def _native_copy(array: np.ndarray) -> np.ndarray:
    return np.array(array, dtype=array.dtype.newbyteorder("="), order="C")


def _is_readable(array: np.ndarray) -> bool:
    """Whether the engines can read the array where it lies: rows contiguous, values aligned and of this machine."""
    return (
        array.dtype.isnative
        and array.flags.aligned
        and (array.shape[-1] <= 1 or array.strides[-1] == array.itemsize)
        and array.strides[-2] % array.itemsize == 0
    )


def frames_of(frames: np.ndarray, lengths: Any) -> np.ndarray:
    """The number of frames to decode of each utterance: as given by `lengths`, or all that it has."""
    if lengths is None:
        return frames
    if hasattr(lengths, "__dlpack__") and not isinstance(lengths, np.ndarray):
        lengths = lengths.tolist() if hasattr(lengths, "tolist") else np.from_dlpack(lengths)
    elif isinstance(lengths, Iterable) and not hasattr(lengths, "__array__"):
        if isinstance(lengths, str | bytes | bytearray) or not isinstance(lengths, Sequence):
            raise TypeError(
                f"lengths: expected a sequence or array of integers, in the order of the batch, got "
                f"{type(lengths).__name__}"
            )
        lengths = list(lengths)
    try:
        given = np.asarray(lengths)
    except ValueError as error:
        raise ValueError(f"lengths: expected integers [{len(frames)}], got nested ones ({error})") from None
    if given.size == 0:
        given = given.astype(np.int64)
    if given.ndim == 2:
        given = _frames_of_mask(given, frames)
    if given.ndim != 1 or len(given) != len(frames):
        is_turned = given.ndim == 1 and len(given) > 1 and set(frames.tolist()) == {len(given)}
        hint = "; is the batch [frames, batch, ...]? Transpose it to [batch, frames, ...]" if is_turned else ""
        if is_turned and len(frames) == 1 and bool(((given == 0) | (given == 1)).all()):
            hint = f"; is it the mask of one utterance? Give it as [1, {len(given)}], as in lengths=mask[None]"
        raise ValueError(f"lengths: expected one for each utterance, [{len(frames)}], got shape {given.shape}{hint}")
    if given.dtype.kind not in "iu" and not all(type(n) is int for n in given.tolist()):  # some may exceed 64 bits
        is_share = given.dtype.kind == "f" and bool(((given >= 0) & (given <= 1)).all())
        hint = " (are they shares of the longest? multiply by its frames and round)" if is_share else ""
        raise TypeError(f"lengths: expected integers, got {given.dtype}{hint}")
    for i in np.flatnonzero((given < 0) | (given > frames))[:1]:
        raise ValueError(f"lengths[{i}]: expected 0 to {frames[i]} frames, got {given[i]}")
    return given.astype(np.int64)


def start_states(starts: Any, utterances: int, num_states: int, is_plain: bool) -> np.ndarray | None:
    """uint32[utterances]: the states in which the searches of a batch begin; None for the graph's start state.

    ValueError unless there is one of `num_states` for each, and the search is plain, without boosts and lattices.
    """
    if starts is None:
        return None
    found = np.asarray(starts)
    if found.shape != (utterances,) or found.dtype.kind not in "iu":
        raise ValueError(
            f"starts: expected a state for each of {utterances} utterances, got {found.dtype} {found.shape}"
        )
    if np.any((found < 0) | (found >= num_states)):
        raise ValueError(f"starts: expected states below {num_states}, got {found.min()} to {found.max()}")
    if not is_plain:
        raise ValueError("starts: expected utterances without boosts, streams, lattices and a large language model")
    return np.ascontiguousarray(found, np.uint32)


def _frames_of_mask(mask: np.ndarray, frames: np.ndarray) -> np.ndarray:
    """The number of frames of each utterance by a mask [batch, frames], which is 1 for its frames and 0 after them."""
    expected = (len(frames), int(frames.max(initial=0)))
    if mask.shape != expected:
        raise ValueError(
            f"lengths: expected one for each utterance, [{expected[0]}], or a mask of the frames, "
            f"[{expected[0]}, {expected[1]}], got shape {mask.shape}"
        )
    given = mask.sum(axis=1, dtype=np.int64)
    if not np.array_equal(mask, np.arange(expected[1]) < given[:, None]):
        raise ValueError("lengths: expected a mask of ones and then zeros in each row, got another order or values")
    return given
