// Stage lookup: what the words of candidates add to their costs, and the histories after them. Contract and rule
// are the twin's, cpu_reference/decode/lookup.hpp.
//
// note_words     reads the words of the frame's candidates, and lists those to look up
// claim_words    finds candidates with the same history and word, of which one is looked up for all (Fukunaga et
// al. 2019,
//                Algorithms 1 and 2); it uses the table of keys, and passes over the keys that are in it
// answer_words   answers each distinct (history, word) once, from the arc cache or from the models' views, which
// may
//                lie in either memory
//
// A barrier follows each. Until the answer comes, `place` of an extension is the entry of the table for a candidate
// that is looked up; for any other it is that candidate. Afterwards, `place` of one that is looked up is the
// deviation.
//
// Where the host has the model, request_words.cuh replaces answer_words; where it has the arcs, request_arcs.cuh
// does.
#pragma once

#include "rescore/buckets.cuh"
#include "rescore/requests/arc_cache.cuh"
#include "rescore/rescore_lane.cuh"

namespace arcbeam {

// The word that models look up: all new words of an utterance are one, the unknown word; see new_words.cuh.
template <class Params>
ARCBEAM_DEVICE std::uint32_t known_word(const Params& params, std::uint32_t word) {
    if constexpr (Params::kHasNewWords) {
        return word < params.slot.first_word ? word : params.slot.first_word;
    } else {
        return word;
    }
}

// Adds a candidate to those whose words are looked up.
template <class Team, class Work>
ARCBEAM_DEVICE void add_with_word(std::uint32_t candidate, bool needed, std::uint32_t slot, const Work& work,
                                  RescoringControl& control) {
    const std::uint32_t at = take_place<Team>(&control.num_with_words[slot], needed);
    if (needed) {
        work.with_words()[at] = candidate;
    }
}

// Reads the words of the n candidates of the emitting arcs that are within `bound`; the others are given up. A
// candidate without a word counts as rescored. A thread takes kEach candidates at a time, because their words come
// from far.
template <class Team, std::uint32_t kEach, class Work, class Params>
ARCBEAM_DEVICE void note_some(const Params& params, const Array<History>& histories, std::uint32_t first_log,
                              std::uint32_t n, float bound, const Work& work, RescoringControl& given) {
    RescoringControl& control = words_beside(work, given);
    const std::uint32_t of_warps = (n + simt::kWarpSize - 1U) / simt::kWarpSize * simt::kWarpSize;
    std::uint32_t best = kNoCost;
    std::uint32_t within = 0U;
    for (std::uint32_t first = Team::rank(); first < of_warps; first += kEach * Team::size()) {
        Candidate candidate[kEach];
        std::uint32_t word[kEach];
        History history[kEach];
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const std::uint32_t i = first + k * Team::size();
            candidate[k] = Candidate{kNoPacked, 0U, 0U};
            if (i < n) {
                candidate[k] = work.candidate()[i];
            }
        }
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            word[k] = kNoWord;
            history[k] = History{0U, 0U};
            if (admits(bound, packed_cost(candidate[k].packed))) {
                word[k] = simt::load_readonly(params.words + packed_arc(candidate[k].packed));
                history[k] = histories[candidate[k].source - first_log];
            }
        }
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const std::uint32_t i = first + k * Team::size();
            if (i < n) {
                work.extension()[i] = Extension{history[k], kNoIndex, word[k]};
            }
            if (admits(bound, packed_cost(candidate[k].packed))) {
                const auto key = static_cast<std::uint32_t>(candidate[k].packed >> 32U);
                best = word[k] == kNoWord && key < best ? key : best;
                ++within;
            } else if (i < n) {
                simt::store(&work.candidate().at(i)->packed, kNoPacked);
            }
            add_with_word<Team>(i, word[k] != kNoWord, 0U, work, control);
        }
    }
    best = simt::reduce_min(simt::kAllThreads, best);
    within = simt::reduce_add(simt::kAllThreads, within);
    if (simt::warp_thread() == 0U && within != 0U) {
        simt::atomic_min<Team::kScope>(&control.best, best);
        simt::atomic_add<Team::kScope>(&control.num_within, within);
    }
}

template <class Team, class Params>
ARCBEAM_DEVICE void note_words(const Params& params, const RescoringLane& lane, std::uint32_t n, float bound,
                               const RescoringWorkspace& work) {
    const std::uint32_t first_log = lane.state.log_size - lane.state.num_tokens;
    const bool few = n <= Team::size();
    where_it_is<Team>(work, few, [&](const auto& arrays) {
        constexpr std::uint32_t kEach = kIsShared<decltype(arrays)> ? 1U : 4U;
        note_some<Team, kEach>(params, lane.histories, first_log, n, bound, arrays, *lane.words);
    });
}

template <class Team>
ARCBEAM_DEVICE void claim_words(std::uint32_t num_with_words, std::uint32_t slot, const RescoringWorkspace& work,
                                RescoringControl& control) {
    const std::uint32_t size = work.table_size;
    const std::uint32_t of_warps = (num_with_words + simt::kWarpSize - 1U) / simt::kWarpSize * simt::kWarpSize;
    for (std::uint32_t at = Team::rank(); at < of_warps; at += Team::size()) {
        bool is_first = false;
        std::uint32_t candidate = 0U;
        if (at < num_with_words) {
            candidate = work.with_words()[at];
            const Extension own = work.extension()[candidate];
            std::uint32_t place = key_home(own.word, own.history, size);
            for (;;) {  // there are always enough free entries
                const std::uint32_t found =
                    simt::atomic_cas<Team::kScope>(work.key_owner().at(place), kNoIndex, candidate | kLookup);
                is_first = found == kNoIndex;
                if (is_first) {
                    simt::store(&work.extension().at(candidate)->place, place);
                    work.with_words()[at] = kNoIndex;
                    break;
                }
                const std::uint32_t other = found & ~kLookup;  // entries of keys lie among them
                if ((found & kLookup) != 0U && simt::load(&work.extension().at(other)->word) == own.word &&
                    simt::load(&work.extension().at(other)->history) == own.history) {
                    simt::store(&work.extension().at(candidate)->place, other);
                    break;
                }
                place = place + 1U == size ? 0U : place + 1U;
            }
        }
        const std::uint32_t into = take_place<Team>(&control.num_distinct[slot], is_first);
        if (is_first) {
            work.distinct()[into] = candidate;
        }
    }
}

// This many threads look one word up in one model where there are few words, or very few; a candidate takes twice
// as many threads.
constexpr std::uint32_t kSearching = 8U;
constexpr std::uint32_t kMostSearching = 16U;

// LmView::find by the threads of a group, if the group seeks. In each round each thread reads several labels,
// all at equal distances. `reads` counts what this thread loads of the index.
template <std::uint32_t lanes>
ARCBEAM_DEVICE std::uint32_t find_together(const LmView& lm, std::uint32_t state, std::uint32_t requested,
                                           bool seeks, const Lanes<lanes>& together, std::uint32_t& reads) {
    constexpr std::uint32_t kEach = lanes == 1U ? 8U : 32U / lanes;
    const std::uint32_t rank = together.rank();
    constexpr std::uint32_t kLabels = kEach * lanes;  // labels of a round
    std::uint32_t begin = 0U;
    std::uint32_t end = 0U;
    if (seeks && state != kLmEmptyHistory) {
        if (rank == 0U) {  // for backing off: the loads are on their way in the meantime
            simt::prefetch(lm.backoff_steps + (state >> kLmBlockBits));
            simt::prefetch(lm.backoff_bases + (state >> kLmBlockBits));
        }
        begin = lm.first_arc(state);
        end = lm.first_arc(state + 1U);
        reads += rank == 0U ? 3U : 0U;
    }
    for (;;) {
        const bool more = begin < end && end - begin > kLabels;  // a page that was lost reads as zeros
        if (!together.any_group(more)) {
            break;
        }
        const std::uint32_t step = (end - begin + kLabels) / (kLabels + 1U);
        bool below[kEach];
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const std::uint32_t at = begin + (k * lanes + rank + 1U) * step - 1U;
            below[k] = more && at < end;
            reads += below[k] ? 1U : 0U;
            below[k] = below[k] && lm.label(at) < requested;
        }
        std::uint32_t passed = 0U;
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            passed += simt::popcount(together.votes(below[k]));
        }
        begin += more ? passed * step : 0U;
        end = !more || end - begin < step ? end : begin + step;
    }
    std::uint32_t arc = kNoLmArc;
    for (std::uint32_t k = 0U; k < kEach; ++k) {
        const std::uint32_t at = begin + k * lanes + rank;
        const bool is_here = begin < end && at < end && lm.label(at) == requested;
        arc = is_here ? at : arc;
    }
    const std::uint32_t found = together.votes(arc != kNoLmArc);
    arc = together.from(arc, lanes == 1U || found == 0U ? 0U : simt::lowest_bit(found) % lanes);
    return seeks && state == kLmEmptyHistory ? requested - 1U : arc;
}

// The loads of a model that a look-up takes, as this thread counts them.
struct Reads {
    std::uint32_t of_index = 0;
    std::uint32_t others = 0;
};

// Where a look-up finds its arc and what it reads then: here, in the view.
struct OfView {
    template <std::uint32_t lanes>
    ARCBEAM_DEVICE std::uint32_t find(const LmView& lm, std::uint32_t state, std::uint32_t label, bool seeks,
                                      const Lanes<lanes>& together, std::uint32_t& reads) const {
        return find_together<lanes>(lm, state, label, seeks, together, reads);
    }
    ARCBEAM_DEVICE float backoff_weight(const LmView& lm, std::uint32_t state) const {
        return lm.backoff_weights[state];
    }
    ARCBEAM_DEVICE LmArc arc(const LmView& lm, std::uint32_t arc) const { return lm.arcs[arc]; }
};

// The states that a look-up backs off from. Each thread keeps one, so that all their weights are loaded at the same
// time.
template <std::uint32_t lanes>
struct BackedOff {
    std::uint32_t count = 0;
    std::uint32_t own = kLmEmptyHistory;
    float sum = 0.0F;

    // Adds what the groups have kept to their sums, starting at the longest history.
    template <class Source>
    ARCBEAM_DEVICE void add_up(const LmView& lm, bool needed, const Lanes<lanes>& together, Source& source) {
        if (!together.any_group(needed && count != 0U)) {
            return;
        }
        const float weight = needed && together.rank() < count ? source.backoff_weight(lm, own) : 0.0F;
        const std::uint32_t most = together.most(needed ? count : 0U);
        for (std::uint32_t i = 0U; i < most; ++i) {
            const float next = together.from(weight, i);
            sum = needed && i < count ? lm_back_off(sum, next) : sum;
        }
        count = needed ? 0U : count;
    }

    template <class Source>
    ARCBEAM_DEVICE void keep(const LmView& lm, std::uint32_t state, bool needed, const Lanes<lanes>& together,
                             Source& source) {
        add_up(lm, needed && count == lanes, together, source);
        own = needed && together.rank() == count ? state : own;
        count += needed ? 1U : 0U;
    }
};

// lm_step() by the threads of a group, if the group seeks. Once the index has given the arc of the word, its
// cost and all back-off weights are read in parallel. Where only arcs and back-off weights are in host memory, a
// look-up waits for the bus once.
template <std::uint32_t lanes, class Source>
ARCBEAM_DEVICE LmStep step_by(const LmView& lm, std::uint32_t state, std::uint32_t label, bool seeks,
                              const Lanes<lanes>& together, Reads& reads, Source& source) {
    BackedOff<lanes> backed_off;
    const std::uint32_t one = together.rank() == 0U ? 1U : 0U;
    const bool unknown = label == kUnknownLabel;
    std::uint32_t arc = kNoLmArc;
    for (bool open = seeks;;) {
        const std::uint32_t found =
            source.template find<lanes>(lm, state, label, open && !unknown, together, reads.of_index);
        arc = open ? found : arc;
        open = open && found == kNoLmArc && !(unknown && state == kLmEmptyHistory);
        if (!together.any_group(open)) {
            break;
        }
        backed_off.keep(lm, state, open, together, source);
        if (open) {
            state = lm.backoff_state(state);
            reads.of_index += 2U * one;
            reads.others += one;
        }
    }
    LmArc found{kLmEmptyHistory, 0.0F};
    if (seeks && !unknown) {
        found = source.arc(lm, arc);
        reads.others += one;
    }
    backed_off.add_up(lm, seeks, together, source);
    return unknown ? lm_unknown(backed_off.sum) : lm_found(backed_off.sum, found, state);
}

template <std::uint32_t lanes>
ARCBEAM_DEVICE LmStep step_in(const LmView& lm, std::uint32_t state, std::uint32_t label, bool seeks,
                              const Lanes<lanes>& together, Reads& reads) {
    OfView view;
    return step_by<lanes>(lm, state, label, seeks, together, reads, view);
}

// The questions, and where the answers go.
struct Questions {
    Array<std::uint32_t> distinct;  // candidates that are looked up for others, too
    std::uint32_t num_distinct;
    Array<Extension> extension;
    // The table of those that are looked up; if its size is 0, that is each candidate, which is
    // rescored at once
    Array<std::uint32_t> table;
    Array<Candidate> candidate;
    std::uint32_t* best;
};

// Adds a deviation to a candidate's cost. Returns its ordered() cost.
ARCBEAM_DEVICE std::uint32_t rescore_one(const Array<Candidate>& candidates, std::uint32_t candidate,
                                         float deviation) {
    const std::uint64_t packed = simt::load(&candidates.at(candidate)->packed);
    const float cost = rescore_cost(packed_cost(packed), deviation);
    simt::store(&candidates.at(candidate)->packed, pack(cost, packed_arc(packed)));
    return is_finite(cost) ? ordered(cost) : kNoCost;
}

// Looks a word up in both models, the large one in buckets, and in the small one while the chain of the large one
// is loaded.
template <std::uint32_t kLevels>
ARCBEAM_DEVICE LmStep step_from_far(const RescoringParams& params, std::uint32_t state, std::uint32_t label,
                                    bool seeks, bool is_large, const BucketGroup& together,
                                    std::uint32_t& counted) {
    ChainPart<kLevels> chain;
    chain.load(params.buckets, state, 0U, seeks && is_large, counted);
    LmStep step{};
    if (simt::any(simt::kAllThreads, seeks && !is_large)) {
        Reads uncounted;
        step = step_in<kBucketLanes>(params.lms.small, state, label, seeks && !is_large, together, uncounted);
    }
    if (simt::any(simt::kAllThreads, seeks && is_large)) {
        const LmStep large =
            step_in_buckets<kLevels>(params.buckets, state, label, seeks && is_large, chain, together, counted);
        step = is_large ? large : step;
    }
    return step;
}

// Of the threads that answer for a candidate, one half reads the large model and the other half the small one.
// Returns what the thread has counted. `kLevels`: how many states of a chain are read at a time where the large
// model is in buckets, else 0.
template <class Team, std::uint32_t kHalf, std::uint32_t kLevels = 0U, class Params>
ARCBEAM_DEVICE LookupCounts answer_some(const Params& params, const Questions& questions) {
    LookupCounts counts;
    constexpr std::uint32_t kGroups = simt::kWarpSize / (2U * kHalf);  // of a warp
    const Lanes<kHalf> together{simt::kAllThreads};
    const std::uint32_t lane = simt::warp_thread();
    const bool is_large = (lane / kHalf) % 2U == 0U;
    const bool is_first = lane % (2U * kHalf) == 0U;
    const LmView& lm = is_large ? params.lms.large : params.lms.small;
    const std::uint32_t* const labels = is_large ? params.lms.large_labels : params.lms.small_labels;
    for (std::uint32_t first = Team::rank() / simt::kWarpSize * kGroups; first < questions.num_distinct;
         first += Team::size() / simt::kWarpSize * kGroups) {
        const std::uint32_t at = first + lane / (2U * kHalf);
        const bool has = at < questions.num_distinct;
        std::uint32_t candidate = 0U;
        std::uint32_t label = 0U;
        Extension extension{};
        if (has) {
            candidate = questions.distinct[at];
            extension = questions.extension[candidate];
            label = simt::load_readonly(labels + known_word(params, extension.word));
        }
        const History models = models_part(params, extension.history);
        const std::uint32_t state = is_large ? models.large : models.small;
        const std::uint32_t requested = is_large ? label & ~kKeepsSmallCost : label;
        LmStep step{};
        const std::uint32_t key = is_large ? state : state | kOfSmallModel;
        const bool cached = has && params.cache.size != 0U && find_cached(params.cache, key, requested, step);
        // Another thread may have been given an older answer.
        const bool seeks = together.votes(has && !cached) != 0U;
        if (simt::any(simt::kAllThreads, seeks)) {
            LmStep found;
            if constexpr (kLevels != 0U) {
                static_assert(kHalf == kBucketLanes);
                found = step_from_far<kLevels>(params, state, requested, seeks, is_large, together, counts.reads);
            } else {
                Reads reads;
                found = step_in<kHalf>(lm, state, requested, seeks, together, reads);
                if (is_large) {
                    counts.reads += reads.others + (params.index_is_near != 0U ? 0U : reads.of_index);
                }
            }
            step = seeks ? found : step;
            if (seeks && lane % kHalf == 0U) {
                counts.misses += is_large ? 1U : 0U;
                if (params.cache.size != 0U) {
                    keep_cached(params.cache, params.counters, key, requested, step);
                }
            }
        }
        const LmStep other{simt::shuffle_xor(simt::kAllThreads, step.cost, kHalf),
                           simt::shuffle_xor(simt::kAllThreads, step.next_state, kHalf), 0U};
        simt::warp_sync(simt::kAllThreads);  // all have read before anything is overwritten
        if (has && is_first) {
            const Deviation deviation = deviate(params.lms, label, step, other);
            if (questions.table.size != 0U) {
                questions.table[extension.place] = kNoIndex;
            } else {
                const std::uint32_t cost = rescore_one(questions.candidate, candidate, deviation.cost);
                if (!Params::kBoosts) {
                    simt::atomic_min<Team::kScope>(questions.best, cost);
                }
            }
            std::uint32_t bits;
            std::memcpy(&bits, &deviation.cost, sizeof bits);
            const History next = with_models_part(params, extension.history, deviation.next);
            questions.extension[candidate] = Extension{next, bits, extension.word};
            ++counts.distinct;
        }
    }
    return counts;
}

template <class Team, class Params>
ARCBEAM_DEVICE void answer_words(const Params& params, const Questions& questions, LookupCounts& counts) {
    // Few words are answered sooner by many threads each. Of many words, more are answered at a time.
    const std::uint32_t n = questions.num_distinct;
    LookupCounts some;
    if (is_in_buckets(params)) {
        if constexpr (Params::kHasBuckets) {
            some = params.buckets.links <= kFewLevels
                       ? answer_some<Team, kBucketLanes, kFewLevels>(params, questions)
                       : answer_some<Team, kBucketLanes, kManyLevels>(params, questions);
        }
    } else if constexpr (Params::kHasColumns) {
        some = n <= Team::size() / (2U * kMostSearching) ? answer_some<Team, kMostSearching>(params, questions)
               : n <= Team::size() / kSearching          ? answer_some<Team, kSearching>(params, questions)
                                                         : answer_some<Team, 1U>(params, questions);
    }
    counts.distinct += some.distinct;
    counts.misses += some.misses;
    counts.reads += some.reads;
}

}  // namespace arcbeam
