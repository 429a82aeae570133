// The arrays a frame works in, in shared memory or spilled to global memory, and the words that a block shares.
#pragma once

#include "decode/lattice_room.hpp"
#include "decode/search.hpp"
#include "shared/simt.cuh"
#include "shared/tie_rule.hpp"

namespace arcbeam {

using simt::Array;
using simt::Scope;

constexpr std::uint32_t kNoCost = 0xffffffffU;              // above every ordered() cost
constexpr std::uint64_t kNoPacked = 0xffffffffffffffffULL;  // above every pack()

template <class T>
ARCBEAM_DEVICE Array<T> carve(unsigned char*& memory, std::uint32_t count) {
    Array<T> array{reinterpret_cast<T*>(memory), count};
    memory += padded(count * sizeof(T));
    return array;
}

struct Tokens {
    Array<Token> token;
    Array<std::uint32_t> state;
    // The last milestone that each token descends from; frames alternate between two arrays
    Array<std::uint32_t> milestone;
};

// Four arrays in a row, tokens_bytes(capacity) in all. `number` is the number of the frame.
ARCBEAM_DEVICE Tokens carve_tokens(unsigned char*& memory, std::uint32_t capacity, std::uint32_t number) {
    Tokens tokens;
    tokens.token = carve<Token>(memory, capacity);
    tokens.state = carve<std::uint32_t>(memory, capacity);
    const Array<std::uint32_t> even = carve<std::uint32_t>(memory, capacity);
    const Array<std::uint32_t> odd = carve<std::uint32_t>(memory, capacity);
    tokens.milestone = (number & 1U) == 0U ? even : odd;
    return tokens;
}

ARCBEAM_DEVICE Tokens spilled_tokens(const SpillView& spill, std::uint32_t number) {
    unsigned char* memory = spill.tokens;
    return carve_tokens(memory, spill.capacity, number);
}

constexpr std::uint32_t kFollowed = 64U;                        // arcs that a warp follows at a time
constexpr std::uint32_t kQueued = kFollowed + simt::kWarpSize;  // these, and those that wait in the queue

// The arrays a warp works in while it expands tokens, in the block's own shared memory.
struct WarpRoom {
    Array<std::uint32_t> tokens;   // [32]: tokens that have arcs within the bound
    Array<std::uint32_t> starts;   // [32]: their first chunks, in the warp's order
    Array<std::uint32_t> arcs;     // [kQueued]: arcs to follow
    Array<std::uint32_t> sources;  // [kQueued]: the tokens that they leave
    Array<std::uint32_t> labels;   // [kQueued]: their labels
};

ARCBEAM_DEVICE WarpRoom carve_warp_room(unsigned char* memory) {
    memory += simt::warp() * kWarpRoomBytes;
    WarpRoom room;
    room.tokens = carve<std::uint32_t>(memory, simt::kWarpSize);
    room.starts = carve<std::uint32_t>(memory, simt::kWarpSize);
    room.arcs = carve<std::uint32_t>(memory, kQueued);
    room.sources = carve<std::uint32_t>(memory, kQueued);
    room.labels = carve<std::uint32_t>(memory, kQueued);
    return room;
}

// The rooms of all warps of the block as one array, for a use between two frames.
ARCBEAM_DEVICE Array<std::uint32_t> rooms_of_warps(const WarpRoom& own) {
    constexpr std::uint32_t kWords = kWarpRoomBytes / sizeof(std::uint32_t);
    return {own.tokens.data - simt::warp() * kWords, simt::num_warps() * kWords};
}

// A candidate: a way to a state.
struct Candidate {
    std::uint64_t packed;  // pack(cost, arc)
    std::uint32_t place;   // the state it reaches; once admitted, that state's place in the table
    std::uint32_t source;  // token-log index of the token it leaves
};

// A state of the frame that is being made.
struct Reached {
    std::uint32_t place;  // in the table
    std::uint32_t state;
    std::uint32_t source;  // token-log index of the token that its best candidate leaves
    std::uint32_t unused;
};

// A reached state that has epsilon arcs, and the first of these.
struct Leaving {
    std::uint32_t index;  // in the frontier
    std::uint32_t depth;
    std::uint32_t next_state;
    float weight;
};

// A hash table from state to its best candidate, the candidates themselves, and the frontier: the states of the
// frame that is being made, in the order in which they were found. That order differs from run to run, but no
// result depends on it.
struct Workspace {
    Array<std::uint64_t> table_best;   // pack(cost, arc) of the best candidate
    Array<std::uint32_t> table_state;  // kNoIndex: free
    Array<std::uint32_t> table_index;  // place in the frontier

    Array<Candidate> candidate;
    Array<Reached> reached;
    Array<StateArcs> arcs;
    Array<Leaving> epsilons;
};

ARCBEAM_DEVICE void carve_table(unsigned char*& memory, std::uint32_t table_size, Workspace& work) {
    work.table_best = carve<std::uint64_t>(memory, table_size);
    work.table_state = carve<std::uint32_t>(memory, table_size);
    work.table_index = carve<std::uint32_t>(memory, table_size);
}

ARCBEAM_DEVICE Workspace carve_workspace(unsigned char* memory, std::uint32_t capacity, std::uint32_t candidates,
                                         std::uint32_t table_size) {
    Workspace work;
    carve_table(memory, table_size, work);
    work.candidate = carve<Candidate>(memory, candidates);
    work.reached = carve<Reached>(memory, capacity);
    work.arcs = carve<StateArcs>(memory, capacity);
    work.epsilons = carve<Leaving>(memory, capacity);
    return work;
}

// Where a frame is made: all in shared memory; the table in shared memory and the rest in global memory, if the
// table is likely to fit; or all in global memory.
enum class Room : std::uint32_t { shared, mixed, spilled };

// The work that the owner of a lane posts for the other blocks of its cluster.
enum class Task : std::uint32_t { frame, counts, leave };

struct Posted {
    const void* log_probs;  // of the current piece
    std::uint32_t rows_end;
    Task task;
    std::uint32_t utterance;  // the frame to make, and what it starts from
    std::uint32_t frame;
    std::uint32_t num_tokens;
    std::uint32_t log_size;
    std::uint32_t num_milestones;
    Room room;  // where to make the frame
    float cutoff;
};

// A lane after the frames that one warp has decoded.
struct SmallDone {
    double offset;
    std::uint64_t tokens_seen;
    std::uint32_t frame;
    std::uint32_t num_tokens;
    std::uint32_t log_size;
    std::uint32_t num_milestones;
};

// The words that a block shares, in shared memory. Costs are stored as ordered() integers, so that their minimum is
// a minimum of integers.
struct Control {
    std::uint64_t best_end;      // pack(cost, state) of the best token of the last frame
    std::uint64_t leaving_arcs;  // work of a lane that stops
    std::uint64_t admitted;
    std::uint32_t best;              // among the candidates of the frame
    std::uint32_t best_survivor[2];  // frames alternate: one entry is read while the other is reset
    std::uint32_t num_candidates;    // if it exceeds the room, some were not noted
    std::uint32_t added[3];          // number of states found in a step of the frame, by the step's slot
    std::uint32_t epsilons[3];       // of these, the number with epsilon arcs
    std::uint32_t levels[3];         // 1 + the largest depth of the states with epsilon arcs
    std::uint32_t num_rounds;        // number of rounds of the expansion
    std::uint32_t best_token;        // a token with cost 0
    std::uint32_t smallest_acoustic;
    std::uint32_t bad_column;  // of the frame: the first column with NaN or +inf
    std::uint32_t utterance;
    std::uint32_t selected;      // radix selection: the digits found so far
    std::uint32_t rank;          // radix selection: how many are still to be counted
    std::uint32_t last_leaving;  // see break_ties()
    std::uint32_t end_index;
    std::uint32_t stop;  // a Need
    std::uint32_t line;  // line at which the awaited piece of log-probs begins; kNoIndex: it did not come
    Posted posted;
    SmallDone small;
    LatticeLane lattice;  // if lattices are requested
};

static_assert(sizeof(Control) <= kControlBytes, "the host sets aside kControlBytes");

// A step of a frame that finds states: admission, or one level of the closure. Each step counts in a slot of its
// own, so that its count can be read while the next step counts. A slot is reset one step before it is used again,
// when all threads have long read it.
struct Step {
    std::uint32_t slot;
    std::uint32_t states_before;    // number of states found in the steps before this
    std::uint32_t epsilons_before;  // of these, the number with epsilon arcs

    ARCBEAM_DEVICE std::uint32_t next_slot() const { return slot == 2U ? 0U : slot + 1U; }
};

// Counters of one thread; they are summed over the block when an utterance ends.
struct Counts {
    std::uint64_t leaving_arcs = 0;
    std::uint64_t admitted = 0;
};

}  // namespace arcbeam
