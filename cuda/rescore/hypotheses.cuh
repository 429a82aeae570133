// The frontier of a search with histories: one winner for each (graph state, history), and the best n of a state.
// The rule is the twin's, cpu_reference/decode/hypotheses.hpp.
//
//     key table    (state, history) -> the candidate that came first with it, the best cost and arc, its hypothesis
//     list table   state            -> how many hypotheses it has; where they stand side by side if they are too
//                                      many
//     ranking      [members | those that stand here, hypothesis, hypothesis, ...] ...        ... list, list
//                  a list that is too long, once it is complete; and from the end on, all such lists
//
// A key is not stored but read from its candidate, so an entry is claimed by one 32-bit exchange. What a candidate
// is must therefore have been written a barrier before it is offered.
#pragma once

#include "decode/recombine.cuh"
#include "rescore/order.cuh"

namespace arcbeam {

constexpr std::uint32_t kUndecided = 0xfffffffeU;  // of a hypothesis whose state has not been cut
constexpr std::uint32_t kStays = 0xfffffffdU;      // of one that is among the best n of its state
constexpr std::uint32_t kRanked = 0xfffffffcU;     // of one that stands in the ranking
constexpr std::uint32_t kUnclaimed = 0xfffffffeU;  // the source of a winner that has not been named
constexpr std::uint32_t kAsks = 0x80000000U;       // of a candidate in the key table: it asks for a word
constexpr std::uint32_t kInRanking = 0x80000000U;  // of a list: what follows is where it stands in the ranking

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
    std::uint32_t hypotheses;  // for which there is room
    std::uint32_t most_ranked;
    std::uint32_t capacity;  // for which `rest` has been laid out
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
    // The candidate that came first; kNoIndex: free. With kAsks one that asks for a word, see lookup.cuh
    ARCBEAM_DEVICE Array<std::uint32_t> key_owner() const { return of_table<std::uint32_t>(8U); }
    ARCBEAM_DEVICE Array<std::uint32_t> key_index() const { return of_table<std::uint32_t>(20U); }  // hypothesis
    // States, kNoIndex: free; and how many hypotheses they have, less one, or where in the ranking these are
    ARCBEAM_DEVICE Array<std::uint32_t> list_state() const { return of_table<std::uint32_t>(12U); }
    ARCBEAM_DEVICE Array<std::uint32_t> list_count() const { return of_table<std::uint32_t>(16U); }

    // ordered cost << 32 | hypothesis, and between them numbers of members and places taken; from the end on
    // depth << 32 | list
    ARCBEAM_DEVICE Array<std::uint64_t> ranking() const {
        return array<std::uint64_t>(tables, 24U * static_cast<std::uint64_t>(table_size), most_ranked);
    }
    // Of a hypothesis: its key
    ARCBEAM_DEVICE Array<std::uint32_t> place() const {
        const std::uint64_t before =
            24U * static_cast<std::uint64_t>(table_size) + 8U * static_cast<std::uint64_t>(most_ranked);
        return array<std::uint32_t>(tables, before, hypotheses);
    }
    // The place of its state in the list table; kNoIndex where hypotheses are not limited
    ARCBEAM_DEVICE Array<std::uint32_t> list() const { return of_hypothesis<std::uint32_t>(0U); }
    // The token-log index of the token that its winner leaves
    ARCBEAM_DEVICE Array<std::uint32_t> source() const { return of_hypothesis<std::uint32_t>(4U); }
    // kUndecided, kRanked, kStays, kNoIndex: cut; at last the index among those that are kept
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

// What one thread counts on the side.
struct alignas(16) LookupCounts {
    std::uint32_t lookups = 0;
    std::uint32_t distinct = 0;
    std::uint32_t misses = 0;
    std::uint32_t reads = 0;
};

// Words of a block beside those of Control, whose `added` and `epsilons` count hypotheses here.
struct RescoringControl {
    LookupCounts of_helpers;     // what other blocks of the cluster have counted
    std::uint64_t end_history;   // of the best last token
    unsigned char* mail_memory;  // see mail.cuh
    unsigned char* mail_mapped;
    std::uint64_t mail_began;  // by the multiprocessor's clock
    std::uint32_t best;        // ordered(), among the rescored candidates
    std::uint32_t best_survivor;
    std::uint32_t num_wanted[3];  // of a step, by its slot
    std::uint32_t num_distinct[3];
    std::uint32_t has_level;  // a bit for each depth below 31 that any hypothesis has, and one for all others
    std::uint32_t num_kept;
    std::uint32_t tied;           // some winner has an equal
    std::uint32_t num_long;       // states that have too many hypotheses;
    std::uint32_t long_levels;    // as has_level: of these depths, if with epsilon arcs;
    std::uint32_t long_ends;      // some without
    std::uint32_t num_ranked;     // entries of the ranking that are taken
    std::uint32_t unranked;       // there were too few
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

// There is too little room for the step's hypotheses.
template <class Team>
ARCBEAM_DEVICE void overflow(const Step& step, const RescoringWorkspace& work, Control& control) {
    simt::atomic_max<Team::kScope>(&control.added[step.slot], work.hypotheses + 1U - step.states_before);
}

// Where a candidate looks for its key: a place, and what has been found there.
struct Probe {
    std::uint32_t place;
    std::uint32_t found;  // kNoIndex: the place was free, and nobody has taken it in between
    bool added;           // since this thread has
};

template <class Team, bool fresh>
ARCBEAM_DEVICE std::uint32_t key_at(std::uint32_t place, const RescoringWorkspace& work) {
    return fresh ? simt::load_acquire<Team::kScope>(work.key_owner().at(place))
                 : simt::load_relaxed<Team::kScope>(work.key_owner().at(place));
}

// Claims a free place for candidate i, if there is room for another hypothesis.
template <class Team, bool fresh>
ARCBEAM_DEVICE void claim(Probe& probe, std::uint32_t i, const Step& step, const RescoringWorkspace& work,
                          Control& control) {
    constexpr simt::Order kOrder = fresh ? simt::Order::acquire_release : simt::Order::relaxed;
    if (probe.found == kNoIndex &&
        step.states_before + simt::load_relaxed<Team::kScope>(&control.added[step.slot]) < work.hypotheses) {
        probe.found = simt::atomic_cas<Team::kScope, kOrder>(work.key_owner().at(probe.place), kNoIndex, i);
        probe.added = probe.found == kNoIndex;
    }
}

// Offers candidate i to its key, from a probe on. `fresh`: candidates of this step are written in this step, each
// before it is offered.
template <class Team, bool fresh>
ARCBEAM_DEVICE Offered offer_key(Probe probe, std::uint32_t i, std::uint64_t packed, std::uint32_t state,
                                 const History& history, const Step& step, const RescoringWorkspace& work,
                                 Control& control) {
    const std::uint32_t size = work.table_size;
    for (std::uint32_t probes = 0U; probes < size && (probe.added || probe.found != kNoIndex); ++probes) {
        if (probe.added || (simt::load(&work.candidate().at(probe.found)->place) == state &&
                            simt::load(&work.extension().at(probe.found)->history) == history)) {
            simt::atomic_min<Team::kScope>(work.key_best().at(probe.place), packed);
            return {probe.place, probe.added};
        }
        probe.place = probe.place + 1U == size ? 0U : probe.place + 1U;
        probe.found = key_at<Team, fresh>(probe.place, work);
        claim<Team, fresh>(probe, i, step, work, control);
    }
    overflow<Team>(step, work, control);
    return {kNoIndex, false};
}

// The place of a state in the list table. There is an entry for each.
template <class Team>
ARCBEAM_DEVICE std::uint32_t list_of(std::uint32_t state, std::uint32_t place, std::uint32_t found,
                                     const RescoringWorkspace& work) {
    const std::uint32_t size = work.table_size;
    for (std::uint32_t probes = 0U; probes < size; ++probes) {
        if (found == kNoIndex) {
            found = simt::atomic_cas<Team::kScope>(work.list_state().at(place), kNoIndex, state);
        }
        if (found == kNoIndex || found == state) {
            break;
        }
        place = place + 1U == size ? 0U : place + 1U;
        found = simt::load_relaxed<Team::kScope>(work.list_state().at(place));
    }
    return place;
}

// A state has one hypothesis more than n: it is listed itself. False if there is no room to do so.
template <class Team>
ARCBEAM_DEVICE bool list_long(std::uint32_t list, std::uint32_t depth, const RescoringWorkspace& work,
                              RescoringControl& words) {
    const std::uint32_t at = simt::atomic_add<Team::kScope>(&words.num_long, 1U) + 1U;
    if (simt::load_relaxed<Team::kScope>(&words.num_ranked) + at > work.most_ranked) {
        return false;
    }
    work.ranking()[work.most_ranked - at] = static_cast<std::uint64_t>(depth) << 32U | list;
    if (depth != kNoIndex) {
        simt::atomic_or<Team::kScope>(&words.long_levels, level_bit(depth));
    } else {
        simt::store_relaxed<Team::kScope>(&words.long_ends, 1U);
    }
    return true;
}

// A hypothesis that has been found first, and what is known of its state.
struct Entered {
    bool is_new;
    std::uint32_t index;
    std::uint32_t state;
    std::uint32_t key;
    StateRow row;
};

// Enters new hypotheses, and asks for what the frame and the next one will read of their states. Each step is made
// for all of them before the next one is, for tables may be in device memory.
template <class Team, std::uint32_t each>
ARCBEAM_DEVICE void enter_hypotheses(const RescoringParams& params, const Entered (&entered)[each],
                                     const Step& step, const RescoringWorkspace& work, Control& control,
                                     RescoringControl& words) {
    const std::uint32_t n = params.hypotheses_per_state;
    std::uint32_t list[each];
    std::uint32_t found[each];
    for (std::uint32_t k = 0U; k < each; ++k) {
        list[k] = n == 0U ? kNoIndex : home(entered[k].state, work.table_size);
        found[k] = kNoIndex;
        if (entered[k].is_new && n != 0U) {
            found[k] = simt::load_relaxed<Team::kScope>(work.list_state().at(list[k]));
        }
    }
    for (std::uint32_t k = 0U; k < each; ++k) {
        if (entered[k].is_new && n != 0U) {
            list[k] = list_of<Team>(entered[k].state, list[k], found[k], work);
        }
    }
    std::uint32_t members[each];
    for (std::uint32_t k = 0U; k < each; ++k) {
        members[k] = 0U;
        if (entered[k].is_new && n != 0U) {
            members[k] = simt::atomic_add<Team::kScope>(work.list_count().at(list[k]), 1U) + 2U;
        }
    }
    for (std::uint32_t k = 0U; k < each; ++k) {
        if (!entered[k].is_new) {
            continue;
        }
        const Entered& one = entered[k];
        work.list()[one.index] = list[k];
        work.key_index()[one.key] = one.index;
        work.place()[one.index] = one.key;
        work.source()[one.index] = kUnclaimed;
        work.arcs()[one.index] = one.row.arcs;
        work.kept()[one.index] = kUndecided;
        if (one.row.arcs.first_emitting != one.row.arcs.arcs_end) {
            simt::prefetch(params.search.graph.labels + one.row.arcs.first_emitting);
        }
        if (one.row.epsilon.depth != kNoIndex) {
            simt::prefetch(params.search.graph.states + one.row.epsilon.next_state);
            if (params.epsilon_words != 0U) {
                simt::prefetch(params.words + one.row.arcs.first_arc);
            }
        }
        if (n != 0U && members[k] == n + 1U && !list_long<Team>(list[k], one.row.epsilon.depth, work, words)) {
            overflow<Team>(step, work, control);
        }
    }
}

// Admits candidates [first, last), or only those of them that have words: their keys and hypotheses; the best of
// them may be the best survivor. A barrier must follow. Returns how many were admitted by this thread. So many
// candidates a thread at a time, for what a new state takes is a load that waits.
template <class Team, std::uint32_t kEach>
ARCBEAM_DEVICE_NOINLINE std::uint32_t recombine_some(const RescoringParams& params, std::uint32_t first,
                                                     std::uint32_t last, bool only_words, float bound,
                                                     const Step step, const RescoringWorkspace work,
                                                     Control& control, RescoringControl& words) {
    std::uint32_t admitted = 0U;
    std::uint32_t best = kNoCost;
    const std::uint32_t end = first + (last - first + simt::kWarpSize - 1U) / simt::kWarpSize * simt::kWarpSize;
    for (std::uint32_t begin = first + Team::rank(); begin < end; begin += kEach * Team::size()) {
        Candidate candidate[kEach];
        Extension extension[kEach];
        bool is_admitted[kEach];
        Probe probe[kEach];
        Entered entered[kEach];
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const std::uint32_t i = begin + k * Team::size();
            candidate[k] = Candidate{kNoPacked, 0U, 0U};
            extension[k] = Extension{{0U, 0U}, kNoIndex, kNoWord};
            if (i < last) {
                candidate[k] = work.candidate()[i];
                extension[k] = work.extension()[i];
            }
        }
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            is_admitted[k] =
                !(only_words && extension[k].word == kNoWord) && admits(bound, packed_cost(candidate[k].packed));
            probe[k] = {key_home(candidate[k].place, extension[k].history, work.table_size), 0U, false};
            if (is_admitted[k]) {
                probe[k].found = key_at<Team, false>(probe[k].place, work);
            }
        }
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            if (is_admitted[k]) {
                claim<Team, false>(probe[k], begin + k * Team::size(), step, work, control);
            }
        }
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const std::uint32_t i = begin + k * Team::size();
            Offered offered{kNoIndex, false};
            if (is_admitted[k]) {
                offered = offer_key<Team, false>(probe[k], i, candidate[k].packed, candidate[k].place,
                                                 extension[k].history, step, work, control);
                ++admitted;
                const auto key = static_cast<std::uint32_t>(candidate[k].packed >> 32U);
                best = key < best ? key : best;
            }
            if (i < last && !(only_words && extension[k].word == kNoWord)) {
                simt::store(&work.extension().at(i)->place, offered.place);
            }
            const std::uint32_t index =
                step.states_before + take_place<Team>(&control.added[step.slot], offered.added);
            entered[k] = {offered.added && index < work.hypotheses, index, candidate[k].place, offered.place, {}};
            entered[k].row.epsilon.depth = kNoIndex;
        }
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            if (entered[k].is_new) {
                entered[k].row = load_row(params.search.graph, entered[k].state);
            }
        }
        enter_hypotheses<Team>(params, entered, step, work, control, words);
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const StateEpsilon& epsilon = entered[k].row.epsilon;
            const bool has_epsilon = epsilon.depth != kNoIndex;
            const std::uint32_t at =
                step.epsilons_before + take_place<Team>(&control.epsilons[step.slot], has_epsilon);
            const std::uint32_t levels = simt::reduce_max(simt::kAllLanes, has_epsilon ? epsilon.depth + 1U : 0U);
            const std::uint32_t bits =
                simt::reduce_or(simt::kAllLanes, has_epsilon ? level_bit(epsilon.depth) : 0U);
            if (has_epsilon) {
                work.epsilons()[at] = leaving(entered[k].index, epsilon);
            }
            if (bits != 0U && simt::lane() == 0U) {
                simt::atomic_max<Team::kScope>(&control.levels[step.slot], levels);
                simt::atomic_or<Team::kScope>(&words.has_level, bits);
            }
        }
    }
    best = simt::reduce_min(simt::kAllLanes, best);
    if (simt::lane() == 0U && best != kNoCost) {
        simt::atomic_min<Team::kScope>(&words.best_survivor, best);
    }
    return admitted;
}

// Where all threads have one at most, less to do is sooner done.
template <class Team>
ARCBEAM_DEVICE std::uint32_t recombine_histories(const RescoringParams& params, std::uint32_t first,
                                                 std::uint32_t last, bool only_words, float bound, const Step& step,
                                                 const RescoringWorkspace& work, Control& control,
                                                 RescoringControl& words) {
    return last - first <= Team::size()
               ? recombine_some<Team, 1U>(params, first, last, only_words, bound, step, work, control, words)
               : recombine_some<Team, 4U>(params, first, last, only_words, bound, step, work, control, words);
}

// Puts the hypotheses of states that have more than n of them side by side: those of this depth, whose lists are
// complete. Barriers are passed, one at the end. Returns how many states have too many, of any depth; kNoIndex if
// there is too little room.
template <class Team>
ARCBEAM_DEVICE_NOINLINE std::uint32_t rank_lists(std::uint32_t depth, std::uint32_t num_hypotheses,
                                                 const RescoringWorkspace work, RescoringControl& control) {
    constexpr std::uint32_t kEach = 4U;
    const std::uint32_t num_long = simt::load(&control.num_long);
    for (std::uint32_t i = Team::rank(); i < num_long; i += Team::size()) {
        const std::uint64_t entry = work.ranking()[work.most_ranked - 1U - i];
        if (static_cast<std::uint32_t>(entry >> 32U) != depth) {
            continue;
        }
        const auto list = static_cast<std::uint32_t>(entry);
        const std::uint32_t members = work.list_count()[list] + 1U;
        const std::uint32_t start = simt::atomic_add<Team::kScope>(&control.num_ranked, members + 1U);
        if (start + members + 1U + num_long > work.most_ranked) {
            simt::store_relaxed<Team::kScope>(&control.unranked, 1U);
            continue;
        }
        work.ranking()[start] = static_cast<std::uint64_t>(members) << 32U;
        work.list_count()[list] = start | kInRanking;
    }
    Team::barrier();
    if (simt::load(&control.unranked) != 0U) {
        return kNoIndex;
    }
    for (std::uint32_t first = Team::rank(); first < num_hypotheses; first += kEach * Team::size()) {
        std::uint32_t list[kEach];
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const std::uint32_t i = first + k * Team::size();
            list[k] = kNoIndex;
            if (i < num_hypotheses && work.kept()[i] == kUndecided) {
                list[k] = work.list()[i];
            }
        }
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const std::uint32_t i = first + k * Team::size();
            const std::uint32_t start = list[k] != kNoIndex ? work.list_count()[list[k]] : 0U;
            if ((start & kInRanking) != 0U) {
                auto* const taken =
                    reinterpret_cast<std::uint32_t*>(work.ranking().at(start & ~kInRanking));  // the lower half
                const std::uint32_t at = simt::atomic_add<Team::kScope>(taken, 1U);
                const std::uint64_t best = work.key_best()[static_cast<std::uint32_t>(work.place()[i])];
                work.ranking()[(start & ~kInRanking) + 1U + at] = (best >> 32U) << 32U | i;
                work.kept()[i] = kRanked;
            }
        }
    }
    Team::barrier();
    return num_long;
}

// What is left of a list in the ranking: its entries [first, first + count).
struct Ranked {
    std::uint32_t first;
    std::uint32_t count;
};

// Cuts what cannot be among the best n of a list, by a warp, and moves the others to the front. Of n lanes each
// knows one hypothesis that costs no more than the bound.
template <class Team>
ARCBEAM_DEVICE Ranked cut_dear(std::uint32_t start, std::uint32_t n, const RescoringWorkspace& work) {
    constexpr std::uint32_t kEach = 4U;
    const Array<std::uint64_t> ranking = work.ranking();
    const auto members = static_cast<std::uint32_t>(ranking[start] >> 32U);
    const std::uint32_t first = start + 1U;
    if (members <= simt::kWarpSize || n > simt::kWarpSize) {
        return {first, members};
    }
    const std::uint32_t lane = simt::lane();
    std::uint32_t least = kNoCost;
    for (std::uint32_t begin = lane; begin < members; begin += kEach * simt::kWarpSize) {
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const std::uint32_t i = begin + k * simt::kWarpSize;
            const std::uint64_t entry = i < members ? static_cast<std::uint64_t>(ranking[first + i]) : kNoPacked;
            const auto cost = static_cast<std::uint32_t>(entry >> 32U);
            least = cost < least ? cost : least;
        }
    }
    std::uint32_t bound = 0U;
    for (std::uint32_t i = 0U; i < n; ++i) {
        bound = simt::reduce_min(simt::kAllLanes, least);
        const std::uint32_t lanes = simt::ballot(simt::kAllLanes, least == bound);
        least = simt::is_leader(lanes) ? kNoCost : least;
    }
    std::uint32_t count = 0U;
    for (std::uint32_t begin = 0U; begin < members; begin += kEach * simt::kWarpSize) {
        std::uint64_t entry[kEach];
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const std::uint32_t i = begin + k * simt::kWarpSize + lane;
            entry[k] = i < members ? static_cast<std::uint64_t>(ranking[first + i]) : kNoPacked;
        }
        simt::warp_sync(simt::kAllLanes);  // all have read what is overwritten
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const bool is_near = static_cast<std::uint32_t>(entry[k] >> 32U) <= bound && entry[k] != kNoPacked;
            const std::uint32_t near = simt::ballot(simt::kAllLanes, is_near);
            if (is_near) {
                ranking[first + count + simt::place_in(near)] = entry[k];
            } else if (entry[k] != kNoPacked) {
                const auto index = static_cast<std::uint32_t>(entry[k]);
                simt::store_relaxed<Team::kScope>(work.kept().at(index), kNoIndex);
            }
            count += simt::popcount(near);
        }
    }
    simt::warp_sync(simt::kAllLanes);
    return {first, count};
}

// Whether entry `at` is among the best n of these, by (cost, history): counts those before it.
ARCBEAM_DEVICE bool is_among_best(const RescoringParams& params, const Ranked& ranked, std::uint32_t at,
                                  const RescoringWorkspace& work) {
    constexpr std::uint32_t kEach = 4U;
    const std::uint32_t n = params.hypotheses_per_state;
    const std::uint64_t own = work.ranking()[ranked.first + at];
    const auto cost = static_cast<std::uint32_t>(own >> 32U);
    std::uint32_t before = 0U;
    for (std::uint32_t first = 0U; first < ranked.count && before < n; first += kEach) {
        std::uint64_t others[kEach];
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            others[k] = kNoPacked;
            if (first + k < ranked.count) {
                others[k] = work.ranking()[ranked.first + first + k];
            }
        }
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const auto key = static_cast<std::uint32_t>(others[k] >> 32U);
            before += key < cost ? 1U : 0U;
            if (key == cost && others[k] != own) {
                const std::uint32_t place = work.place()[static_cast<std::uint32_t>(others[k])];
                const std::uint32_t own_place = work.place()[static_cast<std::uint32_t>(own)];
                before += precedes(params, work.history(place), work.history(own_place)) ? 1U : 0U;
            }
        }
    }
    return before < n;
}

// Cuts the lists of this depth that have been ranked, a warp each. Calls keep(hypothesis, stays) for what is left
// of them, in all lanes of a warp; those that it is not called for are cut. Others may look at what is kept
// meanwhile.
template <class Team, class Keep>
ARCBEAM_DEVICE void cut_lists(const RescoringParams& params, std::uint32_t depth, std::uint32_t num_long,
                              const RescoringWorkspace& work, const Keep& keep) {
    for (std::uint32_t i = Team::rank() / simt::kWarpSize; i < num_long; i += Team::size() / simt::kWarpSize) {
        const std::uint64_t entry = work.ranking()[work.most_ranked - 1U - i];
        if (static_cast<std::uint32_t>(entry >> 32U) != depth) {
            continue;
        }
        const std::uint32_t start = work.list_count()[static_cast<std::uint32_t>(entry)] & ~kInRanking;
        const Ranked ranked = cut_dear<Team>(start, params.hypotheses_per_state, work);
        for (std::uint32_t first = 0U; first < ranked.count; first += simt::kWarpSize) {
            const std::uint32_t at = first + simt::lane();
            const bool stays = at < ranked.count && is_among_best(params, ranked, at, work);
            const std::uint64_t own =
                at < ranked.count ? static_cast<std::uint64_t>(work.ranking()[ranked.first + at]) : kNoPacked;
            keep(static_cast<std::uint32_t>(own), stays);
        }
    }
}

}  // namespace arcbeam
