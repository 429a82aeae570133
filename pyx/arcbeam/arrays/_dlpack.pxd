"""The layout of DLPack's C structures, before version 1 and from it on, and of its exchange between C functions."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef enum:  # types of devices
    ON_CPU = 1
    ON_CUDA = 2
    ON_CUDA_HOST = 3  # pinned memory

cdef enum:
    FLOAT_CODE = 2

cdef struct Tensor:
    void* data
    int32_t device_type
    int32_t device_id
    int32_t ndim
    uint8_t code
    uint8_t bits
    uint16_t lanes
    int64_t* shape
    int64_t* strides
    uint64_t byte_offset

cdef struct Managed:
    Tensor tensor
    void* context
    void (*deleter)(Managed*) noexcept

cdef struct Versioned:
    uint32_t major
    uint32_t minor
    void* context
    void (*deleter)(Versioned*) noexcept
    uint64_t flags
    Tensor tensor

# The functions of a type of arrays; they return 0, or -1 with a Python exception. None of them orders streams. What
# `describe` fills is the array's own, and changes with it; a library may be without this function.
cdef struct Exchange:
    uint32_t major
    uint32_t minor
    Exchange* older  # the functions of another version, or NULL
    void* make_tensor
    void* export_array
    void* make_array
    int (*describe)(void* array, Tensor* into) noexcept
    int (*current_stream)(int32_t device_type, int32_t device_id, void** stream) noexcept

cdef Exchange* exchange_of(kind) except? NULL
