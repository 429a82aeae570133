"""The driver, its devices and their primary contexts; turns the driver's codes into exceptions."""

import os
import threading
import weakref

cimport cython
from cpython.exc cimport PyErr_Clear, PyErr_Fetch, PyErr_Occurred
from cpython.ref cimport Py_XDECREF, PyObject

from libc.string cimport memset

from arcbeam.gpu._driver_table cimport (
    forked, is_sticky, kCaptureUnsupported, kCaptureWrongThread, kClusterLaunch, kHostMemory, kInvalidContext,
    kInvalidValue, kL2Bytes, kMajor, kMemoryPools, kMinor, kMultiprocessors, kNoDevice, kNotFound, kNotInitialized,
    kOutOfMemory, kPointerDeviceOrdinal, kPointerIsManaged, kPointerMemoryType, kPointerOnDevice, kPointerRangeBytes,
    kPointerRangeStart, kSharedPerBlock, kSharedPerMultiprocessor, kStubLibrary, kSystemDriverMismatch,
    kThreadsPerMultiprocessor, watch_forks,
)

from arcbeam.core.errors import CudaError, CudaOutOfMemoryError, MissingDependencyError
from arcbeam.core.packages import missing_package

cdef enum:
    MAX_DEVICES = 64

cdef DriverTable table
cdef DeviceState states[MAX_DEVICES]
cdef int loaded = 0  # 1: the table is filled and the driver initialised
cdef int first_process = 0

_lock = threading.RLock()
_contexts = weakref.WeakValueDictionary()


cdef DriverTable* driver() noexcept nogil:
    return &table


cdef str _pending():
    """Takes the exception that cuda-python raised with its code, to add its text to ours."""
    cdef PyObject* kind
    cdef PyObject* value
    cdef PyObject* trace
    if PyErr_Occurred() == NULL:
        return ""
    PyErr_Fetch(&kind, &value, &trace)
    text = str(<object> value) if value != NULL else str(<object> kind)
    Py_XDECREF(kind)
    Py_XDECREF(value)
    Py_XDECREF(trace)
    return text


cdef int check(DeviceState* state, int code, const char* action) except -1 nogil:
    if code != 0:
        with gil:
            _raise(state, code, action)
    return 0


cdef void ignore(DeviceState* state, int code) noexcept nogil:
    """For calls that free: their result codes are ignored, but a lost context is remembered."""
    if code == 0:
        return
    if state != NULL and is_sticky(code):
        state.lost = code
    if code == kNotFound:
        with gil:
            PyErr_Clear()


cdef tuple describe(int code):
    """The driver's name of a code, and its text."""
    cdef const char* name = NULL
    cdef const char* text = NULL
    if table.error_name == NULL or table.error_name(code, &name) != 0 or name == NULL:
        name = b"CUDA_ERROR"
    if table.error_text == NULL or table.error_text(code, &text) != 0 or text == NULL:
        text = b"an error that this driver does not describe"
    _pending()
    return name.decode(), text.decode()


cdef int _raise(DeviceState* state, int code, const char* action) except -1:
    detail = _pending()
    name, text = describe(code)
    doing = action.decode()
    where = "" if state == NULL else f" on cuda:{state.ordinal}"
    message = f"{name} ({code}) while {doing}{where}: {text}"
    if detail:
        message += f" ({detail})"
    if kCaptureUnsupported <= code <= kCaptureWrongThread:
        message += "; a CUDA graph is being captured: decode before the capture or after it"
    if code == kOutOfMemory:
        raise CudaOutOfMemoryError(message, name=name, code=code, action=doing)
    if state != NULL and is_sticky(code):
        if state.lost == 0:
            state.lost = code
        message += "; the device cannot be used by this process any more, start a new one"
    raise CudaError(message, name=name, code=code, action=doing)


cdef int require_usable(DeviceState* state) except -1 nogil:
    if forked() or (state != NULL and state.lost != 0):
        with gil:
            _raise_unusable(state)
    return 0


cdef int _raise_unusable(DeviceState* state) except -1:
    if forked():
        raise CudaError(
            f"CUDA was first used in process {first_process}, and this process {os.getpid()} was forked from it: the "
            f"driver does not work in a forked child. Use multiprocessing's start method 'spawn' or 'forkserver', make "
            f"decoders only after the fork, or use device=\"cpu\"",
            name="CUDA_ERROR_NOT_INITIALIZED", code=kNotInitialized, action="using CUDA after a fork",
        )
    name, text = describe(state.lost)
    raise CudaError(
        f"cuda:{state.ordinal} cannot be used by this process any more, because an earlier call failed with {name} "
        f"({state.lost}): {text}; start a new process",
        name=name, code=state.lost, action="using a device that was lost",
    )


# Finding the driver


def use_driver(size_t address=0):
    """Installs another driver, for tests; 0: cuda-python's. RuntimeError while handles of the former have owners."""
    global loaded
    with _lock:
        if len(_contexts) != 0:
            raise RuntimeError("the driver cannot be replaced while its contexts are held")
        memset(&table, 0, sizeof(table))
        memset(&states[0], 0, sizeof(states))
        loaded = 0
        if address != 0:
            _initialise(address)


cdef int _load() except -1:
    with _lock:
        require_usable(NULL)
        if loaded == 0:
            _initialise(_address_from_cuda_python())
    return 0


cdef int _initialise(size_t address) except -1:
    global table, loaded, first_process
    table = (<DriverTable*> address)[0]
    code = table.init(0)
    if code != 0:
        detail = _pending()
        name, text = ("CUDA_ERROR_NOT_FOUND", detail) if detail else describe(code)
        raise CudaError(_why_no_start(code, name, text), name=name, code=code, action="starting the driver")
    watch_forks()
    first_process = os.getpid()
    loaded = 1
    return 0


cdef str _why_no_start(int code, str name, str text):
    said = f"({name}, {code}: {text})"
    if code == kNotFound or code == kStubLibrary:
        return f"no CUDA driver: libcuda.so.1 comes with NVIDIA's driver and was not found {said}"
    if code == kNoDevice:
        return f"no CUDA device: the driver sees none; CUDA_VISIBLE_DEVICES may hide them {said}"
    if code == kNotInitialized:
        return ("the CUDA driver does not start, as it never does in a process forked from one that used it. Use "
                f"multiprocessing's start method 'spawn' or 'forkserver', or device=\"cpu\" {said}")
    if code == kSystemDriverMismatch:
        return f"the CUDA driver's library and the kernel's module differ in version: reboot after an update {said}"
    return f"the CUDA driver does not start {said}"


cdef size_t _address_from_cuda_python() except? 0:
    from arcbeam.gpu.kernel_images import build_record

    record = build_record()
    if record.no_driver_calls is not None:
        raise MissingDependencyError(
            f"this build of arcbeam cannot call the CUDA driver, because {record.no_driver_calls} when it was built; "
            f"docs/guide/install.md says how to build it for CUDA"
        )
    try:
        from arcbeam.gpu import _cydriver
    except ImportError as error:
        raise _no_bindings(error) from error
    except TypeError as error:  # the types of a call have changed between versions
        raise _no_bindings(error) from error
    return _cydriver.address()


def _no_bindings(said):
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = f"cuda-bindings {version('cuda-bindings')} does not fit"
    except PackageNotFoundError:
        found = "cuda-bindings is not installed"
    return missing_package("cuda-bindings>=12.9,<14", "CUDA", f"12.9 or newer ({found}: {said})")


def driver_version():
    """(int, int) : the newest CUDA version that the driver supports."""
    cdef int version = 0
    _load()
    check(NULL, table.driver_version(&version), b"reading the driver's version")
    return version // 1000, version % 1000 // 10


def device_count():
    """int : devices that the driver shows to this process."""
    cdef int count = 0
    _load()
    check(NULL, table.device_count(&count), b"counting the devices")
    return min(count, <int> MAX_DEVICES)


cdef int _attribute(DeviceState* state, int attribute, int* into) except -1:
    return check(state, table.device_attribute(into, attribute, state.device), b"reading the device's attributes")


cdef DeviceState* _state_of(int ordinal) except NULL:
    count = device_count()
    if not 0 <= ordinal < count:
        visible = f"the driver shows {count}" if count != 1 else "the driver shows cuda:0 alone"
        raise CudaError(f"no device cuda:{ordinal}: {visible}", name="CUDA_ERROR_INVALID_DEVICE", code=101,
                        action="finding a device")
    cdef DeviceState* state = &states[ordinal]
    cdef size_t memory_bytes = 0
    with _lock:
        if state.known:
            return state
        state.ordinal = ordinal
        check(state, table.device_get(&state.device, ordinal), b"finding a device")
        check(state, table.device_name(state.name, sizeof(state.name) - 1, state.device), b"reading the device's name")
        check(state, table.device_memory(&memory_bytes, state.device), b"reading the device's memory size")
        state.memory_bytes = memory_bytes
        _attribute(state, kMajor, &state.major)
        _attribute(state, kMinor, &state.minor)
        _attribute(state, kMultiprocessors, &state.multiprocessors)
        _attribute(state, kThreadsPerMultiprocessor, &state.threads_per_multiprocessor)
        _attribute(state, kSharedPerBlock, &state.shared_per_block)
        _attribute(state, kSharedPerMultiprocessor, &state.shared_per_multiprocessor)
        _attribute(state, kL2Bytes, &state.l2_bytes)
        _attribute(state, kMemoryPools, &state.memory_pools)
        _attribute(state, kClusterLaunch, &state.clusters)
        state.known = 1
    return state


def device_properties(int ordinal):
    """dict : the device's name and numbers, without making a context on it."""
    cdef DeviceState* state = _state_of(ordinal)
    return {
        "ordinal": state.ordinal,
        "name": state.name.decode(errors="replace"),
        "compute_capability": (state.major, state.minor),
        "multiprocessors": state.multiprocessors,
        "threads_per_multiprocessor": state.threads_per_multiprocessor,
        "shared_bytes_per_block": state.shared_per_block,
        "shared_bytes_per_multiprocessor": state.shared_per_multiprocessor,
        "l2_bytes": state.l2_bytes,
        "memory_bytes": state.memory_bytes,
        "memory_pools": bool(state.memory_pools),
        "clusters": bool(state.clusters),
    }


# Contexts


@cython.no_gc
cdef class Context:
    """A device's primary context, retained until this object goes; as context manager it is current in the thread."""

    def __cinit__(self, int ordinal):
        cdef int code
        self.state = _state_of(ordinal)
        require_usable(self.state)
        if not self.state.memory_pools:
            raise CudaError(f"cuda:{ordinal} has no stream-ordered memory pools, which arcbeam needs",
                            name="CUDA_ERROR_NOT_SUPPORTED", code=801, action="making a context")
        with nogil:
            code = table.context_retain(&self.handle, self.state.device)
        check(self.state, code, b"making the device's context")
        self.retained = 1

    def __dealloc__(self):
        if self.retained and not forked():
            ignore(self.state, table.context_release(self.state.device))

    cdef int enter(self) except -1 nogil:
        """Makes the device current in this thread; fails at once on a lost device and in a forked child."""
        require_usable(self.state)
        return check(self.state, table.context_push(self.handle), b"making the context current")

    cdef int leave(self) noexcept nogil:
        cdef void* popped = NULL
        if not forked():
            ignore(self.state, table.context_pop(&popped))
        return 0

    cdef int enter_to_free(self) noexcept nogil:
        """Like enter, for owners that are being deleted: 1 if the driver may be called, and leave() must follow."""
        cdef int code
        if forked():
            return 0
        code = table.context_push(self.handle)
        ignore(self.state, code)
        return code == 0

    cdef int memory_info(self, size_t* free_bytes, size_t* total_bytes) except -1 nogil:
        """Inside enter(): bytes of the device that are free, and all of them."""
        return check(self.state, table.memory_info(free_bytes, total_bytes), b"reading the free memory")

    def __enter__(self):
        self.enter()
        return self

    def __exit__(self, *_):
        self.leave()

    def __repr__(self):
        return f"<arcbeam context of cuda:{self.state.ordinal}>"

    @property
    def ordinal(self):
        return self.state.ordinal

    @property
    def lost(self):
        """The driver's code after which the device became unusable, or 0."""
        return self.state.lost

    def memory(self):
        """(int, int) : bytes of the device that are free, and all of them."""
        cdef size_t free_bytes = 0, total_bytes = 0
        with self:
            self.memory_info(&free_bytes, &total_bytes)
        return free_bytes, total_bytes


cpdef Context context_of(int ordinal):
    """The device's context, shared with all its holders in this process."""
    _load()
    with _lock:
        context = _contexts.get(ordinal)
        if context is None:
            context = _contexts[ordinal] = Context(ordinal)
    require_usable((<Context> context).state)
    return context


cdef Memory memory_at(Context context, uint64_t address) except *:
    """Inside enter(): the device of the memory at an address, and its range, with one call."""
    # The range is not that of cuMemGetAddressRange: of memory that is mapped in pieces, as growing segments of torch
    # are, that would be only one piece of an array.
    cdef Memory found
    cdef unsigned int kind = 0, managed = 0
    cdef uint64_t there = 0
    cdef int[6] attributes = [kPointerMemoryType, kPointerIsManaged, kPointerOnDevice, kPointerDeviceOrdinal,
                              kPointerRangeStart, kPointerRangeBytes]
    cdef void* values[6]
    values[0], values[1], values[2] = &kind, &managed, &there
    values[3], values[4], values[5] = &found.device, &found.start, &found.bytes
    memset(&found, 0, sizeof(found))
    found.device = -1
    code = table.pointer_attributes(6, attributes, values, address)
    if code != kInvalidValue and code != kInvalidContext:  # these codes say that the address is not the driver's
        check(context.state, code, b"finding whose memory an address is")
        found.is_known = kind != 0 or managed != 0
        found.is_managed, found.is_hosts = managed != 0, kind == kHostMemory
        found.on_device = there == address
    return found


def device_of_address(Context context, uint64_t address):
    """int : the device to which the memory at an address belongs; -1 if it is not the driver's."""
    cdef Memory found
    with context:
        found = memory_at(context, address)
    return found.device if found.is_known else -1
