"""The table of one array or of a list of plain ones, in a loop without a Python object for each utterance: there may be
thousands."""

import numpy as np

from cpython.buffer cimport PyBUF_FORMAT, PyBUF_STRIDES, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_Clear
from libc.stdint cimport int64_t, uint64_t, uintptr_t

from arcbeam.arrays._array_memory cimport DeviceMemory
from arcbeam.arrays._dlpack cimport FLOAT_CODE, ON_CPU, ON_CUDA, ON_CUDA_HOST, Exchange, Tensor, exchange_of

cdef enum:
    LARGEST_STRIDE = 1 << 28  # in values, on a device: with fewer than 2**31 rows, addresses fit 64 bits

# An array [frames, columns] as its maker describes it; strides in values.
cdef struct Rows:
    uint64_t address
    int64_t frames
    int64_t columns
    int64_t row_stride
    int64_t column_stride
    int value_bytes


def even_rows(Py_ssize_t count, int64_t address, tuple steps, int64_t frames, bint is_half):
    """The table of the utterances of one array; `steps`: bytes to the next utterance, values to the next row."""
    cdef int64_t step = steps[0], row_stride = steps[1]
    cdef Py_ssize_t i
    found = np.empty((count, 4), np.int64)
    cdef int64_t[:, ::1] table = found
    for i in range(count):
        table[i, 0], table[i, 1], table[i, 2], table[i, 3] = address + step * i, row_stride, frames, is_half
    return found


def plain_rows(items, kind, int64_t[:, ::1] table, Py_ssize_t columns, bint exact, DeviceMemory memory=None):
    """Fills `table`, int64[items, 4]; (columns, arrays, streams), or None for arrays that slower code must check."""
    # Plain are arrays of numpy in host memory, and there or, with `memory`, on a device those of libraries with the C
    # exchange of DLPack, as torch has it: its ``__dlpack__`` in Python takes 5 microseconds an array. A row has an
    # address, a row stride in values, frames, and 1 for float16. The device's context must be current.
    cdef Exchange* exchange = NULL
    cdef Tensor tensor
    cdef Rows rows
    cdef void* stream = NULL
    cdef Py_ssize_t i = 0, width = 0
    maker, streams, kept = None, set(), list(items)
    for item in kept:
        if type(item) is kind:
            if memory is not None or not _by_buffer(item, &rows):
                return None
        else:
            if type(item) is not maker:
                maker = type(item)
                exchange = exchange_of(maker)
                if exchange == NULL or exchange.describe == NULL:
                    return None
                if memory is not None:
                    if exchange.current_stream(ON_CUDA, memory.ordinal, &stream) != 0:
                        PyErr_Clear()
                        return None
                    streams.add(<uintptr_t> stream or 1)  # 0 is the legacy default stream, whose handle is 1
            if exchange.describe(<void*> item, &tensor) != 0:
                PyErr_Clear()
                return None
            if not _by_tensor(&tensor, &rows) or not _is_there(&tensor, &rows, memory):
                return None
        width = rows.columns if i == 0 else width
        if not (_is_readable(&rows) and rows.columns == width >= columns and (width == columns or not exact)):
            return None
        table[i, 0], table[i, 1] = <int64_t> rows.address, rows.row_stride
        table[i, 2], table[i, 3] = rows.frames, rows.value_bytes == 2
        i += 1
    return (width, kept, streams) if i and width else None


cdef bint _by_buffer(item, Rows* rows) except -1:
    cdef Py_buffer view
    try:
        PyObject_GetBuffer(item, &view, PyBUF_STRIDES | PyBUF_FORMAT)
    except (ValueError, BufferError):  # a type for which buffers have no letter
        return False
    fits = (view.ndim == 2 and (view.format[0] == b"f" or view.format[0] == b"e") and view.format[1] == 0
            and view.strides[0] % view.itemsize == 0 and view.strides[1] % view.itemsize == 0)
    if fits:
        rows.address, rows.value_bytes = <uintptr_t> view.buf, <int> view.itemsize
        rows.frames, rows.columns = view.shape[0], view.shape[1]
        rows.row_stride, rows.column_stride = view.strides[0] // view.itemsize, view.strides[1] // view.itemsize
    PyBuffer_Release(&view)
    return fits


cdef bint _by_tensor(const Tensor* tensor, Rows* rows) noexcept:
    if tensor.ndim != 2 or tensor.code != FLOAT_CODE or tensor.lanes != 1 or tensor.bits not in (16, 32):
        return False
    rows.address, rows.value_bytes = <uintptr_t> tensor.data + tensor.byte_offset, tensor.bits // 8
    rows.frames, rows.columns = tensor.shape[0], tensor.shape[1]
    rows.row_stride, rows.column_stride = rows.columns, 1
    if tensor.strides != NULL:
        rows.row_stride, rows.column_stride = tensor.strides[0], tensor.strides[1]
    return True


cdef bint _is_there(const Tensor* tensor, const Rows* rows, DeviceMemory memory) except -1:
    """Whether an array is in the memory of the host, or all of it in that of the device."""
    cdef int64_t address = <int64_t> rows.address, last_row, row_bytes
    if memory is None:
        return tensor.device_type == ON_CPU or tensor.device_type == ON_CUDA_HOST
    if tensor.device_type != ON_CUDA or tensor.device_id != memory.ordinal:
        return False
    if not (0 <= address < 1LL << 62 and 0 <= rows.frames < 1LL << 31 and 0 <= rows.columns < 1LL << 31
            and -LARGEST_STRIDE < rows.row_stride < LARGEST_STRIDE):
        return False
    if rows.frames == 0 or rows.columns == 0:
        return True
    last_row = (rows.frames - 1) * rows.row_stride * rows.value_bytes
    row_bytes = rows.columns * rows.value_bytes
    return memory.has(address, address + min(last_row, 0), address + max(last_row, 0) + row_bytes)


cdef bint _is_readable(const Rows* rows) noexcept:
    """Whether the values of a row lie together and are aligned, and the frames are few enough."""
    return rows.frames == 0 or (
        0 < rows.frames < 1LL << 31
        and (rows.columns <= 1 or rows.column_stride == 1)
        and rows.address % <uint64_t> rows.value_bytes == 0
    )
