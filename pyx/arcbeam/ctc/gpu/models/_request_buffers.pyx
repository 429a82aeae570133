"""The requests of an engine's lanes: tables on the device, buffers that kernels and threads of the host share.

Answers about arcs are copied on two CUDA streams (_requests/copied_answers.hpp); lanes read KenLM's in host memory.
"""

import weakref

cimport cython
from libc.stdint cimport uint32_t, uintptr_t
from libc.string cimport memcpy, memset

from arcbeam.gpu._cuda cimport check, driver
from arcbeam.gpu._memory cimport set_bytes
from arcbeam.ctc.gpu.models._requests cimport (
    Answer, Question, answer_buffer_bytes, answer_buffer_start_bytes, kHalves, kRequestHeadBytes, request_table_bytes, request_buffer_bytes,
)
from arcbeam.ctc.gpu.searches._rescoring_view cimport kMostHistories

from arcbeam.gpu.tuned import search_plan
from arcbeam.core.errors import CapacityError, CudaOutOfMemoryError

cdef enum:
    GRAIN = 128  # buffers begin at cache lines
    MOST_ENTRIES = 1 << 24  # of a lane's table


@cython.no_gc
cdef class Half:
    """One half of the lanes: the CUDA streams and events for copies to them."""

    def __cinit__(self, Context context not None):
        self.copying, self.counting = Stream(context), Stream(context)
        self.sent, self.notified = Event(context), Event(context)

    cdef HalfHandles handles(self):
        return HalfHandles(copying=self.copying.handle, counting=self.counting.handle, sent=self.sent.handle,
                           notified=self.notified.handle)


@cython.no_gc
cdef class LaneRequests:
    """Threads answer rounds of questions while a kernel runs, and `answer` between launches. `stream`: the kernel's."""

    def __cinit__(self, MemoryPool pool not None, Stream stream not None, rescoring, size_t threads):
        self.context, self.stream = pool.context, stream
        self.lookups = HostLookups(rescoring, min(threads, search_plan.ANSWERING_THREADS))
        self.requested = Requested.arcs if rescoring.kenlm is None else Requested.model
        self.tables = DeviceBuffer(pool, stream, "answers of the language model")
        self.answer_buffers = DeviceBuffer(pool, stream, "answers of the language model")
        self.buffers, self.words = SharedBuffer(pool.context), SharedBuffer(pool.context)
        self.outgoing = HostBuffer(pool.context)
        self.size = search_plan.REQUEST_ENTRIES
        self.numbered = weakref.WeakValueDictionary()
        if self.requested == Requested.model:
            with pool.context:
                self._begin_histories()
        else:
            self.halves = Half(pool.context), Half(pool.context)
            self.lookups.copy_by(new DriverCopier(driver(), pool.context.handle, (<Half> self.halves[0]).handles(),
                                                   (<Half> self.halves[1]).handles()))

    cdef int _begin_histories(self) except -1:
        """Makes room for the words of the first histories, which have no numbers yet."""
        self._share(self.words, 4 * <size_t> search_plan.REQUEST_HISTORIES * self.lookups.words_a_history)
        return self._number_anew(search_plan.REQUEST_HISTORIES)

    cdef int _number_anew(self, size_t histories) except -1:
        """Takes all numbers back, for which there is room for the words of so many. Streams keep their histories."""
        streams = [reference() for reference in self.numbered.valuerefs()]  # while other threads make more
        self.kept_by_streams = sum([stream.release_lm_histories() for stream in streams if stream is not None])
        self.lookups.number_anew(<uint32_t*> self.words.data, histories)
        self.histories = histories
        return 0

    cdef int begin_batch(self) except -1:
        """Returns whether histories have new numbers from now on; then old entries of caches are no longer valid."""
        cdef size_t kept, taken
        if self.requested != Requested.model:
            return 0
        if self.histories == 0:  # their memory was given back
            self._begin_histories()
            return 1
        kept, taken = search_plan.kept_histories(self.lookups.kenlm.bytes_a_state()), self.lookups.kenlm.size()
        if taken <= max(kept // 2, 2 * self.kept_by_streams):
            try:
                if taken > self.histories // 2:
                    self.make_room()  # now, because lanes would stop for it later
                return 0
            except CudaOutOfMemoryError:
                pass
        self._number_anew(self.histories)
        return 1

    cdef int begin(self, uint32_t lanes, RescoringParams* params) except -1:
        """Buffers and tables for so many lanes, all empty."""
        self.lookups.start()
        self.lanes.resize(lanes)
        return self._clear(params)

    cdef int _clear(self, RescoringParams* params) except -1:
        cdef size_t lanes = self.lanes.size(), box = request_buffer_bytes(self.size), i
        cdef size_t first = (lanes * sizeof(RequestView) + GRAIN - 1) // GRAIN * GRAIN
        cdef unsigned char* memory
        box = (box + GRAIN - 1) // GRAIN * GRAIN
        self.tables.reserve(lanes * request_table_bytes(self.size), False)
        self._share(self.buffers, first + lanes * box)
        set_bytes(self.tables.address, 0xff, lanes * request_table_bytes(self.size), self.stream)
        memory = <unsigned char*> self.buffers.data
        for i in range(lanes):
            self.lanes[i].memory = <unsigned char*> <uintptr_t> (self.tables.address + i * request_table_bytes(self.size))
            self.lanes[i].mapped = memory + first + i * box
            self.lanes[i].size = self.size
            self.lanes[i].answer_buffer, self.lanes[i].slot = <unsigned char*> NULL, <uint32_t> (i // kHalves)
            memset(self.lanes[i].mapped, 0, kRequestHeadBytes)
        if self.lookups.copies():
            self._have_answer_buffers()
        memcpy(memory, self.lanes.data(), lanes * sizeof(RequestView))
        params.views = <const RequestView*> memory
        params.history_words, params.words_a_history = <const uint32_t*> NULL, 0
        if self.requested == Requested.model:
            params.history_words = <const uint32_t*> self.words.data
            params.words_a_history = self.lookups.words_a_history
        return 0

    cdef int _have_answer_buffers(self) except -1:
        """Makes an answer buffer for each half of the lanes, and a buffer on the host from which it is filled."""
        cdef size_t lanes = self.lanes.size(), most = (lanes + kHalves - 1) // kHalves, half, i
        cdef size_t bytes = (answer_buffer_bytes(most, self.size) + GRAIN - 1) // GRAIN * GRAIN
        cdef unsigned char* buffers[2]
        self.answer_buffers.reserve(kHalves * bytes, False)
        self.outgoing.reserve(kHalves * bytes)
        for half in range(kHalves):
            set_bytes(self.answer_buffers.address + half * bytes, 0, answer_buffer_start_bytes(most), self.stream)
            buffers[half] = <unsigned char*> self.outgoing.data + half * bytes
        for i in range(lanes):
            self.lanes[i].answer_buffer = <unsigned char*> <uintptr_t> (self.answer_buffers.address + i % kHalves * bytes)
        self.lookups.copy_to(self.lanes, buffers)
        return 0

    cdef int watch(self) except -1:
        """From now on threads answer."""
        return self.lookups.watch(self.lanes)

    cdef void stop(self) noexcept nogil:
        """Call this when the kernel has ended: no thread reads the buffers any more."""
        self.lookups.stop()

    cdef int check(self) except -1:
        """Raises an error if a copy has failed, which the answering threads cannot do."""
        if self.lookups.copies():
            return check(self.context.state, self.lookups.failure(), b"sending answers to lanes")
        return 0

    cdef int answer(self, bint needs_room, RescoringParams* params) except -1:
        """Between launches: answers lanes' questions, or makes the room that a lane lacks for them."""
        if needs_room:
            if self.size >= MOST_ENTRIES:
                raise CapacityError("a frame needs more than 2**23 words, or arcs and back-off weights: use a smaller beam or max_active")
            self.size *= 2
            return self._clear(params)  # lanes that wait for other answers repeat their questions
        while not self.lookups.answer_all(self.lanes):
            self.make_room()
            params.history_words = <const uint32_t*> self.words.data
        if self.lookups.copies():
            with nogil:
                self.lookups.send_open()
        return self.check()

    cdef int make_room(self) except -1:
        """Makes room for the words of more histories."""
        cdef SharedBuffer more = SharedBuffer(self.context)
        if self.histories >= kMostHistories:
            raise CapacityError("a batch has more than 2**28 histories: use smaller batches")
        self._share(more, 8 * self.histories * self.lookups.words_a_history)
        self.lookups.kenlm.move(<uint32_t*> more.data, 2 * self.histories)
        self.words, self.histories = more, 2 * self.histories
        return 0

    cdef int _share(self, SharedBuffer buffer, size_t bytes) except -1:
        try:
            buffer.reserve(bytes)
        except CudaOutOfMemoryError as error:
            raise CudaOutOfMemoryError(
                f"{error}. With placement='host' and 'cpu' requests reach the host through such memory; 'resident' needs "
                "none",
                name=error.name, code=error.code, action=error.action,
            ) from None
        return 0

    cdef int clear(self) except -1:
        """Gives back the memory on the device that has grown."""
        self.tables.clear()
        self.answer_buffers.clear()
        self.size = search_plan.REQUEST_ENTRIES
        return 0

    cdef int release(self) except -1:
        """Gives back the host's memory, too, after that of the device has been cleared."""
        self.buffers, self.outgoing = SharedBuffer(self.context), HostBuffer(self.context)
        if self.requested == Requested.model:
            self.words, self.histories = SharedBuffer(self.context), 0
        return 0

    @property
    def questions(self):
        """uint64 : questions that have been answered, in all batches."""
        return self.lookups.questions

    @property
    def rounds(self):
        return self.lookups.rounds

    @property
    def answer_batches(self):
        """uint64 or None : copies that have brought answers, in all batches; None with KenLM."""
        return self.lookups.answer_batches() if self.lookups.copies() else None

    @property
    def bytes(self):
        """uint64 : bytes of questions and answers that crossed the bus, in all batches."""
        if not self.lookups.copies():
            return (sizeof(Question) + sizeof(Answer)) * self.questions
        return sizeof(Question) * self.questions + self.lookups.copied_bytes()

    cdef size_t device_bytes(self):
        return self.tables.capacity + self.answer_buffers.capacity

    cdef size_t pinned_bytes(self):
        return self.buffers.capacity + self.words.capacity + self.outgoing.pinned_bytes()
