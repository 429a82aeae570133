"""Searches in the middle of a sentence, and their contexts, between Python and C++."""

from libc.stdint cimport uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from arcbeam.ctc.lattice._lattices cimport Link


cdef extern from "decode/streams/saved_search.hpp" namespace "arcbeam::twin" nogil:
    cdef struct Token:
        uint32_t state
        float cost

    cdef cppclass LogEntry:
        uint32_t source
        uint32_t arc

    cdef cppclass KeptLinks:
        vector[Link] losers
        vector[uint32_t] first_entry
        vector[float] costs
        vector[double] offsets

    cdef cppclass SavedSearch:
        vector[uint32_t] settled
        vector[LogEntry] log
        vector[Token] tokens
        vector[uint32_t] entries
        double offset
        uint64_t frames
        uint64_t dead_frames
        uint32_t fired
        cbool alive
        cbool keeps_links
        cbool ended
        KeptLinks links


cdef extern from "decode/models.hpp" namespace "arcbeam::twin" nogil:
    cdef cppclass LmContext:
        vector[uint32_t] words
        cbool after_start


cdef int take_lm_context(lm_context, LmContext& into) except -1
cdef int take_saved(saved, SavedSearch& into) except -1
cdef dict fields_of(const SavedSearch& saved, bint with_lattice)
