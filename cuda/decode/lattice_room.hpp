// The structs through which the host and a search kernel talk about lattices; both compile them.
//
// While an utterance is decoded, a lane keeps, in addition to its token log, the cost of each entry, and the links
// that lost against their targets' winners; the winners' links are the log itself. When it ends, what is within the
// lattice beam goes to the pool, which is memory of the host.
//
// Between two chunks a stream keeps all of this: in its StreamState the whole log, of which nothing leaves because
// it is settled, and with it the links, the steps and the costs.
#pragma once

#include <cstdint>

#include "decode/search.hpp"
#include "shared/lattice_link.hpp"

namespace arcbeam {

// What a lane lacks: room for links, or room in the pool.
constexpr Need kNeedsLinks = Need{18U};
constexpr Need kNeedsLatticePool = Need{19U};

// The memory of a lane. `costs` has room for two words for each entry of the log: its cost, and its extra while the
// lattice is pruned. After the links lie their marks.
struct LatticeLane {
    float* costs;
    lattice::Link* links;
    std::uint32_t link_capacity;
    std::uint32_t num_links;
};

constexpr std::uint64_t lattice_costs_bytes(std::uint32_t log_capacity) {
    return 8U * static_cast<std::uint64_t>(log_capacity);
}

constexpr std::uint64_t links_bytes(std::uint32_t capacity) {
    return sizeof(lattice::Link) * static_cast<std::uint64_t>(capacity) +
           8U * static_cast<std::uint64_t>(mark_words(capacity));
}

// A step of the search: the closure of the start state, or a frame.
struct LatticeStep {
    double offset;  // after the step
    std::uint32_t entries_end;
    std::uint32_t links_end;  // of the links into the step's tokens
};

// The place of a lattice in the pool: steps, links, entries of the log, their costs, and the extras of the last
// step's entries, in this order. It is memory of the host, which reads it and the lattice while the kernel runs.
struct LatticeResult {
    std::uint64_t begin;
    double total_cost;
    std::uint32_t steps;
    std::uint32_t links;
    std::uint32_t entries;
    std::uint32_t best_end;  // an entry
    std::uint32_t frames;    // that the search survived, of a stream those of the last chunk
    std::uint32_t reached_final;
    std::uint32_t written;  // 1: the lattice lies in the pool; stored last, by a release
    std::uint32_t alive;    // whether the search survived all frames
};

constexpr std::uint64_t lattice_bytes(std::uint32_t steps, std::uint32_t links, std::uint32_t entries,
                                      std::uint32_t ends) {
    return padded(sizeof(LatticeStep) * static_cast<std::uint64_t>(steps) +
                  sizeof(lattice::Link) * static_cast<std::uint64_t>(links) +
                  (sizeof(LogEntry) + sizeof(float)) * static_cast<std::uint64_t>(entries) +
                  sizeof(float) * static_cast<std::uint64_t>(ends));
}

// What a stream keeps of its lattice, in this order: these words, the links, the steps, and the costs of the
// entries.
struct LinkCounts {
    std::uint32_t num_links;
    std::uint32_t pruned;  // the entries and links that the last pruning at the end of a chunk has left
};

constexpr std::uint64_t stream_links_bytes(std::uint64_t links, std::uint64_t steps, std::uint64_t entries) {
    return padded(sizeof(LinkCounts)) + sizeof(lattice::Link) * links + sizeof(LatticeStep) * steps +
           sizeof(float) * entries;
}

// Where a stream keeps them. There is room for as many costs as its StreamView has for entries of the log, and for
// the steps of all frames that the sentence may have.
struct StreamLinksView {
    unsigned char* before;  // null: the chunk is the first
    unsigned char* after;
    std::uint32_t before_links;  // the room there
    std::uint32_t before_steps;
    std::uint32_t after_links;
    std::uint32_t after_steps;
};

struct LatticeParams {
    LatticeLane* lanes;               // [lanes]
    LatticeResult* results;           // [utterances], memory of the host
    LatticeStep* steps;               // of all utterances, one step more than frames for each
    const std::uint32_t* first_step;  // [utterances]
    unsigned char* pool;
    std::uint64_t* pool_used;
    std::uint64_t pool_capacity;
    const StreamLinksView* streams;  // [utterances]; null: utterances are whole
    float beam;                      // cost
    std::uint32_t prune_above;       // a stream prunes at the end of a chunk if it has more entries and links
};

}  // namespace arcbeam
