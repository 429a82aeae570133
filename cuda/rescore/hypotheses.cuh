// The frontier of a search with histories: one winner for each (graph state, history), and the best n of a state.
// The rule is the twin's, cpu_reference/decode/hypotheses.hpp.
//
//     key table    (state, history) -> the candidate that came first with it, the best cost and arc, its hypothesis
//     list table   state            -> its hypotheses, a chain
//
// A key is not stored but read from its candidate, so an entry is claimed by one 32-bit exchange. What a candidate
// is must therefore have been written a barrier before it is offered.
#pragma once

#include "decode/recombine.cuh"
#include "rescore/rescoring_search.hpp"

namespace arcbeam {

constexpr std::uint32_t kUndecided = 0xfffffffeU;  // of a hypothesis that has not been ranked
constexpr std::uint32_t kStays = 0xfffffffdU;      // of one that is among the best n of its state
constexpr std::uint32_t kUnclaimed = 0xfffffffeU;  // the source of a winner that has not been named

// What a candidate has besides its cost, arc, state and source.
struct alignas(16) Extension {
    History history;      // before the word; once that is looked up, after it
    std::uint32_t place;  // see lookup.cuh; once admitted, of its key; kNoIndex: not admitted
    std::uint32_t word;   // kNoWord: none
};

// The arrays of a frame. Hypotheses are in the order in which they were found, which differs from run to run.
struct RescoringWorkspace {
    Array<std::uint64_t> key_best;    // pack(cost, arc) of the best candidate
    Array<std::uint32_t> key_owner;   // candidate that came first; kNoIndex: free
    Array<std::uint32_t> list_state;  // kNoIndex: free
    Array<std::uint32_t> list_first;  // hypothesis
    Array<std::uint32_t> list_count;  // hypotheses, less one
    Array<std::uint32_t> asked;       // lookup.cuh: candidate that asks; kNoIndex: free
    Array<std::uint32_t> key_index;   // hypothesis

    // Of a hypothesis
    Array<std::uint32_t> place;   // of its key
    Array<std::uint32_t> next;    // of the same state; kNoIndex: none
    Array<std::uint32_t> list;    // place of its state in the list table; kNoIndex where hypotheses are not limited
    Array<std::uint32_t> source;  // token-log index of the token that its winner leaves
    Array<std::uint32_t> kept;    // kUndecided, kStays, kNoIndex: cut; at last the index among those that are kept
    Array<StateArcs> arcs;
    Array<Leaving> epsilons;  // of those with epsilon arcs

    Array<Candidate> candidate;  // place: the state it reaches
    Array<Extension> extension;
    Array<std::uint32_t> wanted;    // candidates with a word to look up
    Array<std::uint32_t> distinct;  // those of them that ask for all with the same history and word

    // What stages of the plain search need.
    ARCBEAM_DEVICE Workspace plain() const {
        Workspace work{};
        work.candidate = candidate;
        return work;
    }

    ARCBEAM_DEVICE History history(std::uint32_t key) const {
        const std::uint32_t owner = key_owner[key];
        return simt::load(&extension.at(owner)->history);
    }
};

ARCBEAM_DEVICE void carve_tables(unsigned char*& memory, std::uint32_t capacity, std::uint32_t asked,
                                 std::uint32_t table_size, RescoringWorkspace& work) {
    work.key_best = carve<std::uint64_t>(memory, table_size);
    work.key_owner = carve<std::uint32_t>(memory, table_size);
    work.list_state = carve<std::uint32_t>(memory, table_size);
    work.list_first = carve<std::uint32_t>(memory, table_size);
    work.list_count = carve<std::uint32_t>(memory, table_size);
    work.asked = carve<std::uint32_t>(memory, asked);
    work.key_index = carve<std::uint32_t>(memory, table_size);
    work.place = carve<std::uint32_t>(memory, capacity);
    work.next = carve<std::uint32_t>(memory, capacity);
}

ARCBEAM_DEVICE RescoringWorkspace carve_rescoring(unsigned char* memory, std::uint32_t capacity,
                                                  std::uint32_t candidates, std::uint32_t table_size) {
    RescoringWorkspace work;
    carve_tables(memory, capacity, candidates, table_size, work);
    work.list = carve<std::uint32_t>(memory, capacity);
    work.source = carve<std::uint32_t>(memory, capacity);
    work.kept = carve<std::uint32_t>(memory, capacity);
    work.arcs = carve<StateArcs>(memory, capacity);
    work.epsilons = carve<Leaving>(memory, capacity);
    work.candidate = carve<Candidate>(memory, candidates);
    work.extension = carve<Extension>(memory, candidates);
    work.wanted = carve<std::uint32_t>(memory, candidates);
    work.distinct = carve<std::uint32_t>(memory, candidates);
    return work;
}

// Frees all tables. A barrier must follow.
ARCBEAM_DEVICE void free_tables(const RescoringWorkspace& work) {
    for (std::uint32_t i = simt::thread_rank(); i < work.key_owner.size; i += simt::block_size()) {
        work.key_best[i] = kNoPacked;
        work.key_owner[i] = kNoIndex;
        work.list_state[i] = kNoIndex;
        work.list_first[i] = kNoIndex;
        work.list_count[i] = kNoIndex;
    }
    for (std::uint32_t i = simt::thread_rank(); i < work.asked.size; i += simt::block_size()) {
        work.asked[i] = kNoIndex;
    }
}

// Words of a block beside those of Control. Steps of a frame that look words up take turns with two slots.
struct RescoringControl {
    std::uint64_t end_history;  // of the best last token
    std::uint32_t best;         // ordered(), among the rescored candidates
    std::uint32_t best_survivor;
    std::uint32_t num_wanted[2];
    std::uint32_t num_distinct[2];
    std::uint32_t num_hypotheses;
    std::uint32_t num_epsilons;  // of them, with epsilon arcs
    std::uint32_t levels;        // 1 + the largest depth of these
    std::uint32_t has_level;     // a bit for each depth below 31 that any has, and one for all others
    std::uint32_t overflow;      // there was too little room
    std::uint32_t num_kept;
    std::uint32_t tied;  // some winner has an equal
};

static_assert(sizeof(RescoringControl) <= kRescoringControlBytes, "the host sets aside kRescoringControlBytes");

ARCBEAM_DEVICE std::uint32_t level_bit(std::uint32_t depth) { return 1U << (depth < 31U ? depth : 31U); }

ARCBEAM_DEVICE std::uint32_t scaled(std::uint32_t mixed, std::uint32_t size) {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(mixed) * size >> 32U);
}

ARCBEAM_DEVICE std::uint32_t key_home(std::uint32_t state, const History& history, std::uint32_t size) {
    const std::uint32_t mixed = (state * 0x9e3779b1U ^ history.large) * 0x85ebca6bU ^ history.small;
    return scaled(mixed * 0xc2b2ae35U, size);
}

// Offers candidate i to its key.
ARCBEAM_DEVICE Offered offer_key(std::uint32_t i, std::uint64_t packed, std::uint32_t state, const History& history,
                                 const RescoringWorkspace& work, RescoringControl& control) {
    const std::uint32_t size = work.key_owner.size;
    std::uint32_t place = key_home(state, history, size);
    for (std::uint32_t probes = 0U; probes < size; ++probes) {
        std::uint32_t found = simt::load_relaxed<Scope::block>(work.key_owner.at(place));
        bool added = false;
        if (found == kNoIndex) {
            if (simt::load_relaxed<Scope::block>(&control.num_hypotheses) >= work.place.size) {
                break;
            }
            found = simt::atomic_cas<Scope::block>(work.key_owner.at(place), kNoIndex, i);
            added = found == kNoIndex;
        }
        if (added || (simt::load(&work.candidate.at(found)->place) == state &&
                      simt::load(&work.extension.at(found)->history) == history)) {
            simt::atomic_min<Scope::block>(work.key_best.at(place), packed);
            return {place, added};
        }
        place = place + 1U == size ? 0U : place + 1U;
    }
    simt::store_relaxed<Scope::block>(&control.overflow, 1U);
    return {kNoIndex, false};
}

// Links a hypothesis to its state's list. There is a place for each.
ARCBEAM_DEVICE void enlist(std::uint32_t index, std::uint32_t state, const RescoringWorkspace& work) {
    const std::uint32_t size = work.list_state.size;
    std::uint32_t place = home(state, size);
    for (std::uint32_t probes = 0U; probes < size; ++probes) {
        std::uint32_t found = simt::load_relaxed<Scope::block>(work.list_state.at(place));
        if (found == kNoIndex) {
            found = simt::atomic_cas<Scope::block>(work.list_state.at(place), kNoIndex, state);
        }
        if (found == kNoIndex || found == state) {
            break;
        }
        place = place + 1U == size ? 0U : place + 1U;
    }
    work.list[index] = place;
    work.next[index] = simt::atomic_exchange<Scope::block>(work.list_first.at(place), index);
    simt::atomic_add<Scope::block>(work.list_count.at(place), 1U);
}

// Enters a new hypothesis, and asks for what the frame and the next one will read of its state. All lanes of a warp
// come here, some with nothing to add.
ARCBEAM_DEVICE void add_hypothesis(const RescoringParams& params, bool added, std::uint32_t state,
                                   std::uint32_t place, const RescoringWorkspace& work, RescoringControl& control) {
    const std::uint32_t index = take_place<BlockTeam>(&control.num_hypotheses, added);
    if (added && index >= work.place.size) {
        simt::store_relaxed<Scope::block>(&control.overflow, 1U);
        added = false;
    }
    StateRow row{};
    row.epsilon.depth = kNoIndex;
    if (added) {
        row = load_row(params.search.graph, state);
        if (params.hypotheses_per_state != 0U) {
            enlist(index, state, work);
        } else {
            work.list[index] = kNoIndex;
        }
        work.key_index[place] = index;
        work.place[index] = place;
        work.source[index] = kUnclaimed;
        work.arcs[index] = row.arcs;
        work.kept[index] = kUndecided;
        if (row.arcs.first_emitting != row.arcs.arcs_end) {
            simt::prefetch(params.search.graph.labels + row.arcs.first_emitting);
        }
        if (row.epsilon.depth != kNoIndex) {
            simt::prefetch(params.search.graph.states + row.epsilon.next_state);
            if (params.epsilon_words != 0U) {
                simt::prefetch(params.words + row.arcs.first_arc);
            }
        }
    }
    const bool has_epsilon = row.epsilon.depth != kNoIndex;
    const std::uint32_t at = take_place<BlockTeam>(&control.num_epsilons, has_epsilon);
    const std::uint32_t levels = simt::reduce_max(simt::kAllLanes, has_epsilon ? row.epsilon.depth + 1U : 0U);
    const std::uint32_t bits = simt::reduce_or(simt::kAllLanes, has_epsilon ? level_bit(row.epsilon.depth) : 0U);
    if (has_epsilon) {
        work.epsilons[at] = leaving(index, row.epsilon);
    }
    if (bits != 0U && simt::lane() == 0U) {
        simt::atomic_max<Scope::block>(&control.levels, levels);
        simt::atomic_or<Scope::block>(&control.has_level, bits);
    }
}

// Admits candidates [first, last): their keys and hypotheses. A barrier must follow. Returns how many were admitted
// by this thread.
ARCBEAM_DEVICE std::uint32_t recombine_histories(const RescoringParams& params, std::uint32_t first,
                                                 std::uint32_t last, float bound, const RescoringWorkspace& work,
                                                 RescoringControl& control) {
    std::uint32_t admitted = 0U;
    const std::uint32_t end = first + (last - first + simt::kWarpSize - 1U) / simt::kWarpSize * simt::kWarpSize;
    for (std::uint32_t i = first + simt::thread_rank(); i < end; i += simt::block_size()) {
        Offered offered{kNoIndex, false};
        std::uint32_t state = 0U;
        if (i < last) {
            const Candidate candidate = work.candidate[i];
            state = candidate.place;
            if (admits(bound, packed_cost(candidate.packed))) {
                const History history = simt::load(&work.extension.at(i)->history);
                offered = offer_key(i, candidate.packed, state, history, work, control);
                ++admitted;
            }
            simt::store(&work.extension.at(i)->place, offered.place);
        }
        add_hypothesis(params, offered.added, state, offered.place, work, control);
    }
    return admitted;
}

// Whether a hypothesis is among the best n of its state, by (cost, history). Its list is complete. While the key of
// one is on its way, the next is looked for.
ARCBEAM_DEVICE bool is_among_best(std::uint32_t index, std::uint32_t n, const RescoringWorkspace& work) {
    if (n == 0U) {
        return true;
    }
    const std::uint32_t list = work.list[index];
    if (work.list_count[list] + 1U <= n) {
        return true;
    }
    const std::uint32_t own = work.place[index];
    const auto cost = static_cast<std::uint32_t>(work.key_best[own] >> 32U);
    std::uint32_t before = 0U;
    std::uint32_t at = work.list_first[list];
    std::uint32_t place = work.place[at];
    while (at != kNoIndex) {
        const auto key = static_cast<std::uint32_t>(work.key_best[place] >> 32U);
        const std::uint32_t next = work.next[at];
        const std::uint32_t next_place = next == kNoIndex ? 0U : static_cast<std::uint32_t>(work.place[next]);
        if (key < cost || (key == cost && at != index && work.history(place) < work.history(own))) {
            if (++before == n) {
                return false;
            }
        }
        at = next;
        place = next_place;
    }
    return true;
}

}  // namespace arcbeam
