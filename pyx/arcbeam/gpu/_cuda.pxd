"""The driver, its devices and their contexts. What is marked nogil may be called without the GIL.

A call fails by a Python exception (``except -1``) and leaves nothing half done. Pair enter() with leave().
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint64_t

from arcbeam.gpu._driver_table cimport DriverTable

# The state of one device; it lives as long as the process, whether or not a context is held.
cdef struct DeviceState:
    int ordinal
    int device  # the driver's number
    int known  # whether the numbers below have been read
    int lost  # the code after which the context is unusable, or 0
    int warned_unpinned  # whether a warning has said that the host refuses pinned memory
    char name[128]
    int major
    int minor
    int multiprocessors
    int threads_per_multiprocessor
    int shared_per_block  # bytes, opted in
    int shared_per_multiprocessor  # bytes
    int l2_bytes
    int memory_pools
    int clusters
    uint64_t memory_bytes

# The driver's knowledge of the memory at an address.
cdef struct Memory:
    int is_known
    int is_managed
    int is_hosts  # pinned or registered
    int on_device  # whether kernels of the current context reach it at this very address
    int device  # the device that the memory is on; for host memory, the device for which it was pinned
    uint64_t start  # of the allocation, or of the address range into which allocations are mapped
    uint64_t bytes  # of the same range; 0 if the driver does not say

cdef DriverTable* driver() noexcept nogil
cdef int check(DeviceState* state, int code, const char* action) except -1 nogil
cdef tuple describe(int code)
cdef int require_usable(DeviceState* state) except -1 nogil
cdef void ignore(DeviceState* state, int code) noexcept nogil

cdef class Context:
    cdef DeviceState* state
    cdef void* handle
    cdef int retained
    cdef object __weakref__
    cdef int enter(self) except -1 nogil
    cdef int leave(self) noexcept nogil
    cdef int enter_to_free(self) noexcept nogil
    cdef int memory_info(self, size_t* free_bytes, size_t* total_bytes) except -1 nogil

cdef Memory memory_at(Context context, uint64_t address) except *
cpdef Context context_of(int ordinal)
