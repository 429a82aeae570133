"""The structures that the host and the kernels of beam search share: ``cuda/transducer/beam/beam_memory.hpp``."""

from libc.stdint cimport uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from arcbeam.transducer._token_automaton cimport TokenAutomaton
from arcbeam.transducer.beam._lists cimport NBest, Shares
from arcbeam.transducer.gpu._network cimport LaneOutcome, LoopParams, Precision

cdef extern from "transducer/beam/beam_memory.hpp" namespace "arcbeam::transducer::beam" nogil:
    cdef enum:
        kBeamModels, kParts

    cdef cppclass Hypothesis:
        float score
        uint32_t log

    cdef cppclass Label:
        pass

    cdef cppclass Lane:
        double offset
        uint32_t frames
        uint32_t first_row
        uint32_t live
        uint32_t nodes
        LaneOutcome outcome
        uint32_t bad_frame
        uint32_t bad_feature
        float bad_value

    cdef struct Rooms:
        uint32_t bucket
        uint32_t nodes
        uint32_t labels
        uint32_t slots

    cdef struct Sizes:
        Precision precision
        uint32_t lanes
        uint32_t hypotheses
        uint32_t frames
        uint32_t durations
        uint32_t layers
        uint32_t unit_stride
        uint32_t joint_stride
        uint32_t context
        uint32_t addends
        uint32_t has_ilm

    cdef cppclass Memory:
        Lane* lanes
        Hypothesis* live
        Label* log
        double* parts
        Rooms rooms

    cdef cppclass BeamParams:
        Memory memory
        Memory before
        Sizes sizes
        uint32_t* counters
        uint32_t* needs_room
        uint32_t* test_slot
        uint32_t* test_row
        uint32_t* step_from
        uint32_t* step_to
        uint32_t* step_token
        float beam
        uint32_t settle_frames
        uint32_t sums
        uint32_t from_states
        unsigned char* packed
        uint32_t* packed_pieces
        const uint32_t* restored
        uint32_t num_restored

    cdef cppclass BeamLoopParams:
        LoopParams loop
        BeamParams beam

    cdef struct FusionOfBeam:
        const TokenAutomaton* automata
        const uint32_t* starts
        float[3] factors
        float ilm_scale
        uint32_t has_ilm
        uint32_t no_encoder_row

    cdef cppclass FusedBeamLoopParams:
        BeamLoopParams search
        FusionOfBeam fusion

    uint64_t lay_out(const Sizes& sizes, const Rooms& rooms, uint64_t at, Memory& memory, uint64_t& returned)
    uint64_t shared_bytes(Precision precision, uint64_t warps)

cdef extern from "transducer/beam/ending.hpp" namespace "arcbeam::transducer::beam" nogil:
    cdef struct ListOptions:
        float length_power
        cbool has_durations
        cbool has_confidences

    cdef cppclass Ended:
        float score
        uint32_t log
        Shares shares

    void list_ended(const ListOptions&, double, const vector[Ended]&, const Label*, NBest&) except +
