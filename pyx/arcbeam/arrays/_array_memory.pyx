"""Checks whether kernels of a device may read all of an array made elsewhere, without trusting what its maker says."""

from cython.operator cimport dereference
from libc.stdint cimport int64_t, uint64_t

from arcbeam.gpu._cuda cimport Context, Memory, memory_at

LARGEST = 1 << 62  # limit of addresses and strides, in bytes: sums of both fit 64 bits

cdef enum:
    LARGEST_STRIDE = 1 << 28  # in values: with fewer than 2**31 rows, addresses fit 64 bits
    PAGE_BITS = 16  # addresses within 64 KiB of one range are mapped together: the driver maps at least as much at once


cdef bint _is_readable(Context context, const Memory* memory) noexcept:
    """Whether kernels of a device can read memory of the driver."""
    if memory.is_managed:
        return True
    return memory.on_device if memory.is_hosts else memory.device == context.state.ordinal


cdef class DeviceMemory:
    """The memory that kernels can read, cached by page for one batch: memory is freed later. The context is current."""

    def __cinit__(self, Context context not None):
        self.context = context
        self.ordinal = context.state.ordinal

    cdef bint has(self, int64_t address, int64_t begin, int64_t end) except -1:
        """Whether kernels can read an array from `begin` to `end`, whose first value is at `address`."""
        cdef Memory memory
        cdef Span span
        found = self.pages.find(address >> PAGE_BITS)
        if found != self.pages.end():
            span = dereference(found).second
            if span.begin <= address < span.end:
                return span.begin <= begin and end <= span.end
        memory = memory_at(self.context, <uint64_t> address)
        if not memory.is_known or not _is_readable(self.context, &memory):
            return False
        if memory.bytes == 0:  # the driver does not say how much
            return True
        span.begin, span.end = <int64_t> memory.start, <int64_t> (memory.start + memory.bytes)
        self.pages[address >> PAGE_BITS] = span
        return span.begin <= begin and end <= span.end

    cdef bint has_rows(self, int64_t address, int64_t frames, int64_t columns, int64_t row_stride,
                       int value_bytes) except -1:
        """Whether kernels can read an array [frames, columns] whose rows have their values side by side."""
        cdef int64_t last_row
        if not (0 <= address < 1LL << 62 and 0 <= frames < 1LL << 31 and 0 <= columns < 1LL << 31
                and -LARGEST_STRIDE < row_stride < LARGEST_STRIDE):
            return False
        if frames == 0 or columns == 0:
            return True
        last_row = (frames - 1) * row_stride * value_bytes
        return self.has(address, address + min(last_row, 0), address + max(last_row, 0) + columns * value_bytes)

    def why_not(self, address, tuple shape, tuple strides, int value_bytes):
        """(expected, got) if kernels cannot read an array, else None. Strides in values."""
        # Rows may overlap, be in reverse order or be the same row, but all of the array has to lie in its allocation.
        cdef Memory memory
        cdef bint empty = False
        try:
            if len(shape) == 2 and strides[1] == 1 and address % value_bytes == 0:
                if self.has_rows(address, shape[0], shape[1], strides[0], value_bytes):
                    return None
        except OverflowError:  # numbers beyond 64 bits
            pass
        first = last = 0
        where = f"memory of cuda:{self.ordinal}, where the decoder is"
        if not 0 <= address < LARGEST:
            return where, f"the address {address}"
        for extent, stride in zip(shape, strides):
            if extent < 0:
                return "a shape without negative numbers", f"{shape}"
            if not -LARGEST < stride * value_bytes < LARGEST:
                return "strides of fewer than 2**62 bytes", f"{strides} values"
            if extent == 0:
                empty = True
            elif stride < 0:
                first += (extent - 1) * stride
            else:
                last += (extent - 1) * stride
        if empty:
            return None
        if address % value_bytes != 0:
            return (f"an address that is a multiple of {value_bytes}, the bytes of a value",
                    f"{address:#x}; copy the array to memory of its own first")
        memory = memory_at(self.context, <uint64_t> address)
        if not memory.is_known:
            return where, f"the address {address:#x}, which the driver does not know: memory of the host, or freed"
        if not _is_readable(self.context, &memory):
            if memory.is_hosts:
                return where, f"the address {address:#x} of host memory, which no kernel reaches there"
            return where, f"an address on cuda:{memory.device}"
        begin, end = address + first * value_bytes, address + (last + 1) * value_bytes
        if memory.bytes != 0 and (begin < memory.start or end > memory.start + memory.bytes):
            outside = max(memory.start - begin, 0) + max(end - memory.start - memory.bytes, 0)
            return (f"all of the array in one allocation, which here has {memory.bytes:,} bytes",
                    f"{outside:,} bytes outside of it, with the shape {shape} and strides of {strides} values")
        return None
