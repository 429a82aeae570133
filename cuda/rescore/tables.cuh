// Where the frontier of a search with histories is kept: the tables and arrays of a frame, and the words that a
// block shares.
//
//     key table    (state, history) -> the candidate that came first with it, the best cost and arc, its hypothesis
//     list table   state            -> how many hypotheses it has; their place in the ranking if there are too many
//     ranking      [members | those that are here, hypothesis, hypothesis, ...] ...         ... list, list
//                  holds the lists that are too long, once they are complete; at its end it names them all
//
// The table does not store a key, but reads it from the key's candidate, so one 32-bit exchange claims an entry. A
// candidate must therefore be written a barrier before it is offered, or be released by the exchange.
#pragma once

#include <type_traits>

#include "decode/recombine.cuh"
#include "rescore/order.cuh"

namespace arcbeam {

constexpr std::uint32_t kUndecided = 0xfffffffeU;  // a hypothesis whose state has not been cut
constexpr std::uint32_t kStays = 0xfffffffdU;      // a hypothesis that is among the best n of its state
constexpr std::uint32_t kRanked = 0xfffffffcU;     // a hypothesis that is in the ranking
constexpr std::uint32_t kUnclaimed = 0xfffffffeU;  // the source of a winner whose source has not been named yet
constexpr std::uint32_t kLookup = 0x80000000U;     // marks a candidate in the key table: its word is looked up
constexpr std::uint32_t kInRanking = 0x80000000U;  // marks a list: the rest is its place in the ranking

// The members of a candidate in addition to cost, arc, state and source.
struct alignas(16) Extension {
    History history;      // before the word; after the word once it is looked up
    std::uint32_t place;  // see lookup.cuh; once admitted, the place of its key; kNoIndex: not admitted
    std::uint32_t word;   // kNoWord: none
};

// The arrays of a frame: tables in one piece of memory, the rest in another or after them. Their addresses are
// computed from the two beginnings and a few sizes, all multiples of 4, because the registers could not hold a
// pointer to each. Hypotheses are in the order in which they were found, which differs from run to run.
//
// `Memory` says where both are: at any address, or in the block's own shared memory; then the compiler knows it.
template <class Memory>
struct RescoringArrays {
    Memory tables;
    Memory rest;
    std::uint32_t table_size;
    std::uint32_t hypotheses;  // how many there is room for
    std::uint32_t most_ranked;
    std::uint32_t capacity;  // the capacity for which `rest` has been laid out
    std::uint32_t candidates;

    template <class T>
    ARCBEAM_DEVICE static Array<T> array(unsigned char* memory, std::uint64_t offset, std::uint32_t size) {
        return {reinterpret_cast<T*>(memory + offset), size};
    }
    template <class T>
    ARCBEAM_DEVICE Array<T> of_table(std::uint64_t bytes_before) const {
        return array<T>(tables, bytes_before * table_size, table_size);
    }
    template <class T>
    ARCBEAM_DEVICE Array<T> of_hypothesis(std::uint64_t bytes_before) const {
        return array<T>(rest, bytes_before * capacity, capacity);
    }
    template <class T>
    ARCBEAM_DEVICE Array<T> of_candidate(std::uint64_t bytes_before) const {
        return array<T>(rest, 44U * static_cast<std::uint64_t>(capacity) + bytes_before * candidates, candidates);
    }

    // Keys
    ARCBEAM_DEVICE Array<std::uint64_t> key_best() const { return of_table<std::uint64_t>(0U); }  // pack(cost, arc)
    // The candidate that came first; kNoIndex: free. With kLookup, a candidate whose word is looked up; see
    // lookup.cuh
    ARCBEAM_DEVICE Array<std::uint32_t> key_owner() const { return of_table<std::uint32_t>(8U); }
    ARCBEAM_DEVICE Array<std::uint32_t> key_index() const { return of_table<std::uint32_t>(20U); }  // hypothesis
    // The states, kNoIndex: free; and the number of their hypotheses less one, or the place of these in the ranking
    ARCBEAM_DEVICE Array<std::uint32_t> list_state() const { return of_table<std::uint32_t>(12U); }
    ARCBEAM_DEVICE Array<std::uint32_t> list_count() const { return of_table<std::uint32_t>(16U); }

    // ordered cost << 32 | hypothesis, and among them the numbers of members and of places taken; at the end depth
    // << 32 | list
    ARCBEAM_DEVICE Array<std::uint64_t> ranking() const {
        return array<std::uint64_t>(tables, 24U * static_cast<std::uint64_t>(table_size), most_ranked);
    }
    // The key of a hypothesis
    ARCBEAM_DEVICE Array<std::uint32_t> place() const {
        const std::uint64_t before =
            24U * static_cast<std::uint64_t>(table_size) + 8U * static_cast<std::uint64_t>(most_ranked);
        return array<std::uint32_t>(tables, before, hypotheses);
    }
    // The place of its state in the list table; kNoIndex where the number of hypotheses is not limited
    ARCBEAM_DEVICE Array<std::uint32_t> list() const { return of_hypothesis<std::uint32_t>(0U); }
    // The token-log index of the token that its winner leaves
    ARCBEAM_DEVICE Array<std::uint32_t> source() const { return of_hypothesis<std::uint32_t>(4U); }
    // kUndecided, kRanked, kStays, or kNoIndex if it was cut; in the end the index among those that are kept
    ARCBEAM_DEVICE Array<std::uint32_t> kept() const { return of_hypothesis<std::uint32_t>(8U); }
    ARCBEAM_DEVICE Array<StateArcs> arcs() const { return of_hypothesis<StateArcs>(12U); }
    ARCBEAM_DEVICE Array<Leaving> epsilons() const {
        return of_hypothesis<Leaving>(28U);
    }  // of those that have any

    ARCBEAM_DEVICE Array<Candidate> candidate() const { return of_candidate<Candidate>(0U); }  // place: its state
    ARCBEAM_DEVICE Array<Extension> extension() const { return of_candidate<Extension>(16U); }
    ARCBEAM_DEVICE Array<std::uint32_t> with_words() const {
        return of_candidate<std::uint32_t>(32U);
    }  // with words
    // Of the candidates with words, those that are looked up for all with the same history and word
    ARCBEAM_DEVICE Array<std::uint32_t> distinct() const { return of_candidate<std::uint32_t>(36U); }

    // The view of these arrays for stages of the plain search.
    ARCBEAM_DEVICE Workspace plain() const {
        Workspace work{};
        work.candidate = candidate();
        return work;
    }

    ARCBEAM_DEVICE History history(std::uint32_t key) const {
        const std::uint32_t owner = key_owner()[key];
        return simt::load(&extension().at(owner)->history);
    }
};

// A place in the block's own shared memory.
struct InShared {
    std::uint32_t offset;
    ARCBEAM_DEVICE operator unsigned char*() const { return simt::shared_memory() + offset; }
};

using RescoringWorkspace = RescoringArrays<unsigned char*>;
using SharedArrays = RescoringArrays<InShared>;

ARCBEAM_DEVICE RescoringWorkspace rescoring_workspace(unsigned char* memory, std::uint32_t capacity,
                                                      std::uint32_t candidates, std::uint32_t table_size) {
    unsigned char* const rest = memory + rescoring_tables_bytes(capacity, table_size);
    return {memory, rest, table_size, capacity, capacity, capacity, candidates};
}

// Frees all tables. A barrier must follow.
template <class Team>
ARCBEAM_DEVICE void free_tables(const RescoringWorkspace& work) {
    for (std::uint32_t i = Team::rank(); i < work.table_size; i += Team::size()) {
        work.key_best()[i] = kNoPacked;
        work.key_owner()[i] = kNoIndex;
        work.list_state()[i] = kNoIndex;
        work.list_count()[i] = kNoIndex;
    }
}

// Counters of one thread.
struct alignas(16) LookupCounts {
    std::uint32_t lookups = 0;
    std::uint32_t distinct = 0;
    std::uint32_t misses = 0;
    std::uint32_t reads = 0;
};

// The words of a block in addition to those of Control, whose `added` and `epsilons` count hypotheses here.
struct RescoringControl {
    LookupCounts of_helpers;        // counters of the other blocks of the cluster
    std::uint64_t end_history;      // of the best token of the last frame
    unsigned char* request_memory;  // see requests.cuh
    unsigned char* request_mapped;
    unsigned char* answer_buffer;
    std::uint64_t request_began;  // by the multiprocessor's clock
    std::uint32_t best;           // ordered(), among the rescored candidates
    std::uint32_t best_survivor;
    std::uint32_t num_with_words[3];  // in a step, by its slot
    std::uint32_t num_distinct[3];
    // One bit for each depth below 31 that any hypothesis has, and one for all larger depths
    std::uint32_t has_level;
    std::uint32_t num_kept;
    std::uint32_t tied;           // some winner has an equal
    std::uint32_t num_long;       // states that have too many hypotheses
    std::uint32_t long_levels;    // the depths of these that have epsilon arcs, as in has_level
    std::uint32_t long_ends;      // whether any of these has no epsilon arcs
    std::uint32_t num_ranked;     // entries of the ranking that are in use
    std::uint32_t unranked;       // there were too few entries
    std::uint32_t num_within;     // candidates within the bound before rescoring
    std::uint32_t num_questions;  // listed, not posted yet
    std::uint32_t num_answers;    // number of answers that have come; kNoIndex: they have not come
    std::uint32_t request_size;
    std::uint32_t request_slot;
    std::uint32_t request_first;  // place in the answer buffer of the answers that have come
    std::uint32_t request_round;
    std::uint32_t request_used;  // entries of the lane's table
    std::uint32_t request_open;  // the answers to questions that were posted have not been taken
    std::uint32_t request_full;  // there was no entry for a question
};

static_assert(sizeof(RescoringControl) <= kRescoringControlBytes, "the host sets aside kRescoringControlBytes");

template <class Work>
constexpr bool kIsShared = std::is_same_v<std::decay_t<Work>, SharedArrays>;

// The words of the block, in the same kind of memory as its arrays, so that the compiler knows their address.
template <class Work>
ARCBEAM_DEVICE Control& words_beside(const Work&, Control& given) {
    return kIsShared<Work> ? *reinterpret_cast<Control*>(simt::shared_memory()) : given;
}
template <class Work>
ARCBEAM_DEVICE RescoringControl& words_beside(const Work&, RescoringControl& given) {
    return kIsShared<Work> ? *reinterpret_cast<RescoringControl*>(simt::shared_memory() + kControlBytes) : given;
}

// Calls stage(arrays). If the arrays are in the block's own shared memory, their type shows it to the compiler.
// Accesses to an address of unknown kind take twice as long, and 64-bit atomics there are tried twice.
template <class Team, class Stage>
ARCBEAM_DEVICE auto where_it_is(const RescoringWorkspace& work, bool few, const Stage& stage) {
    if constexpr (Team::kScope == Scope::block) {
        const auto offset = static_cast<std::uint64_t>(work.rest - simt::shared_memory());
        if (few && offset < simt::shared_memory_bytes()) {
            const InShared tables{static_cast<std::uint32_t>(work.tables - simt::shared_memory())};
            const InShared rest{static_cast<std::uint32_t>(offset)};
            return stage(SharedArrays{tables, rest, work.table_size, work.hypotheses, work.most_ranked,
                                      work.capacity, work.candidates});
        }
    }
    return stage(work);
}

ARCBEAM_DEVICE std::uint32_t level_bit(std::uint32_t depth) { return 1U << (depth < 31U ? depth : 31U); }

ARCBEAM_DEVICE std::uint32_t scaled(std::uint32_t mixed, std::uint32_t size) {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(mixed) * size >> 32U);
}

ARCBEAM_DEVICE std::uint32_t key_home(std::uint32_t state, const History& history, std::uint32_t size) {
    const std::uint32_t mixed = (state * 0x9e3779b1U ^ history.large) * 0x85ebca6bU ^ history.small;
    return scaled(mixed * 0xc2b2ae35U, size);
}

}  // namespace arcbeam
