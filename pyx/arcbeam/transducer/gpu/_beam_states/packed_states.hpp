// States of streams on their way to a device and back (transducer/beam/device_state.hpp).
//
// in    states, and the frames of their chunks; what the device has at the end of these
// out   states in their packed form; those after the chunks, and the n-best lists of the sentences so far
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pool/lazy_pool.hpp"
#include "transducer/beam/chunk_end.hpp"
#include "transducer/beam/device_state.hpp"

namespace arcbeam::transducer::beam {

// What the states of a batch need: the most of one stream, and the bytes of all.
struct StateNeeds {
    std::uint32_t last_frame = 0;  // of an arrival
    std::uint32_t bucket = 0;
    std::uint32_t nodes = 0;
    std::uint32_t labels = 0;
    std::uint32_t slots = 0;
    std::uint32_t restored = 0;     // predictions of all
    std::uint64_t restored_at = 0;  // where their slots are listed
    std::uint64_t bytes = 0;
};

struct EndOptions {
    ListOptions list;
    float beam;
    std::uint32_t max_hypotheses;
    bool sums;
};

// A chunk that comes back: the state before it, where the one after it goes, which is empty, and its list; and what
// else it leaves.
struct Chunk {
    const BeamState* before;
    BeamState* state;  // null: an error
    NBest* list;
    std::size_t settled;  // labels of each entry that no later frame changes
    FusionStates models;  // after the best entry
};

StateNeeds needs_of(const std::vector<const BeamState*>& states, const PackedSizes& sizes);

// Packs the states of chunks with so many frames, whose first rows these are; `slots`: of each utterance.
void pack(const std::vector<const BeamState*>& states, const std::vector<std::uint32_t>& frames,
          const StateNeeds& needs, const PackedSizes& sizes, std::uint32_t units, std::uint32_t slots,
          twin::LazyPool& threads, unsigned char* to);

// The most bytes of a batch of `lanes` chunks with so many arrivals, histories, labels and predictions each.
std::uint64_t most_bytes(std::uint32_t lanes, const PackedSizes& sizes, std::uint64_t arrivals, std::uint64_t nodes,
                         std::uint64_t labels, std::uint64_t predictions);

// The bytes of a batch of chunks that has come back.
std::uint64_t returned_bytes(const unsigned char* from, std::uint32_t lanes, const PackedSizes& sizes);

// Takes over the chunks of all lanes.
void unpack(const unsigned char* from, const PackedSizes& sizes, std::uint32_t units, const EndOptions& options,
            twin::LazyPool& threads, std::vector<Chunk>& chunks);

}  // namespace arcbeam::transducer::beam
