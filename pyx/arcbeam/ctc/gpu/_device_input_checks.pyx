"""Checks a few frames of arrays on a device, which are copied after the kernel, with its results."""

cimport cython
from libc.stdint cimport uint32_t, uintptr_t
from libcpp.vector cimport vector

from arcbeam.gpu._cuda cimport driver, ignore

cdef enum:
    MOST_CHECKS = 8  # one copy each
    MOST_CHECKS_OF_CHUNKS = 1  # streams have a batch every few frames


@cython.no_gc
cdef class DeviceInputChecks:
    """Copies the frames to be checked from the device, for one engine. `stream`: the kernel's."""

    def __cinit__(self, Stream stream not None):
        self.stream = stream
        self.rows = HostBuffer(stream.context)

    cdef int fetch(self, InputChecks checks, const int64_t[:, ::1] utterances, bint of_streams) except -1:
        """Starts the copies, after the launch. Errors are ignored: the kernel reports a fault of the device, too."""
        cdef uint32_t columns = checks.checks.get().columns()
        cdef const vector[Pick]* picked = &checks.checks.get().picks()
        cdef const Pick* pick
        cdef int code = 0
        self.fetched = 0
        checks.pick(utterances, MOST_CHECKS_OF_CHUNKS if of_streams else MOST_CHECKS)
        self.picks.assign(picked.begin(), picked.end())  # for other threads may pick while this one waits
        self.rows.reserve(4 * <size_t> MOST_CHECKS * columns)
        if not self.rows.is_pinned():  # pageable memory would make the copy wait
            return 0
        while code == 0 and self.fetched < self.picks.size():
            pick = &self.picks[self.fetched]
            code = driver().copy_to_host(self._row(self.fetched, columns), <uintptr_t> pick.row,
                                         columns * (2 if pick.is_half else 4), self.stream.handle)
            self.fetched += code == 0
        ignore(self.stream.context.state, code)
        return 0

    cdef int check(self, InputChecks checks) except -1:
        """Checks the frames, whose copies must have ended."""
        cdef uint32_t columns = checks.checks.get().columns()
        cdef size_t i
        for i in range(self.fetched):
            checks.check_frame(&self.picks[i], self._row(i, columns))
        return 0

    cdef void* _row(self, size_t i, uint32_t columns) noexcept:
        return <unsigned char*> self.rows.data + 4 * i * columns

    cdef size_t pinned_bytes(self):
        return self.rows.pinned_bytes()

    cdef int release(self) except -1:
        """Gives the memory back."""
        self.rows = HostBuffer(self.stream.context)
        return 0
