"""A language model in buckets, see ``cuda/shared/lm_buckets.hpp``."""

from libc.stdint cimport uint32_t, uint64_t

from arcbeam.lm._lm_view cimport LmArc, LmStep, LmView


cdef extern from "shared/lm_buckets.hpp" namespace "arcbeam" nogil:
    const uint32_t kLmBucketEntries

    cdef struct LmLink:
        uint32_t state
        float weight

    cdef struct LmEntry:
        uint32_t state
        uint32_t label
        LmArc arc

    cdef struct LmBuckets:
        const LmLink* chains
        const LmArc* words
        const LmEntry* entries
        uint32_t links
        uint32_t num_parts
        uint32_t buckets_a_part
        uint32_t seed

    LmStep step_in_buckets "arcbeam::lm_step"(const LmBuckets&, uint32_t, uint32_t)


cdef extern from "arcbeam/lm/_lm_buckets/fill.hpp" namespace "arcbeam" nogil:
    cdef struct BucketSizes:
        uint32_t links
        uint32_t num_parts
        uint32_t buckets_a_part
        uint64_t words_at
        uint64_t entries_at
        uint64_t bytes


cdef BucketSizes sizes_of(const LmView& lm, double fullness, unsigned threads) except *
cdef int fill(const LmView& lm, const BucketSizes& sizes, unsigned char* memory, unsigned threads,
              LmBuckets* filled) except -1
