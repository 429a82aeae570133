"""The table of one array or of a list of them, in a loop without a Python object for each utterance: there may be
thousands."""

import numpy as np

from cpython.buffer cimport PyBUF_FORMAT, PyBUF_STRIDES, PyBuffer_Release, PyObject_GetBuffer
from cpython.dict cimport PyDict_GetItemWithError
from cpython.exc cimport PyErr_Clear
from cpython.long cimport PyLong_AsLongLong
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t, uintptr_t

from arcbeam.arrays._array_memory cimport DeviceMemory
from arcbeam.arrays._dlpack cimport FLOAT_CODE, ON_CPU, ON_CUDA, ON_CUDA_HOST, Exchange, Tensor, exchange_of

cdef enum:
    NO_STREAM = 0

# An array [frames, columns], or so many of them, as its maker describes it; strides in values.
cdef struct Rows:
    uint64_t address
    int64_t count
    int64_t stride  # from one to the next
    int64_t frames
    int64_t columns
    int64_t row_stride
    int64_t column_stride
    int value_bytes

# How arrays of a type describe themselves; the last type of a list is kept.
cdef struct Maker:
    bint is_numpy
    Exchange* exchange  # NULL: not in C
    bint has_dlpack
    bint has_interface  # not known to lack `__cuda_array_interface__`, or to say too little there


def even_rows(Py_ssize_t count, int64_t address, tuple steps, int64_t frames, bint is_half):
    """The table of the utterances of one array; `steps`: bytes to the next utterance, values to the next row."""
    cdef int64_t step = steps[0], row_stride = steps[1]
    cdef Py_ssize_t i
    found = np.empty((count, 4), np.int64)
    cdef int64_t[:, ::1] table = found
    for i in range(count):
        table[i, 0], table[i, 1], table[i, 2], table[i, 3] = address + step * i, row_stride, frames, is_half
    return found


def plain_batch(item, Py_ssize_t columns, bint exact, DeviceMemory memory not None):
    """The table of an array [batch, frames, columns] on a device, its width, and streams with whether it names them."""
    # None: it is empty or not plain, as of `plain_rows`, or something is wrong with it.
    cdef Maker maker
    cdef Rows rows
    cdef int64_t stream = NO_STREAM
    cdef dict streams = {}
    _meet(item, &maker, streams, memory)
    if not _describe(item, &maker, &rows, 3, &stream, memory) or not _fits(&rows, columns, exact):
        return None
    if rows.count == 0:
        return None
    if stream != NO_STREAM:
        streams.setdefault(stream, True)
    steps = (rows.stride * rows.value_bytes, rows.row_stride)
    return even_rows(rows.count, rows.address, steps, rows.frames, rows.value_bytes == 2), rows.columns, streams


def plain_rows(items, Py_ssize_t columns, bint exact, take, DeviceMemory memory=None):
    """The table of a list, int64[items, 4], the arrays, all widths, and the streams by handle, each with its place."""
    # Plain are arrays of numpy in host memory, and there or, with `memory`, on a device those of libraries with the C
    # exchange of DLPack, as torch has it: its ``__dlpack__`` in Python takes 5 microseconds an array. So are those
    # with ``__cuda_array_interface__`` on a device. Any other goes to `take(item, i)`, which raises what is wrong with
    # it or returns its row, its width and what keeps it alive. A row has an address, a row stride in values, frames,
    # and 1 for float16. The place of a stream is the first array that names it; None: it is current in a library. The
    # device's context must be current.
    cdef Maker maker
    cdef Rows rows
    cdef int64_t stream, last_stream = NO_STREAM, width = -1
    cdef Py_ssize_t i
    kind, streams, widths, kept = None, {}, set(), list(items)
    found = np.empty((len(kept), 4), np.int64)
    cdef int64_t[:, ::1] table = found
    for i in range(table.shape[0]):
        item, stream = kept[i], NO_STREAM
        if type(item) is not kind:
            kind = type(item)
            _meet(item, &maker, streams, memory)
        if not _describe(item, &maker, &rows, 2, &stream, memory) or not _fits(&rows, columns, exact):
            table[i, 0], table[i, 1], table[i, 2], table[i, 3], other, kept[i] = take(item, i)
            widths.add(other)
            continue
        if rows.columns != width:
            width = rows.columns
            widths.add(width)
        if stream != last_stream and stream != NO_STREAM:
            last_stream = stream
            streams.setdefault(stream, i)
        table[i, 0], table[i, 1] = <int64_t> rows.address, rows.row_stride
        table[i, 2], table[i, 3] = rows.frames, rows.value_bytes == 2
    return found, kept, widths, streams


cdef int _meet(item, Maker* maker, dict streams, DeviceMemory memory) except -1:
    """Finds how arrays of this one's type describe themselves, and the stream on which their library works now."""
    cdef void* stream = NULL
    maker.exchange = exchange_of(type(item))
    if maker.exchange != NULL and maker.exchange.describe == NULL:
        maker.exchange = NULL
    if memory is None:
        maker.is_numpy = type(item) is np.ndarray
        return 0
    if maker.exchange != NULL:
        if maker.exchange.current_stream(ON_CUDA, memory.ordinal, &stream) == 0:
            streams.setdefault(<uintptr_t> stream or 1, None)  # 0 is the legacy default stream, whose handle is 1
        else:
            PyErr_Clear()
            maker.exchange = NULL
    maker.has_interface, maker.has_dlpack = True, hasattr(item, "__dlpack_device__")
    return 0


cdef bint _describe(item, Maker* maker, Rows* rows, int ndim, int64_t* stream, DeviceMemory memory) except -1:
    """Whether an array is plain, and in the memory of the host or, all of it, in that of the device."""
    cdef Tensor tensor
    if maker.exchange != NULL:
        if maker.exchange.describe(<void*> item, &tensor) != 0:
            PyErr_Clear()
            return False
        if not _by_tensor(&tensor, rows, ndim):
            return False
        if memory is None:
            return tensor.device_type == ON_CPU or tensor.device_type == ON_CUDA_HOST
        return tensor.device_type == ON_CUDA and tensor.device_id == memory.ordinal and _is_within(rows, memory)
    if memory is None:
        return maker.is_numpy and _by_buffer(item, rows)
    if not maker.has_interface:
        return False
    try:
        maker.has_interface = _by_interface(item.__cuda_array_interface__, maker.has_dlpack, rows, ndim, stream)
    except Exception:  # `take` says it again
        maker.has_interface = False
    return maker.has_interface and _is_within(rows, memory)


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
        rows.count, rows.frames, rows.columns = 1, view.shape[0], view.shape[1]
        rows.row_stride, rows.column_stride = view.strides[0] // view.itemsize, view.strides[1] // view.itemsize
    PyBuffer_Release(&view)
    return fits


cdef bint _by_tensor(const Tensor* tensor, Rows* rows, int ndim) noexcept:
    cdef int axis = ndim - 2  # of the frames
    if tensor.ndim != ndim or tensor.code != FLOAT_CODE or tensor.lanes != 1 or tensor.bits not in (16, 32):
        return False
    rows.address, rows.value_bytes = <uintptr_t> tensor.data + tensor.byte_offset, tensor.bits // 8
    rows.count, rows.frames, rows.columns = tensor.shape[0] if axis else 1, tensor.shape[axis], tensor.shape[axis + 1]
    rows.row_stride, rows.column_stride, rows.stride = rows.columns, 1, rows.frames * rows.columns
    if tensor.strides != NULL:
        rows.row_stride, rows.column_stride = tensor.strides[axis], tensor.strides[axis + 1]
        rows.stride = tensor.strides[0] if axis else 0
    return True


cdef bint _by_interface(said, bint names_stream, Rows* rows, int ndim, int64_t* stream) except -1:
    """Reads what an array says in ``__cuda_array_interface__``; where `names_stream`, only if it names a stream."""
    # An array that has DLPack, too, is ordered by that unless it says here which stream writes it, as CuPy's do.
    cdef int64_t[3] lengths, strides
    cdef int axis = ndim - 2, i  # of the frames
    if type(said) is not dict or _entry(said, "mask") is not None:
        return False
    typestr, data, shape = _entry(said, "typestr"), _entry(said, "data"), _entry(said, "shape")
    steps, handle = _entry(said, "strides"), _entry(said, "stream")
    if type(typestr) is not str or not (_has(data, 2) and _has(shape, ndim) and (steps is None or _has(steps, ndim))):
        return False
    if typestr == "<f4":
        rows.value_bytes = 4
    elif typestr == "<f2":
        rows.value_bytes = 2
    else:
        return False
    rows.address = <uint64_t> PyLong_AsLongLong((<tuple> data)[0])
    for i in range(ndim):
        lengths[i] = PyLong_AsLongLong((<tuple> shape)[i])
        if steps is not None:
            strides[i] = PyLong_AsLongLong((<tuple> steps)[i])
            if strides[i] % rows.value_bytes != 0:
                return False
            strides[i] //= rows.value_bytes
    rows.count, rows.frames, rows.columns = lengths[0] if axis else 1, lengths[axis], lengths[axis + 1]
    rows.row_stride, rows.column_stride, rows.stride = rows.columns, 1, 0
    if steps is not None:
        rows.row_stride, rows.column_stride = strides[axis], strides[axis + 1]
    if axis:
        rows.stride = strides[0] if steps is not None else rows.frames * rows.columns
    if handle is not None:
        stream[0] = PyLong_AsLongLong(handle) if type(handle) is int else -1
        return stream[0] > 0
    return not names_stream or "stream" in <dict> said


cdef bint _has(said, Py_ssize_t length) noexcept:
    """Whether it is a tuple of so many."""
    return type(said) is tuple and len(<tuple> said) == length


cdef object _entry(dict said, str key):
    cdef PyObject* found = PyDict_GetItemWithError(said, key)
    return None if found == NULL else <object> found


cdef bint _is_within(const Rows* rows, DeviceMemory memory) except -1:
    """Whether all of an array is in one allocation of the device."""
    cdef int64_t address = <int64_t> rows.address, last, last_row
    if not memory.has_rows(address, rows.frames, rows.columns, rows.row_stride, rows.value_bytes):
        return False
    if rows.count <= 1 or rows.frames == 0 or rows.columns == 0:
        return True
    if not (0 <= rows.stride < 1LL << 28 and rows.count < 1LL << 31):
        return False
    last = (rows.count - 1) * rows.stride * rows.value_bytes
    last_row = (rows.frames - 1) * rows.row_stride * rows.value_bytes
    return memory.has(address, address + min(last_row, 0),
                      address + last + max(last_row, 0) + rows.columns * rows.value_bytes)


cdef bint _fits(const Rows* rows, int64_t columns, bint exact) noexcept:
    """Whether there are columns enough, the values of a row lie together and are aligned, and frames are few enough."""
    if rows.count < 0 or rows.columns < columns or (exact and rows.columns != columns):
        return False
    return rows.count == 0 or rows.frames == 0 or (
        0 < rows.frames < 1LL << 31
        and (rows.columns <= 1 or rows.column_stride == 1)
        and rows.address % <uint64_t> rows.value_bytes == 0
    )
