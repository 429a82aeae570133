"""The part of a batch that is decoded at a time."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t

from arcbeam.ctc.lattice._lattice cimport AnswerEngine
from arcbeam.ctc.lattice._lattices cimport Lattices
from arcbeam.ctc.gpu.engine._batch_memory cimport BatchMemory
from arcbeam.ctc.gpu.engine._batch_options cimport BatchOptions
from arcbeam.ctc.gpu.models._boosts cimport DeviceBoosts
from arcbeam.ctc.gpu.searches._lanes cimport Lanes
from arcbeam.ctc.gpu._lattice_memory cimport LatticeMemory
from arcbeam.ctc.gpu.searches._launches cimport Launches
from arcbeam.ctc.gpu.models._models cimport DeviceRescoring
from arcbeam.ctc.gpu.models._request_buffers cimport LaneRequests
from arcbeam.ctc.gpu.searches._rescoring_view cimport NewWordsParams, RescoringParams
from arcbeam.ctc.gpu.searches._search cimport DeviceGraph
from arcbeam.ctc.gpu.searches._searches cimport Search
from arcbeam.ctc.gpu._staging cimport Staging
from arcbeam.gpu._launch cimport Event, Stream
from arcbeam.gpu._memory cimport DeviceBuffer, MemoryPool


cdef class Window:
    cdef MemoryPool pool
    cdef Stream stream, copies
    cdef DeviceRescoring rescoring  # None: the plain search
    cdef LaneRequests requests  # of the rescoring; None: lanes send no requests to the host
    cdef object graph  # on the host
    cdef Event done
    cdef NewWordsParams all_params
    cdef RescoringParams* params  # of these; the plain search uses only its own part
    cdef BatchMemory batch
    cdef Staging staging
    cdef LatticeMemory lattices
    cdef DeviceBoosts boosting  # None until a batch has boost lists
    cdef DeviceBuffer graph_columns  # of the graph's arcs; empty until a stream has endpoints
    # Of the batch.
    cdef BatchOptions options
    cdef object room
    cdef uint32_t columns
    cdef bint on_host
    # Of the window.
    cdef const int64_t[::1] members  # its utterances by their numbers in the batch
    cdef Lanes lanes
    cdef Launches launches
    cdef uint32_t num_lanes
    cdef float lattice_beam  # negative: no lattices
    cdef bint in_flight
    cdef int prepare(self, BatchOptions options, object room, uint32_t columns, bint on_host) except -1
    cdef int plan(self, Search search, uint32_t utterances, float lattice_beam, tokens, int halvings, bint lean) except -1
    cdef int start(self, const int64_t[:, ::1] utterances, const int64_t[::1] members, Lattices lattices) except -1
    cdef int finish(self) except -1
    cdef int cancel(self) except -1
    cdef int clear(self) except -1
    cdef int end_batch(self) except -1
    cdef int release(self) except -1
    cdef int _describe_utterances(self, const int64_t[:, ::1] utterances) except -1
    cdef int _describe_boosts(self) except -1
    cdef int _describe_streams(self) except -1
    cdef int _launch(self) except -1
    cdef bint _copies_now(self) noexcept nogil
    cdef int _copy_back(self) except -1 nogil
    cdef int _wait(self) except -1
    cdef int _grow(self) except -1
    cdef int _grow_streams(self) except -1
    cdef int _give_clusters(self, uint32_t stopped) except -1
    cdef size_t pinned_bytes(self)
