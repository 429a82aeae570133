"""Sends log-probs of the host in pieces of a few frames, in the order in which lanes need them, while kernels decode.

Threads gather them in a buffer, pinned if possible; after each part a word on the device counts the lines that arrived.
"""

cimport cython
from libc.stdint cimport uintptr_t
from libcpp.utility cimport move

from arcbeam.core._interrupts cimport SLICE_MS, check_interrupts
from arcbeam.gpu._cuda cimport driver, ignore
from arcbeam.gpu._memory cimport MemoryPool, copy_to_device
from arcbeam.gpu._driver_table cimport forked, now_ns
from arcbeam.ctc.gpu.searches._search_view cimport kLineBytes, kNoIndex

from arcbeam.gpu.tuned import search_plan
from arcbeam.core.errors import CapacityError

cdef enum:
    SLOTS = 2  # of gathered log-probs: one is filled while the other is read
    CANCEL = 0  # words before the slots: the value that ends all waiting, then the counts to send after each part
    COUNTS = 1


cdef vector[Source] sources_of(const int64_t[:, ::1] utterances, uint32_t columns) except *:
    cdef vector[Source] sources
    cdef Source source
    cdef int64_t value_bytes
    for i in range(utterances.shape[0]):
        value_bytes = 2 if utterances[i, 3] else 4
        source.rows = <const unsigned char*> <uintptr_t> utterances[i, 0]
        source.row_stride = utterances[i, 1] * value_bytes
        source.frames = <uint32_t> utterances[i, 2]
        source.row_bytes = <uint32_t> (columns * value_bytes)
        sources.push_back(source)
    return move(sources)


@cython.no_gc
cdef class Staging:
    """Sends log-probs to one engine. `stream` is that of the copies, not the kernel's."""
    # Another stream counts what has arrived, after an event: two copies of one stream follow each other, but nothing
    # guarantees that a running kernel sees the first before the second.

    def __cinit__(self, MemoryPool pool not None, Stream stream not None, size_t threads):
        self.stream, self.counting = stream, Stream(pool.context)
        self.threads = threads
        self.memory = DeviceBuffer(pool, stream, "the log-probs")
        self.word = DeviceBuffer(pool, stream, "the log-probs")
        self.gathered = HostBuffer(pool.context)
        self.first_sent, self.last_sent = Event(pool.context), Event(pool.context)
        self.even_sent, self.odd_sent = Event(pool.context), Event(pool.context)

    def __dealloc__(self):
        del self.order
        if not forked():  # in a forked child the threads do not exist, and joining them would never end
            del self.gatherer

    cdef int begin(self, const int64_t[:, ::1] utterances, uint32_t columns, size_t lanes) except -1:
        """Plans the order of utterances and prepares the memory; all that was sent before must have been decoded."""
        cdef vector[Source] sources = sources_of(utterances, columns)
        cdef Source source
        cdef Part part
        cdef uint32_t* counts
        cdef size_t i
        cdef uint64_t widest = 1, first, most
        del self.order
        self.order = NULL
        self.next_part = 0
        for source in sources:
            widest = max(widest, <uint64_t> source.row_bytes)
        self.piece_frames = search_plan.piece_frames(widest, min(lanes, sources.size()))
        first, most = search_plan.FIRST_PART_BYTES, search_plan.LARGEST_PART_BYTES
        with nogil:
            self.order = new Order(move(sources), lanes, self.piece_frames)
            self.parts = self.order.parts(first, most)
        self.slot_bytes = 0
        for part in self.parts:
            self.slot_bytes = max(self.slot_bytes, (part.end - part.line) * kLineBytes)
        self.alone_bytes = search_plan.ALONE_BYTES
        if self.gatherer == NULL and self.slot_bytes > self.alone_bytes:
            try:
                self.gatherer = new Gatherer(self.threads)
            except RuntimeError as error:  # std::system_error: the machine cannot start more
                raise CapacityError(f"threads: {self.threads} threads cannot be started ({error}); use fewer") from None
        with nogil:
            self.word.reserve(4, False)
            self.memory.reserve(max(<uint64_t> 1, self.order.end()) * kLineBytes, False)
            self.gathered.reserve(self._slot(0) + SLOTS * self.slot_bytes)
            counts = <uint32_t*> self.gathered.data
            counts[CANCEL] = kNoIndex
            for i in range(self.parts.size()):
                counts[COUNTS + i] = <uint32_t> self.parts[i].end
        return 0

    cdef size_t _slot(self, size_t number) noexcept nogil:
        """The place where a slot begins."""
        cdef size_t words = 4 * (COUNTS + self.parts.size())
        return (words + kLineBytes - 1) // kLineBytes * kLineBytes + number % SLOTS * self.slot_bytes

    cdef int send(self, size_t parts) except -1 nogil:
        """Sends so many more parts, or as many as are left."""
        cdef int64_t checked_at = now_ns()
        cdef size_t last = min(self.next_part + min(parts, self.parts.size()), self.parts.size())
        while self.next_part < last:
            self._send_part()
            if now_ns() - checked_at > <int64_t> SLICE_MS * 1000000:
                with gil:
                    check_interrupts()
                checked_at = now_ns()
        return 0

    cdef int _send_part(self) except -1 nogil:
        cdef size_t number = self.next_part
        cdef const Part* part = &self.parts[number]
        self._send_gathered(number, part)
        if number % 2 == 0:
            self.even_sent.record(self.stream)
            self.counting.wait_for(self.even_sent)
        else:
            self.odd_sent.record(self.stream)
            self.counting.wait_for(self.odd_sent)
        # A copy does this: a kernel that sets the word might wait for a place on the device.
        copy_to_device(self.word.address, <uint32_t*> self.gathered.data + COUNTS + number, 4, self.counting)
        if number == 0:
            self.first_sent.record(self.counting)
        self.next_part += 1
        if self.next_part == self.parts.size():
            self.last_sent.record(self.counting)
        return 0

    cdef int _send_gathered(self, size_t number, const Part* part) except -1 nogil:
        cdef unsigned char* slot = <unsigned char*> self.gathered.data + self._slot(number)
        cdef size_t bytes = (part.end - part.line) * kLineBytes
        if number >= SLOTS:  # the old content of the slot must have been sent
            if number % 2 == 0:
                self._wait(self.even_sent)
            else:
                self._wait(self.odd_sent)
        if bytes <= self.alone_bytes:
            gather(self.order[0], part[0], slot)
        else:
            self.gatherer.start(self.order[0], part[0], slot)
            while not self.gatherer.wait(SLICE_MS):
                pass
        return copy_to_device(self.memory.address + part.line * kLineBytes, slot, bytes, self.stream)

    cdef int finish(self) except -1 nogil:
        """Waits until all parts that were sent have been read."""
        if self.parts.size() > 0:
            self._wait(self.last_sent)
        return 0

    cdef int _wait(self, Event event) except -1 nogil:
        while not event.wait(SLICE_MS):
            with gil:
                check_interrupts()
        return 0

    cdef void cancel(self) noexcept nogil:
        """Ends the waiting of a kernel: no more log-probs will arrive."""
        if self.parts.size() > 0:
            ignore(self.stream.context.state,
                   driver().copy_to_device(self.word.address, <uint32_t*> self.gathered.data + CANCEL, 4,
                                           self.counting.handle))

    cdef void drain(self) noexcept nogil:
        """Waits for all copies, and ignores their result codes."""
        ignore(self.stream.context.state, driver().stream_synchronize(self.stream.handle))
        ignore(self.stream.context.state, driver().stream_synchronize(self.counting.handle))

    cdef void clear(self) noexcept nogil:
        """Gives the device's memory back."""
        self.parts.clear()
        self.memory.clear()
        self.word.clear()

    cdef int release(self) except -1:
        """Gives back the host's memory, after that of the device has been cleared."""
        self.gathered = HostBuffer(self.stream.context)
        return 0

    cdef size_t device_bytes(self) noexcept nogil:
        return self.memory.capacity + self.word.capacity

    cdef size_t pinned_bytes(self) noexcept nogil:
        return self.gathered.pinned_bytes()


def plan_of(const int64_t[:, ::1] utterances, uint32_t columns, size_t lanes, uint32_t piece_frames):
    """list of (utterance, first_row, rows, line): the order in which pieces would be sent, for tests."""
    cdef Order* order = new Order(sources_of(utterances, columns), lanes, piece_frames)
    cdef const Piece* piece
    pieces = []
    try:
        for i in range(order.pieces().size()):
            piece = &order.pieces()[i]
            pieces.append((piece.utterance, piece.first_row, piece.rows, piece.line))
        return pieces
    finally:
        del order
