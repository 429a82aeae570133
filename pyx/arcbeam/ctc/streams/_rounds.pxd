"""Streams of speech and their rounds of chunks: what is kept of each, and what a round has found."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from arcbeam.streams._any_stream cimport AnyStream
from arcbeam.graph._words cimport GrowingPath


# Where a sentence was after a chunk.
cdef struct Place:
    uint64_t number  # of places of the sentence, from 1
    uint64_t settled  # arcs
    uint64_t frames  # of the sentence
    uint32_t fired  # the number of the rule that has ended it, from 1; or 0
    cbool is_final


cdef class SearchState:
    cdef bint shows_lattice
    cdef uint64_t frames_taken(self) except? 0
    cdef bint is_at(self, uint64_t frames, bint is_final) except -1
    cdef uint32_t rule_fired(self) except? 0xffffffff
    cdef uint32_t hand_over(self, GrowingPath path) except? 0xffffffff


cdef class Sentence(GrowingPath):
    cdef readonly object boost, lm_context, endpoint, posterior_scale, aggregation
    cdef readonly object outputs  # arcbeam.ctc.results.Outputs, or None where the sentence ends without a lattice
    cdef readonly uint64_t first_frame
    cdef vector[float] of_frames  # the confidences of its frames, where they are requested
    cdef object last_made  # a weak reference to the result that was made for the latest place
    cdef uint64_t made_at
    cdef object result(self, kind, results, size_t index, const Place& place)


cdef class SentenceStream(AnyStream):
    cdef public SearchState _state
    cdef public Sentence _sentence
    cdef public list _waiting  # of arcbeam.streams.waiting.Waiting: frames after an endpoint
    cdef public bint _last_came
    cdef public object _lattice  # Lattices of one, once a sentence has ended with more outputs than its best path
    cdef public bint _posteriors  # whether results have those of their words
    cdef public bint _interim_answers  # whether results before the end have its outputs, too
    cdef public object _method  # arcbeam.ConfidenceMethod, or None where frames have no confidences
    cdef public bint _logits  # whether its chunks are logits
    cdef object results  # of the batch that the latest place comes from, and its index there
    cdef size_t index
    cdef Place place
    cdef object made  # the result for it, once it has been read
    cdef bint is_whole(self) except -1
