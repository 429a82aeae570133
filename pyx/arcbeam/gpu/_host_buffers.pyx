"""Host memory for copies, and for data that kernels read in place: pinned, or a substitute if the system refuses.

Beyond 0.7 GiB a device waits for translations of pinned pages (docs/design/memory.md); managed memory has large ones.
"""


cimport cython
from libc.stdint cimport uint64_t, uintptr_t
from libc.stdlib cimport free
from posix.stdlib cimport posix_memalign

from arcbeam.gpu._cuda cimport check, describe, driver, ignore
from arcbeam.gpu._memory cimport PINNED_GRAIN, grown
from arcbeam.gpu._driver_table cimport (
    kAdviseAccessedBy, kAdvisePreferredLocation, kConcurrentManagedAccess, kManagedGlobal, kOnHost,
)

from arcbeam.gpu.host_memory import host_bytes_left
from arcbeam.core.warn import warn

cdef enum:
    MANAGED_GRAIN = 1 << 21  # a large page


UNPINNED = ("without pinned memory the process waits for copies, and kernels read managed memory, which takes longer; "
            "results are the same")


cdef int warn_unpinned(Context context, size_t bytes, int code) except -1:
    """Warns that the system refuses pinned memory, once for each device that the process uses."""
    if context.state.warned_unpinned:
        return 0
    context.state.warned_unpinned = 1
    name, _ = describe(code)
    warn(f"the host does not pin {bytes:,} bytes of memory ({name}, {code}) for cuda:{context.state.ordinal}; "
         f"{UNPINNED}")
    return 0


@cython.no_gc
cdef class HostBuffer:
    """Memory for copies from and to a device, pinned or, after a warning, pageable. Growing loses the content."""
    # A copy to the device from pageable memory returns when the memory may change, and one from the device when all
    # earlier work of its stream is done: a running kernel cannot be read in that way.

    def __cinit__(self, Context context not None):
        self.pinned = PinnedBuffer(context)

    def __dealloc__(self):
        free(self.pageable)

    cdef int reserve(self, size_t bytes) except -1 nogil:
        """Makes room for so many bytes; after a failure the buffer is empty, and can be reserved again."""
        cdef size_t size
        cdef int code
        if bytes <= self.capacity:
            return 0
        size = grown(bytes, self.capacity, PINNED_GRAIN)
        free(self.pageable)
        self.data, self.pageable, self.capacity = NULL, NULL, 0
        code = self.pinned.take(size)
        if code == 0:
            self.data, self.capacity = self.pinned.data, self.pinned.capacity
            return 0
        if posix_memalign(&self.pageable, PINNED_GRAIN, size) != 0:
            self.pageable = NULL
            return self.pinned.refuse(size, code)
        self.data, self.capacity = self.pageable, size
        with gil:
            return warn_unpinned(self.pinned.context, size, code)

    cdef bint is_pinned(self) noexcept nogil:
        """Whether copies do not wait."""
        return self.pageable == NULL

    cdef size_t pinned_bytes(self) noexcept nogil:
        return self.pinned.capacity

    def resize(self, size_t bytes):
        """:meth:`reserve` from Python."""
        with self.pinned.context:
            with nogil:
                self.reserve(bytes)

    @property
    def host_address(self):
        """int : the address of the memory."""
        return <uintptr_t> self.data

    @property
    def pageable_bytes(self):
        """int : bytes that are not pinned: all or none."""
        return self.capacity - self.pinned.capacity


@cython.no_gc
cdef class SharedBuffer:
    """Host memory that kernels read in place: pinned, or after a warning managed. Growing loses the content."""
    # The system grants managed memory before it has pages for it, so none is requested if the host has too little left.
    # Nor is more requested than the device has free, because a program that does so may hang the device. Beyond
    # `pinned_most` bytes managed memory is tried first.

    def __cinit__(self, Context context not None, size_t pinned_most=<size_t> -1):
        self.context, self.pinned_most = context, pinned_most
        self.pinned = PinnedBuffer(context)

    def __dealloc__(self):
        if self.managed and self.context.enter_to_free():
            self._clear()
            self.context.leave()

    cdef int reserve(self, size_t bytes) except -1:
        """Makes room for so many bytes; CudaOutOfMemoryError if there is no memory of either kind."""
        cdef size_t size
        cdef int code
        if bytes <= self.capacity:
            return 0
        size = grown(bytes, self.capacity, PINNED_GRAIN)
        self._clear()
        if size > self.pinned_most and self._manage(size):
            return 0
        code = self._pin(size)
        if code == 0:
            return 0
        if size <= self.pinned_most and self._manage(size):
            return warn_unpinned(self.context, size, code)
        return self.pinned.refuse(size, code)

    cdef int _pin(self, size_t bytes) except -1:
        """0, or the code with which the system refuses pinned memory."""
        cdef int code
        with nogil:
            code = self.pinned.take(bytes)
        if code == 0:
            self.data, self.capacity = self.pinned.data, self.pinned.capacity
        return code

    cdef bint _manage(self, size_t bytes) except -1:
        """Makes managed memory that stays on the host and is mapped for the device; returns whether that worked."""
        cdef uint64_t address = 0
        cdef size_t free_bytes = 0, total_bytes = 0
        cdef int device = self.context.state.device, able = 0, code
        bytes = (bytes + MANAGED_GRAIN - 1) // MANAGED_GRAIN * MANAGED_GRAIN
        check(self.context.state, driver().device_attribute(&able, kConcurrentManagedAccess, device),
              b"reading the device's attributes")
        self.context.memory_info(&free_bytes, &total_bytes)
        left = host_bytes_left()
        if not able or bytes > free_bytes or (left is not None and bytes > left):
            return False
        code = driver().managed_allocate(&address, bytes, kManagedGlobal)
        if code != 0:
            ignore(self.context.state, code)
            return False
        if (driver().managed_advise(address, bytes, kAdvisePreferredLocation, kOnHost) != 0
                or driver().managed_advise(address, bytes, kAdviseAccessedBy, device) != 0):
            ignore(self.context.state, driver().managed_release(address))
            return False
        self.data, self.capacity, self.managed = <void*> <uintptr_t> address, bytes, True
        return True

    cdef void _clear(self) noexcept:
        """Gives the memory back."""
        if self.managed:
            ignore(self.context.state, driver().managed_release(<uintptr_t> self.data))
        self.pinned.clear()
        self.data, self.capacity, self.managed = NULL, 0, False

    def resize(self, size_t bytes):
        """:meth:`reserve` from Python."""
        with self.context:
            self.reserve(bytes)

    @property
    def host_address(self):
        """int : the address of the memory, for the host and for kernels."""
        return <uintptr_t> self.data
