"""The state of a beam search between two chunks of its stream."""

from libc.stdint cimport int32_t, int64_t, uint32_t
from libcpp.vector cimport vector

from arcbeam.transducer.beam._lists cimport Shares


cdef extern from "transducer/fusion.hpp" namespace "arcbeam::transducer" nogil:
    cdef cppclass FusionStates:
        uint32_t of[3]


cdef extern from "transducer/beam/bucket.hpp" namespace "arcbeam::transducer::beam" nogil:
    cdef struct Label:
        uint32_t before
        uint32_t token
        int64_t frame
        uint32_t duration
        float log_prob
        float confidence


cdef extern from "transducer/beam/fusion.hpp" namespace "arcbeam::transducer::beam" nogil:
    cdef cppclass Fused:
        FusionStates states
        float shares[3]
        float ilm_share


cdef extern from "transducer/beam/state.hpp" namespace "arcbeam::transducer::beam" nogil:
    cdef struct Arrival "arcbeam::transducer::beam::BeamState::Arrival":
        int64_t frame
        uint32_t node
        float score
        float path
        uint32_t log

    cdef cppclass History "arcbeam::transducer::beam::BeamState::History":
        uint32_t parent
        uint32_t token
        Fused fused

    cdef cppclass CppBeamState "arcbeam::transducer::beam::BeamState":
        int64_t frames
        double offset
        uint32_t labels
        vector[Arrival] arrivals
        vector[History] histories
        Shares shares
        vector[uint32_t] predicted
        vector[float] hidden
        vector[float] cell
        vector[int32_t] contexts
        vector[Label] log

        @staticmethod
        CppBeamState begun(int64_t, const FusionStates&) except +


cdef class BeamState:
    cdef CppBeamState of
