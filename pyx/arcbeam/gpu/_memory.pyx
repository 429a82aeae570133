"""Device and pinned memory that only grows, and copies that do not wait."""

cimport cython
from libc.stdint cimport int64_t, uintptr_t

from arcbeam.gpu._cuda cimport Context, check, describe, driver, ignore
from arcbeam.gpu._launch cimport Stream
from arcbeam.gpu._driver_table cimport kHostPortable, kOutOfMemory, kReleaseThreshold, kReserved, is_refusal

from arcbeam.core.errors import CapacityError, CudaOutOfMemoryError

# Sizes are rounded up to multiples of these, so that a slightly larger batch finds enough room already.
cdef enum:
    DEVICE_GRAIN = 1 << 16

cdef size_t MAX_BYTES = <size_t> 1 << 62


cdef size_t grown(size_t bytes, size_t capacity, size_t grain) noexcept nogil:
    """At least `bytes`, and half as much again as now, so that growing step by step has a constant cost per byte."""
    cdef size_t size = max(bytes, capacity + capacity // 2)
    return (size + grain - 1) // grain * grain


@cython.no_gc
cdef class MemoryPool:
    """A stream-ordered pool of device memory, which keeps freed memory until `trim`; CapacityError above the limit."""

    def __cinit__(self, Context context not None, size_t limit_bytes=0, size_t counted_bytes=0):
        cdef uint64_t keep = <uint64_t> -1
        self.context = context
        self.limit_bytes = limit_bytes
        self.used_bytes = counted_bytes
        context.enter()
        try:
            check(context.state, driver().pool_create(&self.handle, context.state.device), b"making a memory pool")
            check(context.state, driver().pool_set(self.handle, kReleaseThreshold, &keep), b"setting a memory pool")
        finally:
            context.leave()

    def __dealloc__(self):
        if self.handle != NULL and self.context.enter_to_free():
            ignore(self.context.state, driver().pool_destroy(self.handle))
            self.context.leave()

    cdef size_t room(self) noexcept nogil:
        """Bytes that the limit still allows."""
        if self.limit_bytes == 0:
            return MAX_BYTES
        return self.limit_bytes - min(self.limit_bytes, self.used_bytes)

    cdef int allocate(self, uint64_t* address, size_t bytes, Stream stream, const char* what) except -1 nogil:
        """Memory for later work of the stream. On failure the pool gives back what it keeps and tries once more."""
        cdef int code
        if bytes > self.room():
            with gil:
                self._raise_limit(bytes, what)
        code = driver().allocate(address, bytes, self.handle, stream.handle)
        if code == kOutOfMemory:
            # Memory that other streams of the engine have freed comes back to the device only after their work is
            # done.
            check(self.context.state, driver().stream_synchronize(stream.handle), b"waiting for memory")
            ignore(self.context.state, driver().pool_trim(self.handle, 0))
            code = driver().allocate(address, bytes, self.handle, stream.handle)
        if code != 0:
            address[0] = 0
            with gil:
                self._raise_allocate(bytes, what, code)
        self.used_bytes += bytes
        self.peak_bytes = max(self.peak_bytes, self.used_bytes)
        return 0

    cdef void release(self, uint64_t address, size_t bytes, Stream stream) noexcept nogil:
        """Gives memory back after the stream's work so far is done."""
        if address != 0:
            ignore(self.context.state, driver().release(address, stream.handle))
            self.used_bytes -= bytes

    cdef int trim(self) except -1 nogil:
        """Returns unused memory to the device."""
        return check(self.context.state, driver().pool_trim(self.handle, 0), b"trimming a memory pool")

    cdef int _raise_limit(self, size_t bytes, const char* what) except -1:
        or_beam = ", max_active or lattice_beam" if b"lattice" in what else " or max_active"
        raise CapacityError(
            f"memory_limit: cannot allocate {bytes:,} bytes for {what.decode()} on cuda:{self.context.state.ordinal}, where "
            f"{self.used_bytes:,} of {self.limit_bytes:,} are used; use a larger memory_limit, or a smaller batch, beam"
            f"{or_beam}"
        )

    cdef int _raise_allocate(self, size_t bytes, const char* what, int code) except -1:
        cdef size_t free_bytes = 0, total_bytes = 0
        if code != kOutOfMemory:
            return check(self.context.state, code, b"allocating device memory")
        self.context.memory_info(&free_bytes, &total_bytes)
        raise CudaOutOfMemoryError(
            f"CUDA_ERROR_OUT_OF_MEMORY ({code}): cannot allocate {bytes:,} bytes for {what.decode()} on "
            f"cuda:{self.context.state.ordinal}, where {free_bytes:,} of {total_bytes:,} are free and this engine has "
            f"{self.used_bytes:,}; use a smaller batch, beam or max_active",
            name="CUDA_ERROR_OUT_OF_MEMORY", code=code, action="allocating device memory",
        )

    def reserved_bytes(self):
        """int : bytes of the device that the pool holds, in use or not."""
        cdef uint64_t reserved = 0
        with self.context:
            check(self.context.state, driver().pool_get(self.handle, kReserved, &reserved), b"reading a memory pool's size")
        return reserved


@cython.no_gc
cdef class DeviceBuffer:
    """Device memory that grows and never shrinks, used by one stream; `what` names it in messages: "the token log"."""

    def __cinit__(self, MemoryPool pool not None, Stream stream not None, str what not None):
        self.pool = pool
        self.stream = stream
        self.what_bytes = what.encode()
        self.what = self.what_bytes

    def __dealloc__(self):
        if self.address != 0 and self.pool.context.enter_to_free():
            self.clear()
            self.pool.context.leave()

    cdef int reserve(self, size_t bytes, bint keep) except -1 nogil:
        """Makes room for so many bytes, with `keep` also of the content; else an error leaves it empty."""
        cdef uint64_t address = 0
        cdef size_t capacity
        cdef int code
        if bytes <= self.capacity:
            return 0
        capacity = grown(bytes, self.capacity, DEVICE_GRAIN)
        if not keep:
            self.clear()  # the memory that it holds may be just what is missing
        if capacity > self.pool.room():
            capacity = bytes
        self.pool.allocate(&address, capacity, self.stream, self.what)
        if self.address != 0:
            code = driver().copy_on_device(address, self.address, self.capacity, self.stream.handle)
            if code != 0:
                self.pool.release(address, capacity, self.stream)
                check(self.pool.context.state, code, b"moving device memory")
            self.pool.release(self.address, self.capacity, self.stream)
        self.address = address
        self.capacity = capacity
        return 0

    cdef void clear(self) noexcept nogil:
        """Gives the memory back."""
        self.pool.release(self.address, self.capacity, self.stream)
        self.address = 0
        self.capacity = 0

    # For tests and for work that is done once, such as sending a graph.

    def resize(self, size_t bytes, bint keep=False):
        """:meth:`reserve` from Python."""
        with self.pool.context:
            with nogil:
                self.reserve(bytes, keep)

    def fill(self, unsigned char value):
        """Sets every byte, in the stream's order."""
        with self.pool.context:
            set_bytes(self.address, value, self.capacity, self.stream)

    def copy_from(self, uint64_t address, size_t bytes, size_t offset=0):
        """Copies device memory to the buffer, growing it, in the stream's order and without waiting."""
        with self.pool.context:
            self.reserve(offset + bytes, True)
            copy_on_device(self.address + offset, address, bytes, self.stream)

    def write(self, const unsigned char[::1] data not None, size_t offset=0):
        """Copies host bytes to the buffer, growing it, and waits until the bytes may change."""
        cdef size_t bytes = data.shape[0]
        with self.pool.context:
            with nogil:
                self.reserve(offset + bytes, True)
                if bytes != 0:
                    copy_to_device(self.address + offset, &data[0], bytes, self.stream)
                self.stream.synchronize()

    def read(self, size_t bytes, size_t offset=0):
        """bytes : a copy of the bytes that the stream has written."""
        if offset + bytes > self.capacity:
            raise ValueError(f"expected at most {self.capacity} bytes, got {offset} + {bytes}")
        data = bytearray(bytes)
        cdef unsigned char[::1] view = data
        with self.pool.context:
            with nogil:
                if bytes != 0:
                    copy_to_host(&view[0], self.address + offset, bytes, self.stream)
                self.stream.synchronize()
        return data


@cython.no_gc
cdef class PinnedBuffer:
    """Page-locked host memory that grows and never shrinks: copies do not wait only with this kind of memory."""
    # Growing moves the memory without its content, so copies must have ended. While views of the buffer exist (bytes,
    # writable, for numpy.frombuffer) it cannot grow.

    def __cinit__(self, Context context not None):
        self.context = context

    def __dealloc__(self):
        if self.data != NULL and self.context.enter_to_free():
            self.clear()
            self.context.leave()

    cdef int reserve(self, size_t bytes) except -1 nogil:
        cdef int code = self.take(bytes)
        if code != 0:
            return self.refuse(bytes, code)
        return 0

    cdef int take(self, size_t bytes) except -1 nogil:
        """Makes room for so many bytes: 0, or the code with which the system refuses; then there is no memory."""
        cdef void* data = NULL
        cdef size_t capacity
        cdef int code
        if bytes <= self.capacity:
            return 0
        if self.views:
            with gil:
                raise BufferError("pinned memory cannot grow while arrays are views of it")
        capacity = grown(bytes, self.capacity, PINNED_GRAIN)
        self.clear()
        code = driver().host_allocate(&data, capacity, kHostPortable)
        if code != 0:
            if not is_refusal(code):
                check(self.context.state, code, b"allocating pinned memory")
            return code
        self.data = data
        self.capacity = capacity
        return 0

    cdef int refuse(self, size_t bytes, int code) except -1 nogil:
        """Raises the error for a refusal of the system."""
        with gil:
            name, _ = describe(code)
            raise CudaOutOfMemoryError(
                f"{name} ({code}): no {bytes:,} bytes of host memory can be pinned; use a smaller batch",
                name=name, code=code, action="allocating pinned memory",
            )

    cdef void clear(self) noexcept nogil:
        """Gives the memory back."""
        if self.data != NULL:
            ignore(self.context.state, driver().host_release(self.data))
        self.data = NULL
        self.capacity = 0

    def resize(self, size_t bytes):
        """:meth:`reserve` from Python."""
        with self.context:
            with nogil:
                self.reserve(bytes)

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        self.shape[0] = self.capacity
        self.strides[0] = 1
        buffer.buf = self.data
        buffer.format = "B"
        buffer.internal = NULL
        buffer.itemsize = 1
        buffer.len = self.capacity
        buffer.ndim = 1
        buffer.obj = self
        buffer.readonly = 0
        buffer.shape = self.shape
        buffer.strides = self.strides
        buffer.suboffsets = NULL
        self.views += 1

    def __releasebuffer__(self, Py_buffer* buffer):
        self.views -= 1

    def send(self, DeviceBuffer to not None, size_t bytes, size_t offset=0):
        """Copies the first bytes to a device buffer that has room, in its stream's order, without waiting."""
        if bytes > self.capacity or offset + bytes > to.capacity:
            raise ValueError(f"expected at most {min(self.capacity, to.capacity)} bytes, got {offset} + {bytes}")
        with self.context:
            copy_to_device(to.address + offset, self.data, bytes, to.stream)

    def receive(self, DeviceBuffer source not None, size_t bytes, size_t offset=0):
        """Copies bytes of a device buffer here, in its stream's order, without waiting."""
        if bytes > self.capacity or offset + bytes > source.capacity:
            raise ValueError(f"expected at most {min(self.capacity, source.capacity)} bytes, got {offset} + {bytes}")
        with self.context:
            copy_to_host(self.data, source.address + offset, bytes, source.stream)

    @property
    def host_address(self):
        """int : the address of the memory."""
        return <uintptr_t> self.data


cdef int copy_to_device(uint64_t to, const void* source, size_t bytes, Stream stream) except -1 nogil:
    """Copies host memory to the device, in the stream's order; pinned memory must not change until then."""
    if bytes == 0:
        return 0
    return check(stream.context.state, driver().copy_to_device(to, source, bytes, stream.handle),
                 b"copying to the device")


cdef int copy_to_host(void* to, uint64_t source, size_t bytes, Stream stream) except -1 nogil:
    """Copies device memory to the host; it has arrived once the stream has reached this point."""
    if bytes == 0:
        return 0
    return check(stream.context.state, driver().copy_to_host(to, source, bytes, stream.handle),
                 b"copying from the device")


def read_ranges(Stream stream not None, const int64_t[::1] addresses, const int64_t[::1] sizes,
                const int64_t[::1] places, unsigned char[::1] into):
    """Copies ranges of device memory, as the stream finds them, to places in `into`: all of them in bytes."""
    cdef Py_ssize_t i
    for i in range(addresses.shape[0]):
        if not 0 <= places[i] <= into.shape[0] - sizes[i]:
            raise ValueError(f"expected places for {sizes[i]} bytes below {into.shape[0]}, got {places[i]}")
    with stream.context:
        with nogil:
            for i in range(addresses.shape[0]):
                if sizes[i] > 0:
                    copy_to_host(&into[places[i]], <uint64_t> addresses[i], <size_t> sizes[i], stream)
            stream.synchronize()


cdef int copy_on_device(uint64_t to, uint64_t source, size_t bytes, Stream stream) except -1 nogil:
    if bytes == 0:
        return 0
    return check(stream.context.state, driver().copy_on_device(to, source, bytes, stream.handle),
                 b"copying on the device")


cdef int set_bytes(uint64_t to, unsigned char value, size_t count, Stream stream) except -1 nogil:
    if count == 0:
        return 0
    return check(stream.context.state, driver().set_bytes(to, value, count, stream.handle), b"filling device memory")


cdef int set_words(uint64_t to, uint32_t value, size_t count, Stream stream) except -1 nogil:
    """Sets `count` 32-bit words."""
    if count == 0:
        return 0
    return check(stream.context.state, driver().set_words(to, value, count, stream.handle), b"filling device memory")
