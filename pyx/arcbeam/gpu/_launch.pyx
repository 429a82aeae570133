"""Kernels, CUDA streams and events. Each is freed by its owner, in any order."""

import threading
import weakref

cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memset

from arcbeam.gpu._cuda cimport Context, check, driver, ignore
from arcbeam.gpu._driver_table cimport (
    kCaptureUnsupported, kEventDisableTiming, kFunctionBinaryVersion, kFunctionDynamicShared, kFunctionLocal,
    kFunctionNonPortableCluster, kFunctionPtxVersion, kFunctionRegisters, kFunctionShared, kFunctionThreads, kInvalidImage,
    kInvalidPtx, kJitCompilerNotFound, kJitDisabled, kNoBinaryForGpu, kNotCapturing, kNotFound, kNotReady, kStreamNonBlocking,
    kUnsupportedPtxVersion, now_ns, poll_interval,
)

from arcbeam.core.errors import CudaError

cdef enum:
    FIRST_WITH_CLUSTERS = 90  # the architecture, as __CUDA_ARCH__ / 10

_lock = threading.Lock()
_modules = weakref.WeakValueDictionary()


@cython.no_gc
cdef class Module:
    """The kernels of one ``cuda/**/NAME.cu``, loaded into a context."""

    def __cinit__(self, Context context not None, str name not None, const unsigned char[::1] image not None):
        cdef char log[4096]
        cdef int code
        cdef const void* start = &image[0]
        self.context = context
        self.name = name
        memset(log, 0, sizeof(log))
        context.enter()
        try:
            with nogil:
                code = driver().module_load(&self.handle, start, log, sizeof(log) - 1)
            if code in (kNoBinaryForGpu, kInvalidImage, kInvalidPtx, kUnsupportedPtxVersion, kJitCompilerNotFound,
                        kJitDisabled):
                _raise_no_kernel(context, name, code, log.decode(errors="replace").strip())
            check(context.state, code, b"loading the kernels")
        finally:
            context.leave()

    def __dealloc__(self):
        if self.handle != NULL and self.context.enter_to_free():
            ignore(self.context.state, driver().module_unload(self.handle))
            self.context.leave()

    cpdef Function function(self, str name):
        """The kernel of this (unmangled) name."""
        return Function(self, name)


cdef int _raise_no_kernel(Context context, str name, int code, str log) except -1:
    from arcbeam.gpu.kernel_images import build_record

    cdef const char* code_name = NULL
    driver().error_name(code, &code_name)
    said = code_name.decode() if code_name != NULL else "CUDA_ERROR"
    record = build_record()
    built = ", ".join(record.architectures) or "none"
    message = (
        f"no kernel of {name!r} runs on cuda:{context.state.ordinal} ({context.state.name.decode(errors='replace')}, "
        f"compute capability {context.state.major}.{context.state.minor}): {said} ({code}). Built for {built}"
    )
    if record.ptx:
        message += f", and as PTX of {record.ptx} for newer ones"
    if code in (kUnsupportedPtxVersion, kJitCompilerNotFound, kJitDisabled):
        message += "; the PTX needs a newer driver, or one that may compile it"
    if log:
        message += f". The driver says: {log}"
    raise CudaError(message, name=said, code=code, action="loading the kernels")


cpdef Module load(Context context, str name):
    """The module of ``cuda/**/NAME.cu`` in a context, shared by all its holders."""
    from arcbeam.gpu.kernel_images import image

    # The key includes the context's address, because a new context of the same device shares nothing with the old
    # one.
    key = (<uintptr_t> <void*> context, name)
    with _lock:
        module = _modules.get(key)
        if module is None:
            module = _modules[key] = Module(context, name, image(name))
    return module


@cython.no_gc
cdef class Function:
    """A kernel; keeps its module loaded. `architecture`: of its code, as 90 for 9.0, at most that of the device."""

    def __cinit__(self, Module module not None, str name not None):
        self.module = module
        self.name = name
        self.name_bytes = name.encode()
        cdef const char* c_name = self.name_bytes
        module.context.enter()
        try:
            code = driver().module_function(&self.handle, module.handle, c_name)
            if code == kNotFound:
                ignore(module.context.state, code)
                raise CudaError(f"CUDA_ERROR_NOT_FOUND (500): the kernels of {module.name!r} have no {name!r}",
                                name="CUDA_ERROR_NOT_FOUND", code=code, action="finding a kernel")
            check(module.context.state, code, b"finding a kernel")
            # If the driver has compiled the code from PTX, the binary's version is the device's, and the PTX's
            # version is what the code has seen. nvcc may have made a binary from older PTX, too.
            self.architecture = min(self.attribute(kFunctionBinaryVersion), self.attribute(kFunctionPtxVersion))
        finally:
            module.context.leave()

    cdef bint has_clusters(self) noexcept nogil:
        """Whether launches may have clusters: the device supports them, and the code was compiled for them."""
        return self.module.context.state.clusters != 0 and self.architecture >= FIRST_WITH_CLUSTERS

    cdef int allow_shared(self, size_t bytes) except -1 nogil:
        """Lets launches use so much dynamic shared memory (bytes) in a block."""
        return check(self.module.context.state,
                     driver().function_set(self.handle, kFunctionDynamicShared, <int> bytes),
                     b"reserving shared memory")

    cdef int allow_large_clusters(self) except -1 nogil:
        """Lets launches use clusters of more than 8 blocks, if the device supports them."""
        return check(self.module.context.state, driver().function_set(self.handle, kFunctionNonPortableCluster, 1),
                     b"allowing large clusters")

    cdef int attribute(self, int attribute) except -1 nogil:
        cdef int value = 0
        check(self.module.context.state, driver().function_get(&value, attribute, self.handle),
              b"reading what a kernel needs")
        return value

    cdef int blocks_per_multiprocessor(self, int threads, size_t shared_bytes) except -1 nogil:
        """How many blocks of so many threads and so much dynamic shared memory fit a multiprocessor."""
        cdef int blocks = 0
        check(self.module.context.state, driver().occupancy_blocks(&blocks, self.handle, threads, shared_bytes),
              b"counting the blocks that fit")
        return blocks

    cdef int clusters_on_device(self, const LaunchShape* shape) except -1 nogil:
        """The number of clusters of this shape that fit the device at once; 0 for code without clusters."""
        cdef int clusters = 0
        if not self.has_clusters():
            return 0
        check(self.module.context.state, driver().occupancy_clusters(&clusters, self.handle, shape),
              b"counting the clusters that fit")
        return clusters

    def fits(self, int threads, size_t shared_bytes=0):
        """:meth:`blocks_per_multiprocessor` from Python."""
        with self.module.context:
            return self.blocks_per_multiprocessor(threads, shared_bytes)

    def clusters(self, int blocks, int threads, size_t shared_bytes=0):
        """:meth:`clusters_on_device` of so many blocks, from Python."""
        cdef LaunchShape shape
        shape.blocks = shape.cluster = blocks
        shape.threads, shape.shared_bytes, shape.cooperative = threads, shared_bytes, 0
        with self.module.context:
            if blocks > 8:
                self.allow_large_clusters()
            return self.clusters_on_device(&shape)

    def resources(self):
        """dict : registers and bytes of local memory of a thread; bytes of static shared memory of a block; threads."""
        with self.module.context:
            return {
                "registers": self.attribute(kFunctionRegisters),
                "local_bytes": self.attribute(kFunctionLocal),
                "shared_bytes": self.attribute(kFunctionShared),
                "threads": self.attribute(kFunctionThreads),
            }


cdef int launch(Function function, const LaunchShape* shape, void* parameter, Stream stream) except -1 nogil:
    """Starts a kernel whose one parameter is the struct at `parameter`; returns before it has run."""
    cdef int code = driver().launch(function.handle, shape, parameter, stream.handle)
    if code != 0:
        with gil:
            _raise_launch(function, shape, code)
    return 0


cdef int _raise_launch(Function function, const LaunchShape* shape, int code) except -1:
    action = (f"launching {function.name} as {shape.blocks} blocks of {shape.threads} threads in clusters of "
              f"{max(1, shape.cluster)} with {shape.shared_bytes} bytes of shared memory").encode()
    return check(function.module.context.state, code, action)


def launch_kernel(Function function not None, Stream stream not None, const unsigned char[::1] parameter not None, *,
                  uint32_t blocks, uint32_t threads, uint32_t cluster=1, uint32_t shared_bytes=0, bint cooperative=False):
    """:func:`launch` from Python, for single kernels in tests and benchmarks. `parameter`: the bytes of the struct."""
    cdef LaunchShape shape
    shape.blocks, shape.threads, shape.cluster, shape.shared_bytes = blocks, threads, cluster, shared_bytes
    shape.cooperative = cooperative
    with function.module.context:
        if shared_bytes > 48 * 1024:
            function.allow_shared(shared_bytes)
        if cluster > 8:
            function.allow_large_clusters()
        launch(function, &shape, <void*> &parameter[0], stream)


@cython.no_gc
cdef class Stream:
    """A CUDA stream that does not wait for the legacy default stream. Of priorities 0 is the lowest; lower go first."""

    def __cinit__(self, Context context not None, int priority=0):
        self.context = context
        context.enter()
        try:
            check(context.state, driver().stream_create(&self.handle, kStreamNonBlocking, priority),
                  b"making a stream")
        finally:
            context.leave()

    def __dealloc__(self):
        if self.handle != NULL and self.context.enter_to_free():
            ignore(self.context.state, driver().stream_destroy(self.handle))
            self.context.leave()

    @property
    def address(self):
        """int : the driver's handle, in the form that DLPack expects."""
        return <uintptr_t> self.handle

    cdef int synchronize(self) except -1 nogil:
        """Waits for all work of the stream; errors of that work appear here."""
        return check(self.context.state, driver().stream_synchronize(self.handle), b"waiting for the stream")

    cdef int is_done(self) except -1 nogil:
        """1 if the stream has no work left, else 0."""
        cdef int code = driver().stream_query(self.handle)
        if code == kNotReady:
            return 0
        check(self.context.state, code, b"reading the stream's state")
        return 1

    cdef int wait_for(self, Event event) except -1 nogil:
        """Later work of this stream starts after the event has come."""
        return check(self.context.state, driver().stream_wait_event(self.handle, event.handle, 0),
                     b"ordering streams")

    def refuse_capture(self, size_t stream=0):
        """CudaError if `stream` (a handle), or this one, is captured: work that waits for it would not run."""
        cdef int status = kNotCapturing
        cdef void* handle = <void*> <uintptr_t> stream if stream else self.handle
        with self.context:
            code = driver().stream_capturing(handle, &status)
            if code == 0 and status != kNotCapturing:
                code = kCaptureUnsupported
            check(self.context.state, code, b"checking whether a stream is captured")

    def wait_for_stream(self, size_t stream):
        """Later work of this stream starts after the work that another stream (a driver's handle) has now."""
        cdef Event event = Event(self.context)
        self.refuse_capture(stream)
        with self.context:
            event.record_on(stream)
            self.wait_for(event)

    def finish(self):
        """Waits for all work of the stream, without the GIL."""
        with self.context:
            with nogil:
                self.synchronize()


@cython.no_gc
cdef class Event:
    """A mark in a CUDA stream; without `timed` it is cheaper, and `milliseconds_since` fails."""

    def __cinit__(self, Context context not None, bint timed=False):
        self.context = context
        context.enter()
        try:
            check(context.state,
                  driver().event_create(&self.handle, 0 if timed else <int> kEventDisableTiming), b"making an event")
        finally:
            context.leave()

    def __dealloc__(self):
        if self.handle != NULL and self.context.enter_to_free():
            ignore(self.context.state, driver().event_destroy(self.handle))
            self.context.leave()

    cdef int record(self, Stream stream) except -1 nogil:
        """Puts the mark after the work that the stream has now."""
        return check(self.context.state, driver().event_record(self.handle, stream.handle), b"recording an event")

    cdef int record_on(self, uint64_t stream) except -1 nogil:
        """The same on a stream that is not ours, by the driver's handle."""
        return check(self.context.state, driver().event_record(self.handle, <void*> <uintptr_t> stream),
                     b"recording an event on the producer's stream")

    cdef int is_done(self) except -1 nogil:
        """1 if the mark has been reached, else 0; errors of the work before it appear here."""
        cdef int code = driver().event_query(self.handle)
        if code == kNotReady:
            return 0
        check(self.context.state, code, b"waiting for the device")
        return 1

    cdef int wait(self, int milliseconds) except -1 nogil:
        """1 once the mark has been reached, 0 if it was not within so many milliseconds; first polls, then sleeps."""
        cdef int64_t start = now_ns()
        cdef int64_t waited = 0
        while True:
            if self.is_done():
                return 1
            waited = now_ns() - start
            if waited >= <int64_t> milliseconds * 1000000:
                return 0
            poll_interval(waited)

    cdef int milliseconds_since(self, Event start, float* milliseconds) except -1 nogil:
        """The time between two marks that have been reached, both made with ``timed``."""
        return check(self.context.state, driver().event_elapsed(milliseconds, start.handle, self.handle),
                     b"reading the time between events")

    # From Python, for tests and benchmarks.

    def mark(self, Stream stream not None):
        """:meth:`record` from Python."""
        with self.context:
            self.record(stream)

    def reached(self, int milliseconds=0):
        """bool : whether the mark is reached within so many milliseconds; waits without the GIL."""
        cdef int done
        with self.context:
            with nogil:
                done = self.wait(milliseconds)
        return bool(done)

    def seconds_since(self, Event start not None):
        """float : the time between two timed marks that have been reached."""
        cdef float milliseconds = 0
        with self.context:
            self.milliseconds_since(start, &milliseconds)
        return milliseconds / 1000
