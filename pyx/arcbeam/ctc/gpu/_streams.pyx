"""Streams on a device. A state is made beside the one before and takes its place once the whole batch has succeeded, so
that a batch which fails leaves all streams as they were."""

cimport cython
from libc.stdint cimport uint32_t, uint64_t, uintptr_t

from arcbeam.ctc._rounds cimport SearchState
from arcbeam.gpu._launch cimport Stream
from arcbeam.gpu._memory cimport DeviceBuffer, MemoryPool, set_bytes
from arcbeam.ctc.gpu._rescoring_search cimport rescoring_tokens_bytes
from arcbeam.ctc.gpu._search cimport StreamView, stream_bytes
from arcbeam.graph._words cimport GrowingPath


@cython.final
@cython.no_gc
cdef class StateRoom:
    """Memory for one state. Tokens have room for histories, which are those of no boost until a search writes others.
    """

    def __cinit__(self, MemoryPool pool not None, Stream stream not None):
        self.memory = DeviceBuffer(pool, stream, "the state of a stream")

    cdef int reserve(self, uint32_t tokens, uint32_t entries) except -1:
        """Makes room for at least so much; what was there is lost if it was less."""
        if tokens <= self.tokens and entries <= self.entries:
            return 0
        tokens = (max(tokens, self.tokens) + 15) // 16 * 16
        entries = (max(entries, self.entries) + 1) // 2 * 2
        self.tokens = self.entries = 0
        self.memory.reserve(stream_bytes(rescoring_tokens_bytes(tokens), entries), False)
        set_bytes(self.memory.address, 0, self.memory.capacity, self.memory.stream)
        self.tokens, self.entries = tokens, entries
        return 0


@cython.final
@cython.no_gc
cdef class CudaStream(SearchState):
    """A stream of speech between two chunks.

    Parameters
    ----------
    pool : MemoryPool
    stream : Stream
        That of the engine.
    boost : arcbeam.ctc._boost.BoostList or None
    """

    def __cinit__(self, MemoryPool pool not None, Stream stream not None, boost):
        self.boost = boost
        self.state, self.spare = StateRoom(pool, stream), StateRoom(pool, stream)

    @property
    def is_whole(self):
        """True: a chunk that is given up half-way leaves no trace."""
        return True

    @property
    def nbytes(self):
        """int : bytes on the device."""
        return self.state.memory.capacity + self.spare.memory.capacity

    cdef uint64_t frames_taken(self) except? 0:
        return self.frames

    cdef bint can_go_on(self) except -1:
        return True

    cdef int move_settled(self, GrowingPath path) except -1:
        if self.settled.size() > 0:
            path.add(self.settled.data(), self.settled.size())
            self.settled.clear()
        return 0

    cdef int describe(self, StreamView* view, bint last, uint32_t tokens, uint32_t entries) except -1:
        """Tells the kernel where the state is, and where the next one is to be left, in room for at least so much."""
        self.spare.reserve(max(tokens, self.state.tokens), max(entries, self.state.entries))
        view.before = <unsigned char*> <uintptr_t> (self.state.memory.address if self.has_begun else 0)
        view.before_tokens, view.before_entries = self.state.tokens, self.state.entries
        view.is_last = last
        return self._describe_next(view)

    cdef int _describe_next(self, StreamView* view) except -1:
        view.after = <unsigned char*> <uintptr_t> self.spare.memory.address
        view.after_tokens, view.after_entries = self.spare.tokens, self.spare.entries
        return 0

    cdef int grow(self, uint32_t tokens, uint32_t entries, StreamView* view) except -1:
        """Makes more room for the next state."""
        self.spare.reserve(2 * tokens, 2 * entries)
        return self._describe_next(view)

    cdef int take(self, const uint32_t* arcs, size_t count, uint64_t frames) except -1:
        """The chunk has been decoded: its state counts, and these arcs are settled."""
        self.settled.insert(self.settled.end(), arcs, arcs + count)
        self.state, self.spare = self.spare, self.state
        self.has_begun = True
        self.frames += frames
        return 0
