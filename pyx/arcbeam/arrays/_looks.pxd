"""The Cython declarations of ``pyx/arcbeam/arrays/_looks/looks.hpp``, and its owner."""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint32_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector


cdef extern from "arcbeam/arrays/_looks/looks.hpp" namespace "arcbeam::looks" nogil:
    cdef struct Pick:
        size_t utterance
        uint32_t frame
        const unsigned char* row
        cbool is_half

    cdef enum Finding:
        kAboveZero, kSumsAbove, kSumsBelow, kBlankSeldom, kTooLow

    cdef struct Sight:
        size_t utterance
        uint32_t frame
        double value

    cdef cppclass CppLooks "arcbeam::looks::InputChecks":
        CppLooks(uint32_t columns, int32_t blank, cbool is_exact) except +
        void pick(const int64_t* table, size_t utterances, size_t most)
        const vector[Pick]& picks()
        void look(const Pick&, const void* row)
        uint32_t found()
        const Sight& sight(Finding)
        uint32_t columns()
        uint32_t counted()
        uint32_t best_in(uint32_t column)
        uint32_t most_often_best()


cdef class InputChecks:
    cdef unique_ptr[CppLooks] looks
    cdef public uint32_t told
    cdef readonly bint has_news
    cdef void pick(self, const int64_t[:, ::1] utterances, size_t most) noexcept
    cdef void look_at(self, const Pick* pick, const void* row) noexcept
    cdef void at(self, const int64_t[:, ::1] utterances) noexcept
