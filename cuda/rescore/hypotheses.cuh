// The frontier of a search with histories: one winner for each (graph state, history), and the best n of a state.
// The rule is the twin's, cpu_reference/decode/hypotheses.hpp.
//
//     key table    (state, history) -> the candidate that came first with it, the best cost and arc, its hypothesis
//     list table   state            -> how many hypotheses it has, and where they stand side by side when it is
//     complete
//
// A key is not stored but read from its candidate, so an entry is claimed by one 32-bit exchange. What a candidate
// is must therefore have been written a barrier before it is offered.
#pragma once

#include "decode/recombine.cuh"
#include "rescore/order.cuh"

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

// The arrays of a frame: tables in one piece of memory, the rest in another or behind them. They are worked out
// from where these begin and from a few sizes, all of them multiples of 4, for a pointer to each would not fit the
// registers. Hypotheses are in the order in which they were found, which differs from run to run.
struct RescoringWorkspace {
    unsigned char* tables;
    unsigned char* rest;
    std::uint32_t table_size;
    std::uint32_t most_asked;
    std::uint32_t hypotheses;  // for which there is room
    std::uint32_t capacity;    // for which `rest` has been laid out
    std::uint32_t candidates;

    template <class T>
    ARCBEAM_DEVICE static Array<T> array(unsigned char* memory, std::uint64_t offset, std::uint32_t size) {
        return {reinterpret_cast<T*>(memory + offset), size};
    }
    template <class T>
    ARCBEAM_DEVICE Array<T> of_table(std::uint64_t bytes_before, std::uint32_t asked_before = 0U) const {
        return array<T>(tables, bytes_before * table_size + 4U * static_cast<std::uint64_t>(asked_before),
                        table_size);
    }
    template <class T>
    ARCBEAM_DEVICE Array<T> of_hypothesis(std::uint64_t bytes_before) const {
        return array<T>(rest, bytes_before * capacity, capacity);
    }
    template <class T>
    ARCBEAM_DEVICE Array<T> of_candidate(std::uint64_t bytes_before) const {
        return array<T>(rest, 44U * static_cast<std::uint64_t>(capacity) + bytes_before * candidates, candidates);
    }
    template <class T>
    ARCBEAM_DEVICE Array<T> behind_tables(std::uint64_t bytes_before) const {
        const std::uint64_t before =
            28U * static_cast<std::uint64_t>(table_size) + 4U * static_cast<std::uint64_t>(most_asked);
        return array<T>(tables, before + bytes_before * hypotheses, hypotheses);
    }

    // Keys
    ARCBEAM_DEVICE Array<std::uint64_t> key_best() const { return of_table<std::uint64_t>(0U); }  // pack(cost, arc)
    // The candidate that came first; kNoIndex: free
    ARCBEAM_DEVICE Array<std::uint32_t> key_owner() const { return of_table<std::uint32_t>(8U); }
    ARCBEAM_DEVICE Array<std::uint32_t> key_index() const {  // the hypothesis
        return of_table<std::uint32_t>(24U, most_asked);
    }
    // States, kNoIndex: free; where the ranking of their hypotheses begins, and how many they have, less one
    ARCBEAM_DEVICE Array<std::uint32_t> list_state() const { return of_table<std::uint32_t>(12U); }
    ARCBEAM_DEVICE Array<std::uint32_t> list_start() const { return of_table<std::uint32_t>(16U); }
    ARCBEAM_DEVICE Array<std::uint32_t> list_count() const { return of_table<std::uint32_t>(20U); }
    // lookup.cuh: the candidate that asks; kNoIndex: free
    ARCBEAM_DEVICE Array<std::uint32_t> asked() const {
        return array<std::uint32_t>(tables, 24U * static_cast<std::uint64_t>(table_size), most_asked);
    }

    // Of a hypothesis: its key, and its place among those of its state
    ARCBEAM_DEVICE Array<std::uint32_t> place() const { return behind_tables<std::uint32_t>(0U); }
    ARCBEAM_DEVICE Array<std::uint32_t> rank() const { return behind_tables<std::uint32_t>(4U); }
    // ordered cost << 32 | hypothesis: those of a state that has too many side by side
    ARCBEAM_DEVICE Array<std::uint64_t> ranking() const { return behind_tables<std::uint64_t>(8U); }
    // The place of its state in the list table; kNoIndex where hypotheses are not limited
    ARCBEAM_DEVICE Array<std::uint32_t> list() const { return of_hypothesis<std::uint32_t>(0U); }
    // The token-log index of the token that its winner leaves
    ARCBEAM_DEVICE Array<std::uint32_t> source() const { return of_hypothesis<std::uint32_t>(4U); }
    // kUndecided, kStays, kNoIndex: cut; at last the index among those that are kept
    ARCBEAM_DEVICE Array<std::uint32_t> kept() const { return of_hypothesis<std::uint32_t>(8U); }
    ARCBEAM_DEVICE Array<StateArcs> arcs() const { return of_hypothesis<StateArcs>(12U); }
    ARCBEAM_DEVICE Array<Leaving> epsilons() const {
        return of_hypothesis<Leaving>(28U);
    }  // of those that have any

    ARCBEAM_DEVICE Array<Candidate> candidate() const { return of_candidate<Candidate>(0U); }  // place: its state
    ARCBEAM_DEVICE Array<Extension> extension() const { return of_candidate<Extension>(16U); }
    ARCBEAM_DEVICE Array<std::uint32_t> wanted() const { return of_candidate<std::uint32_t>(32U); }  // with words
    // Those of them that ask for all with the same history and word
    ARCBEAM_DEVICE Array<std::uint32_t> distinct() const { return of_candidate<std::uint32_t>(36U); }

    // What stages of the plain search need.
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

ARCBEAM_DEVICE RescoringWorkspace rescoring_workspace(unsigned char* memory, std::uint32_t capacity,
                                                      std::uint32_t candidates, std::uint32_t table_size) {
    unsigned char* const rest = memory + rescoring_tables_bytes(capacity, candidates, table_size);
    return {memory, rest, table_size, candidates, capacity, capacity, candidates};
}

// Frees all tables. A barrier must follow.
ARCBEAM_DEVICE void free_tables(const RescoringWorkspace& work) {
    for (std::uint32_t i = simt::thread_rank(); i < work.key_owner().size; i += simt::block_size()) {
        work.key_best()[i] = kNoPacked;
        work.key_owner()[i] = kNoIndex;
        work.list_state()[i] = kNoIndex;
        work.list_count()[i] = kNoIndex;
    }
    for (std::uint32_t i = simt::thread_rank(); i < work.asked().size; i += simt::block_size()) {
        work.asked()[i] = kNoIndex;
    }
}

// Words of a block beside those of Control. Steps of a frame that look words up take turns with two slots.
struct RescoringControl {
    std::uint64_t end_history;   // of the best last token
    unsigned char* mail_memory;  // see mail.cuh
    unsigned char* mail_mapped;
    std::uint64_t mail_began;  // by the multiprocessor's clock
    std::uint32_t best;        // ordered(), among the rescored candidates
    std::uint32_t best_survivor;
    std::uint32_t num_wanted[2];
    std::uint32_t num_distinct[2];
    std::uint32_t num_hypotheses;
    std::uint32_t num_epsilons;  // of them, with epsilon arcs
    std::uint32_t levels;        // 1 + the largest depth of these
    std::uint32_t has_level;     // a bit for each depth below 31 that any has, and one for all others
    std::uint32_t overflow;      // there was too little room
    std::uint32_t num_kept;
    std::uint32_t tied;           // some winner has an equal
    std::uint32_t long_levels;    // as has_level: some state of this depth has too many hypotheses;
    std::uint32_t long_ends;      // some state without epsilon arcs has
    std::uint32_t num_ranked;     // places of the ranking that are taken
    std::uint32_t num_within;     // candidates within the bound before rescoring
    std::uint32_t num_questions;  // listed, not posted yet
    std::uint32_t num_answers;    // that have come; kNoIndex: they have not
    std::uint32_t mail_size;
    std::uint32_t mail_round;
    std::uint32_t mail_used;  // entries of the lane's table
    std::uint32_t mail_open;  // questions are posted whose answers have not been taken
    std::uint32_t mail_full;  // there was no entry for a question
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
    const std::uint32_t size = work.key_owner().size;
    std::uint32_t place = key_home(state, history, size);
    for (std::uint32_t probes = 0U; probes < size; ++probes) {
        std::uint32_t found = simt::load_relaxed<Scope::block>(work.key_owner().at(place));
        bool added = false;
        if (found == kNoIndex) {
            if (simt::load_relaxed<Scope::block>(&control.num_hypotheses) >= work.hypotheses) {
                break;
            }
            found = simt::atomic_cas<Scope::block>(work.key_owner().at(place), kNoIndex, i);
            added = found == kNoIndex;
        }
        if (added || (simt::load(&work.candidate().at(found)->place) == state &&
                      simt::load(&work.extension().at(found)->history) == history)) {
            simt::atomic_min<Scope::block>(work.key_best().at(place), packed);
            return {place, added};
        }
        place = place + 1U == size ? 0U : place + 1U;
    }
    simt::store_relaxed<Scope::block>(&control.overflow, 1U);
    return {kNoIndex, false};
}

// Counts a hypothesis among those of its state; returns its place there. There is an entry for each.
ARCBEAM_DEVICE std::uint32_t enlist(std::uint32_t index, std::uint32_t state, const RescoringWorkspace& work) {
    const std::uint32_t size = work.list_state().size;
    std::uint32_t place = home(state, size);
    for (std::uint32_t probes = 0U; probes < size; ++probes) {
        std::uint32_t found = simt::load_relaxed<Scope::block>(work.list_state().at(place));
        if (found == kNoIndex) {
            found = simt::atomic_cas<Scope::block>(work.list_state().at(place), kNoIndex, state);
        }
        if (found == kNoIndex || found == state) {
            break;
        }
        place = place + 1U == size ? 0U : place + 1U;
    }
    work.list()[index] = place;
    const std::uint32_t rank = simt::atomic_add<Scope::block>(work.list_count().at(place), 1U) + 1U;
    work.rank()[index] = rank;
    return rank;
}

// Enters a new hypothesis, and asks for what the frame and the next one will read of its state. All lanes of a warp
// come here, some with nothing to add.
ARCBEAM_DEVICE void add_hypothesis(const RescoringParams& params, bool added, std::uint32_t state,
                                   std::uint32_t place, const RescoringWorkspace& work, RescoringControl& control) {
    const std::uint32_t index = take_place<BlockTeam>(&control.num_hypotheses, added);
    if (added && index >= work.hypotheses) {
        simt::store_relaxed<Scope::block>(&control.overflow, 1U);
        added = false;
    }
    StateRow row{};
    row.epsilon.depth = kNoIndex;
    bool is_long = false;
    if (added) {
        row = load_row(params.search.graph, state);
        if (params.hypotheses_per_state != 0U) {
            is_long = enlist(index, state, work) >= params.hypotheses_per_state;
        } else {
            work.list()[index] = kNoIndex;
        }
        work.key_index()[place] = index;
        work.place()[index] = place;
        work.source()[index] = kUnclaimed;
        work.arcs()[index] = row.arcs;
        work.kept()[index] = kUndecided;
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
        work.epsilons()[at] = leaving(index, row.epsilon);
    }
    if (bits != 0U && simt::lane() == 0U) {
        simt::atomic_max<Scope::block>(&control.levels, levels);
        simt::atomic_or<Scope::block>(&control.has_level, bits);
    }
    if (is_long) {  // few
        if (has_epsilon) {
            simt::atomic_or<Scope::block>(&control.long_levels, level_bit(row.epsilon.depth));
        } else {
            simt::store_relaxed<Scope::block>(&control.long_ends, 1U);
        }
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
            const Candidate candidate = work.candidate()[i];
            state = candidate.place;
            if (admits(bound, packed_cost(candidate.packed))) {
                const History history = simt::load(&work.extension().at(i)->history);
                offered = offer_key(i, candidate.packed, state, history, work, control);
                ++admitted;
            }
            simt::store(&work.extension().at(i)->place, offered.place);
        }
        add_hypothesis(params, offered.added, state, offered.place, work, control);
    }
    return admitted;
}

// Puts the hypotheses of states that have more than n of them side by side; their lists are complete. each(i) names
// a hypothesis, or kNoIndex, for i below `count`: all of a state or none. Barriers are passed, one at the end.
template <class Each>
ARCBEAM_DEVICE void rank_lists(std::uint32_t n, std::uint32_t count, const Each& each,
                               const RescoringWorkspace& work, RescoringControl& control) {
    for (std::uint32_t pass = 0U; pass < 2U; ++pass) {
        for (std::uint32_t i = simt::thread_rank(); i < count; i += simt::block_size()) {
            const std::uint32_t index = each(i);
            if (index == kNoIndex) {
                continue;
            }
            const std::uint32_t list = work.list()[index];
            const std::uint32_t members = work.list_count()[list] + 1U;
            const std::uint32_t rank = work.rank()[index];
            if (members <= n) {
                continue;
            }
            if (pass == 0U && rank == 0U) {
                work.list_start()[list] = simt::atomic_add<Scope::block>(&control.num_ranked, members);
            } else if (pass == 1U) {
                const std::uint32_t start = work.list_start()[list];
                const std::uint32_t key = work.place()[index];
                work.ranking()[start + rank] = (work.key_best()[key] >> 32U) << 32U | index;
            }
        }
        simt::block_barrier();
    }
}

// Whether a hypothesis is among the best n of its state, by (cost, history): counts those before it. Its list has
// been ranked if it is too long.
ARCBEAM_DEVICE bool is_among_best(const RescoringParams& params, std::uint32_t index,
                                  const RescoringWorkspace& work) {
    constexpr std::uint32_t kEach = 4U;
    const std::uint32_t n = params.hypotheses_per_state;
    if (n == 0U) {
        return true;
    }
    const std::uint32_t list = work.list()[index];
    const std::uint32_t members = work.list_count()[list] + 1U;
    if (members <= n) {
        return true;
    }
    const std::uint32_t start = work.list_start()[list];
    const std::uint32_t rank = work.rank()[index];
    const std::uint64_t own = work.ranking()[start + rank];
    const auto cost = static_cast<std::uint32_t>(own >> 32U);
    std::uint32_t before = 0U;
    for (std::uint32_t first = 0U; first < members && before < n; first += kEach) {
        std::uint64_t others[kEach];
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            others[k] = kNoPacked;
            if (first + k < members) {
                others[k] = work.ranking()[start + first + k];
            }
        }
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const auto key = static_cast<std::uint32_t>(others[k] >> 32U);
            before += key < cost ? 1U : 0U;
            if (key == cost && others[k] != own) {
                const std::uint32_t place = work.place()[static_cast<std::uint32_t>(others[k])];
                const std::uint32_t own_place = work.place()[index];
                before += precedes(params, work.history(place), work.history(own_place)) ? 1U : 0U;
            }
        }
    }
    return before < n;
}

}  // namespace arcbeam
