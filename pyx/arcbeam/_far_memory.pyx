"""Memory of the host that kernels read in place, at random: managed memory that stays there, where the device allows it.

A device translates the addresses of pinned memory by small pages: beyond some 0.7 GiB it waits for translations, and
gets a tenth of the reads a second (docs/decisions.md). Managed memory that prefers the host is mapped by large ones.
"""

cimport cython
from libc.stdint cimport uint64_t, uintptr_t

from arcbeam._cuda cimport Context, check, driver, ignore
from arcbeam._cuda_memory cimport PinnedBuffer
from arcbeam._driver_table cimport (
    kAdviseAccessedBy, kAdvisePreferredLocation, kConcurrentManagedAccess, kManagedGlobal, kOnHost,
)

from arcbeam.host_memory import host_bytes_left

cdef enum:
    GRAIN = 1 << 21  # of managed memory: a large page


@cython.no_gc
cdef class FarBuffer:
    """Host memory for a table: threads of the host fill it, then kernels of one device read it.

    Managed memory is given out before there are pages for it, so none is asked for where the host has too little left:
    pinned memory is refused properly.

    Attributes
    ----------
    capacity : int
        Bytes; 0 before :meth:`resize`.
    managed : bool
        Whether it is managed memory, not pinned.
    """

    def __cinit__(self, Context context not None):
        self.context = context

    def __dealloc__(self):
        if self.managed and self.context.enter_to_free():
            ignore(self.context.state, driver().managed_release(<uintptr_t> self.data))
            self.context.leave()

    def resize(self, size_t bytes):
        """Room for so many bytes, once. CudaOutOfMemoryError, of pinned memory, where the host refuses."""
        cdef PinnedBuffer pinned
        if self.capacity:
            raise ValueError(f"expected no memory yet, there are {self.capacity:,} bytes")
        if bytes == 0:
            return
        left = host_bytes_left()
        if left is None or bytes <= left:
            with self.context:
                self._manage((bytes + GRAIN - 1) // GRAIN * GRAIN)
        if not self.managed:
            pinned = self.pinned = PinnedBuffer(self.context)
            pinned.resize(bytes)
            self.data, self.capacity = pinned.data, pinned.capacity

    cdef int _manage(self, size_t bytes) except -1:
        """Inside the context: managed memory that stays on the host and is mapped for the device; or none."""
        cdef uint64_t address = 0
        cdef int device = self.context.state.device, able = 0
        check(self.context.state, driver().device_attribute(&able, kConcurrentManagedAccess, device),
              b"asking what the device can do")
        if not able or driver().managed_allocate(&address, bytes, kManagedGlobal) != 0:
            return 0
        if (driver().managed_advise(address, bytes, kAdvisePreferredLocation, kOnHost) != 0
                or driver().managed_advise(address, bytes, kAdviseAccessedBy, device) != 0):
            ignore(self.context.state, driver().managed_release(address))
            return 0
        self.data, self.capacity, self.managed = <void*> <uintptr_t> address, bytes, True
        return 0

    @property
    def host_address(self):
        """int : where the memory is, for the host and for kernels."""
        return <uintptr_t> self.data
