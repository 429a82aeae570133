// Makes the buckets of a language model (shared/lm_buckets.hpp) with several threads, in memory of the caller.
//
// Arcs are spread over parts by their hash, in their order, directly into the memory of the part. Then every part,
// which fits a cache, is filled by itself: each arc goes to the emptier of its two buckets. If both are full, it
// takes the place of another arc, which moves to its other bucket. The bytes do not depend on the threads.
#pragma once

#include <cstdint>

#include "common/status.hpp"
#include "shared/lm_buckets.hpp"

namespace arcbeam {

struct BucketSizes {
    std::uint32_t links;
    std::uint32_t num_parts;
    std::uint32_t buckets_a_part;
    std::uint64_t words_at;    // bytes from the beginning, where the chains are
    std::uint64_t entries_at;  // the entries come last
    std::uint64_t bytes;
};

// `fullness`: the share of the entries that will be in use, 0 to 1.
BucketSizes bucket_sizes(const LmView& lm, double fullness, unsigned threads);

// Fills `sizes.bytes` of memory, aligned to 128 bytes. Fails with a message if the table is too full for every arc
// to have a place.
Status fill_buckets(const LmView& lm, const BucketSizes& sizes, unsigned char* memory, unsigned threads,
                    LmBuckets& filled);

}  // namespace arcbeam
