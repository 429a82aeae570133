"""The Cython declarations of ``cuda/rescore/rescoring_search.hpp`` and ``cuda/rescore/new_words.hpp``."""

from libc.stdint cimport uint16_t, uint32_t, uint64_t

from arcbeam.lm._lm_buckets cimport LmBuckets
from arcbeam.lm._lm_view cimport RescoringView
from arcbeam.ctc.boost._boost cimport BoostView
from arcbeam.ctc.gpu.models._requests cimport RequestView
from arcbeam.ctc.gpu.searches._search_view cimport Need, SearchParams, StateRow
from arcbeam.graph._graph_view cimport ArcTarget


cdef extern from "rescore/rescoring_search.hpp" namespace "arcbeam" nogil:
    const uint64_t kMostHistories
    const Need kNeedsRequestRoom

    cdef struct History:
        uint32_t large
        uint32_t small

    cdef struct LookupCounters:
        uint64_t lookups
        uint64_t distinct
        uint64_t misses
        uint64_t reads
        uint64_t worked
        uint64_t waited
        uint64_t stamps

    cdef struct ArcCacheView:
        uint64_t* entries
        uint32_t size

    cdef struct SharedBits:
        uint32_t small
        uint32_t boost

    SharedBits shared_bits(uint64_t large_states, uint64_t small_states)

    cdef struct RescoringParams:
        SearchParams search
        RescoringView lms
        const uint32_t* words
        LookupCounters* counters
        ArcCacheView cache
        const RequestView* views
        const uint32_t* history_words
        uint32_t hypotheses_per_state
        uint32_t epsilon_words
        uint32_t index_is_near
        uint32_t words_a_history
        LmBuckets buckets
        const BoostView* boosts
        SharedBits bits

    uint64_t rescoring_tokens_bytes(uint64_t capacity)
    uint64_t rescoring_free_bytes(uint64_t table_size)
    uint64_t rescoring_workspace_bytes(uint64_t capacity, uint64_t candidates, uint64_t table_size)
    uint64_t rescoring_shared_bytes(uint64_t threads, uint64_t columns, uint64_t capacity, uint64_t candidates,
                                    uint64_t table_size)




cdef extern from "rescore/new_words.hpp" namespace "arcbeam" nogil:
    cdef struct Entrance:
        pass

    cdef struct NewWordsOnDevice:
        const StateRow* states
        const ArcTarget* targets
        const uint16_t* labels
        const float* finals
        const uint32_t* words
        const uint16_t* columns
        uint32_t has_words

    cdef struct SlotView:
        const NewWordsOnDevice* of_utterances
        const Entrance* entrances
        uint32_t num_states
        uint32_t num_arcs
        uint32_t first_word

    cdef struct NewWordsParams:
        RescoringParams rescoring
        SlotView slot
