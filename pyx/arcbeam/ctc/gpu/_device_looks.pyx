"""Looks at a few frames of arrays on a device, which come by copies beside the kernel: it does not wait for them."""

cimport cython
from libc.stdint cimport uint32_t, uintptr_t

from arcbeam.gpu._cuda cimport driver, ignore

cdef enum:
    MOST_LOOKS = 8  # a copy each


@cython.no_gc
cdef class DeviceLooks:
    """The way of these frames to one engine.

    Parameters
    ----------
    copies : Stream
        Not the one on which the kernel runs.
    """

    def __cinit__(self, Stream copies not None):
        self.copies = copies
        self.given = Event(copies.context)
        self.rows = HostBuffer(copies.context)

    cdef int begin(self, Stream reader) except -1:
        """Before the launch on `reader`, which has been told to wait for the arrays' producers."""
        return self.given.record(reader)

    cdef int fetch(self, Looks looks, const int64_t[:, ::1] utterances) except -1:
        """After the launch: sends for a few frames.

        A copy that fails costs a look: what it says of the device the kernel will say, too.
        """
        cdef uint32_t columns = looks.looks.get().columns()
        cdef const Pick* pick
        cdef int code = 0
        self.fetched = 0
        looks.pick(utterances, MOST_LOOKS)
        self.picks = looks.looks.get().picks()  # ours: other threads may pick while we wait
        self.rows.reserve(4 * <size_t> MOST_LOOKS * columns)
        if not self.rows.is_pinned():  # then a copy would be waited for
            return 0
        self.copies.wait_for(self.given)
        while code == 0 and self.fetched < self.picks.size():
            pick = &self.picks[self.fetched]
            code = driver().copy_to_host(self._row(self.fetched, columns), <uintptr_t> pick.row,
                                         columns * (2 if pick.is_half else 4), self.copies.handle)
            self.fetched += code == 0
        ignore(self.copies.context.state, code)
        return 0

    cdef int look(self, Looks looks) except -1:
        """Once the kernel has ended: looks at what has come."""
        cdef uint32_t columns = looks.looks.get().columns()
        cdef size_t i
        if self.fetched == 0:
            return 0
        with nogil:
            self.copies.synchronize()
        for i in range(self.fetched):
            looks.look_at(&self.picks[i], self._row(i, columns))
        return 0

    cdef void* _row(self, size_t i, uint32_t columns) noexcept:
        return <unsigned char*> self.rows.data + 4 * i * columns

    cdef size_t pinned_bytes(self):
        return self.rows.pinned_bytes()

    cdef int release(self) except -1:
        """Gives the memory back."""
        self.rows = HostBuffer(self.copies.context)
        return 0
