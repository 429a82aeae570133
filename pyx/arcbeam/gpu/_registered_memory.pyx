"""Page-locks arrays of the host in place: pages of a mapped file are then in memory, and stay there."""

import mmap

cimport cython
from libc.stdint cimport uintptr_t

from arcbeam.gpu._cuda cimport check, describe, driver, ignore
from arcbeam.gpu._driver_table cimport (
    is_sticky, kAlreadyRegistered, kReadOnlyRegister, kRegisterPortable, kRegisterReadOnly,
)

from arcbeam.gpu.host_memory import host_bytes_left


def span_of(size_t start, size_t size):
    """(first, end) of the whole pages within so many bytes from an address; an empty range if there are none."""
    cdef size_t page = mmap.PAGESIZE
    first = (start + page - 1) // page * page
    return first, max(first, (start + size) // page * page)


def parts_of(size_t start, size_t size):
    """(begin, end) of the parts in which bytes from an address are copied, none across a border of pinned pages."""
    first, end = span_of(start, size)
    borders = sorted({0, min(first - start, size), min(end - start, size), size})
    return list(zip(borders, borders[1:], strict=False))


@cython.no_gc
cdef class RegisteredMemory:
    """Pins the whole pages of arrays until this object goes: all, or none, and `refused` is the reason."""
    # A page that also holds other data is not pinned: copies of that data would cross a border. Memory that other code
    # has registered counts as pinned, and stays so. Pages of a mapped file take memory only now, so no more is
    # requested than the host has left.

    def __cinit__(self, Context context not None, source, list arrays not None, bint mapped):
        self.context, self.source, self.held = context, source, []
        spans = [(first, end) for first, end in (span_of(a.ctypes.data, a.nbytes) for a in arrays) if first < end]
        requested, left = sum(end - first for first, end in spans), host_bytes_left()
        if mapped and left is not None and requested > left:
            self.refused = f"the host has {left:,} bytes left"
            return
        with context:
            self._register(spans)

    def __dealloc__(self):
        if self.held and self.context.enter_to_free():
            self._release()
            self.context.leave()

    cdef int _register(self, list spans) except -1:
        cdef int able = 0, code, flags = kRegisterPortable
        cdef uintptr_t address
        cdef size_t bytes
        check(self.context.state, driver().device_attribute(&able, kReadOnlyRegister, self.context.state.device),
              b"reading the device's attributes")
        if able:
            flags |= kRegisterReadOnly  # without it, a file that is mapped for reading is refused
        for first, end in spans:
            address, bytes = first, end - first
            with nogil:
                code = driver().host_register(<void*> address, bytes, flags)
            if code == 0:
                self.held.append(first)
            elif is_sticky(code):
                check(self.context.state, code, b"pinning host memory")
            elif code != kAlreadyRegistered:
                name, _ = describe(code)
                self.refused = f"{name}, {code}"
                self._release()
                return 0
            self.bytes += bytes
        return 0

    cdef void _release(self) noexcept:
        cdef uintptr_t address
        for first in self.held:
            address = first
            ignore(self.context.state, driver().host_unregister(<void*> address))
        self.held, self.bytes = [], 0

    def warn_due(self):
        """True once, if pinning was refused: a warning is due."""
        due = self.refused is not None and not self.warned
        self.warned = True
        return due
