"""The Cython declarations of ``cuda/decode/search.hpp``."""

from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t

from arcbeam.graph._graph_view cimport ArcTarget
from arcbeam.ctc.streams._endpoint cimport EndpointRules
from arcbeam.ctc.lattice._lattices cimport Link


cdef extern from "decode/lattice_room.hpp" namespace "arcbeam" nogil:
    const Need kNeedsLinks

    cdef struct LatticeLane:
        float* costs
        Link* links
        uint32_t link_capacity
        uint32_t num_links

    cdef struct LatticeResult:
        pass

    cdef struct LatticeStep:
        pass

    cdef struct LatticeParams:
        LatticeLane* lanes
        LatticeResult* results
        LatticeStep* steps
        const uint32_t* first_step
        unsigned char* pool
        uint64_t* pool_used
        uint64_t pool_capacity
        const StreamLinksView* streams
        float beam
        uint32_t prune_above

    cdef struct StreamLinksView:
        unsigned char* before
        unsigned char* after
        uint32_t before_links
        uint32_t before_steps
        uint32_t after_links
        uint32_t after_steps

    uint64_t stream_links_bytes(uint64_t links, uint64_t steps, uint64_t entries)
    uint64_t lattice_costs_bytes(uint32_t log_capacity)
    uint64_t links_bytes(uint32_t capacity)


cdef extern from "decode/search.hpp" namespace "arcbeam" nogil:
    const uint32_t kNoIndex, kLineBytes

    cdef struct StateRow:
        pass

    cdef struct DeviceGraphView:
        const StateRow* states
        const ArcTarget* targets
        const uint16_t* labels
        const float* finals
        uint32_t start
        uint32_t column_bits

    cdef struct UtteranceView:
        const void* log_probs
        int64_t row_stride
        uint32_t frames
        uint32_t is_half
        uint32_t first_piece
        uint32_t start

    cdef enum class Outcome(uint32_t):
        pending
        decoded
        bad_log_prob

    cdef struct UtteranceResult:
        double total_cost
        uint32_t path_begin
        uint32_t path_length
        uint32_t end_state
        uint32_t reached_final
        Outcome outcome
        uint32_t bad_frame
        uint32_t bad_column
        float bad_value
        uint64_t frames
        uint64_t tokens
        uint64_t leaving_arcs
        uint64_t admitted
        uint32_t settled
        uint32_t alive
        uint32_t taken
        uint32_t fired

    cdef struct StreamView:
        unsigned char* before
        unsigned char* after
        uint32_t before_tokens
        uint32_t before_entries
        uint32_t after_tokens
        uint32_t after_entries
        uint32_t is_last
        uint32_t shows_lattice
        uint32_t fired
        uint32_t next_check
        uint32_t large_start
        uint64_t frames
        const uint16_t* columns
        EndpointRules rules

    cdef struct LogEntry:
        uint32_t source
        uint32_t arc

    cdef enum class Need(uint32_t):
        nothing
        spill
        log
        paths
        log_probs
        launch

    cdef struct SpillView:
        unsigned char* memory
        unsigned char* tokens
        uint32_t capacity
        uint32_t candidates
        uint32_t table_size

    cdef struct LaneState:
        SpillView spill
        LogEntry* log
        uint32_t log_capacity
        uint32_t log_size
        uint32_t utterance
        uint32_t num_tokens
        Need need

    cdef struct SearchParams:
        DeviceGraphView graph
        const UtteranceView* utterances
        const uint32_t* order
        UtteranceResult* results
        LaneState* lanes
        uint32_t* next_in_order
        uint32_t* resting_lanes
        uint32_t* stop
        uint32_t* path_pool
        uint32_t* path_pool_used
        const uint32_t* pieces
        const uint32_t* arrived
        uint32_t piece_frames
        uint32_t wait_cycles
        uint32_t path_pool_capacity
        uint32_t num_utterances
        uint32_t columns
        int32_t blank_column
        float beam
        float acoustic_scale
        float blank_penalty
        uint32_t max_active
        uint32_t shared_capacity
        uint32_t shared_candidates
        uint32_t shared_table_size
        uint32_t team_tokens
        uint32_t hot_tokens
        uint32_t small_frame
        uint32_t hot_lanes
        uint32_t hot_frames
        const LatticeParams* lattice
        const StreamView* streams

    const Need kNeedsStreamRoom
    uint64_t stream_bytes(uint64_t of_tokens, uint64_t entries)
    uint64_t padded(uint64_t bytes)
    uint64_t log_bytes(uint32_t capacity)
    uint64_t tokens_bytes(uint64_t capacity)
    uint64_t table_bytes(uint64_t table_size)
    uint64_t workspace_bytes(uint64_t capacity, uint64_t candidates, uint64_t table_size)
    uint64_t shared_bytes(uint64_t threads, uint64_t columns, uint64_t capacity, uint64_t candidates,
                          uint64_t table_size)
