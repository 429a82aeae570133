"""Streams on a device: what each keeps there between two chunks."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libcpp.vector cimport vector

from arcbeam.ctc.streams._rounds cimport SearchState
from arcbeam.gpu._launch cimport Stream
from arcbeam.gpu._memory cimport DeviceBuffer, MemoryPool
from arcbeam.ctc.boost._boost cimport BoostList, BoostView
from arcbeam.ctc.streams._endpoint cimport EndpointRules
from arcbeam.lm._kenlm_view cimport KenLmView
from arcbeam.ctc.gpu.models._models cimport DeviceRescoring
from arcbeam.ctc.gpu.models._request_buffers cimport LaneRequests
from arcbeam.ctc.gpu.searches._search_view cimport StreamLinksView, StreamView
from arcbeam.ctc.gpu.searches._rescoring_view cimport SharedBits
from arcbeam.ctc.streams._saved_search cimport LmContext
from arcbeam.graph._graph_view cimport OpenGraph
from arcbeam.lm._lm_view cimport RescoringView


cdef extern from "arcbeam/ctc/gpu/_streams/state.hpp" namespace "arcbeam" nogil:
    cdef struct StreamModels:
        const RescoringView* lms
        const KenLmView* kenlm
        SharedBits bits
        BoostView boost


# Memory for one state; `buffer` of the stream's two holds it.
cdef struct StateRoom:
    uint64_t address
    uint32_t tokens
    uint32_t entries
    uint32_t buffer


cdef class SpareRooms:
    cdef list rooms  # of (DeviceBuffer, tokens, entries)
    cdef readonly size_t nbytes
    cdef int give(self, DeviceBuffer memory, const StateRoom& room) except -1
    cdef DeviceBuffer take(self, StateRoom* room)
    cdef int clear(self) except -1


cdef class LinkRoom:
    cdef DeviceBuffer memory
    cdef uint32_t links, steps, entries
    cdef int reserve(self, uint32_t links, uint32_t steps, uint32_t entries) except -1
    cdef uint64_t nbytes(self) noexcept


cdef class CudaStream(SearchState):
    # First what every round needs, side by side.
    cdef readonly BoostList boost
    cdef object saved  # the state to restore, until it is on the device
    cdef LaneRequests numbers  # those of a KenLM's histories; None without one
    cdef readonly uint64_t frames
    cdef uint64_t lived  # of these, before the search died: each has a step of the lattice
    cdef StateRoom state, spare
    cdef readonly uint32_t fired
    cdef uint32_t large_start  # the large model's state after the context
    cdef readonly bint has_begun
    cdef bint has_rules
    cdef readonly bint keeps_links  # of the sentence's lattice, which its end gives
    cdef float lattice_beam  # of that
    cdef bint gave_lattice  # at the end of the sentence; the search is gone
    cdef object settled_by  # since the last call of hand_over: what keeps the arcs, which are `settled`
    cdef const uint32_t* settled
    cdef size_t num_settled
    cdef EndpointRules rules
    cdef DeviceBuffer even, odd  # the memory of both states
    cdef SpareRooms spares  # from which it comes, and to which it goes; None: it may have histories
    cdef object graph  # on the host
    cdef DeviceRescoring rescoring  # None: no language model
    cdef LmContext lm_context
    cdef StreamModels models
    cdef object apart  # the state, on the host, while its histories have no numbers; otherwise None
    cdef vector[uint8_t] histories  # these
    cdef LinkRoom links, spare_links  # None unless it keeps links
    cdef object __weakref__
    cdef int _number_histories(self) except -1
    cdef DeviceBuffer _memory(self, const StateRoom& room)
    cdef int _reserve(self, StateRoom* room, uint32_t tokens, uint32_t entries) except -1
    cdef int describe(self, StreamView* view, bint last, uint64_t columns, uint32_t tokens, uint32_t entries) except -1
    cdef int _describe_next(self, StreamView* view) except -1
    cdef OpenGraph _open_graph(self) except *
    cdef int _resume(self) except -1
    cdef int grow(self, uint32_t tokens, uint32_t entries, StreamView* view) except -1
    cdef int describe_links(self, StreamLinksView* view, uint32_t steps, uint32_t links) except -1
    cdef int grow_links(self, uint32_t links, StreamLinksView* view) except -1
    cdef int _describe_next_links(self, StreamLinksView* view) except -1
    cdef int take(self, owner, const uint32_t* arcs, size_t count, uint64_t frames, uint64_t lived, uint32_t fired,
                  bint last) except -1
    cdef int _forget(self) except -1
