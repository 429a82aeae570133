"""The table of a list of plain numpy arrays, in one loop without Python objects, because there may be thousands."""

from cpython.buffer cimport PyBUF_FORMAT, PyBUF_STRIDES, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uintptr_t


def plain_rows(items, kind, int64_t[:, ::1] table, Py_ssize_t columns, bint exact):
    """Fills the table of utterances. A list with faults or other kinds of arrays is left to slower code.

    Parameters
    ----------
    items : list or tuple
    kind : type
        numpy.ndarray; its subclasses are not plain.
    table : int64[items, 4]
        Address, row stride in values, frames, 1 for float16.
    columns, exact
        The number of columns that the graph needs, and whether more columns are an error.

    Returns
    -------
    int
        The columns of all arrays. 0 unless each array is [frames, columns], float32 or float16 in the byte order of
        this machine, and can be read in its place.
    """
    cdef Py_buffer view
    cdef Py_ssize_t i = 0, width = 0
    cdef bint fits
    for item in items:
        if type(item) is not kind:
            return 0
        try:
            PyObject_GetBuffer(item, &view, PyBUF_STRIDES | PyBUF_FORMAT)
        except (ValueError, BufferError):  # a type for which buffers have no letter
            return 0
        fits = view.ndim == 2 and _is_float(view.format) and _is_readable(&view)
        if fits:
            width = view.shape[1] if i == 0 else width
            fits = view.shape[1] == width and width >= columns and (width == columns or not exact)
        if fits:
            table[i, 0] = <int64_t> <uintptr_t> view.buf
            table[i, 1] = view.strides[0] // view.itemsize
            table[i, 2] = view.shape[0]
            table[i, 3] = view.itemsize == 2
        PyBuffer_Release(&view)
        if not fits:
            return 0
        i += 1
    return width


cdef bint _is_float(const char* format) noexcept:
    return (format[0] == b"f" or format[0] == b"e") and format[1] == 0


cdef bint _is_readable(Py_buffer* view) noexcept:
    """Whether rows are contiguous and values aligned, and the frames are few enough."""
    return (
        (view.shape[1] <= 1 or view.strides[1] == view.itemsize)
        and view.strides[0] % view.itemsize == 0
        and <uintptr_t> view.buf % <size_t> view.itemsize == 0
        and view.shape[0] < 1LL << 31
    )
