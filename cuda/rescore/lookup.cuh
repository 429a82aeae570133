// Stage lookup: what the words of candidates add to their costs, and the histories after them. Contract and rule
// are the twin's, cpu_reference/decode/lookup.hpp.
//
// note_words     reads the words of the frame's candidates, and lists those to look up
// claim_words    of the candidates with the same history and word one is to ask for all (Fukunaga et al. 2019,
//                Algorithms 1 and 2): a hash table of the lane, whose keys are read from the candidates
// answer_words   each distinct (history, word) is answered once: by the arc cache, or by the models' views,
// wherever
//                these lie
//
// with a barrier after each. Until the answer, `place` of an extension is the entry of the table of a candidate
// that asks, and the candidate that asks of one that does not; afterwards it is the deviation of one that asks.
//
// Where the host has the model, or its arcs, ask.cuh stands in the place of answer_words.
#pragma once

#include "rescore/arc_cache.cuh"
#include "rescore/rescore_lane.cuh"

namespace arcbeam {

// Adds a candidate to those whose words are looked up.
ARCBEAM_DEVICE void want(std::uint32_t candidate, bool wanted, std::uint32_t slot, const RescoringWorkspace& work,
                         RescoringControl& control) {
    const std::uint32_t at = take_place<BlockTeam>(&control.num_wanted[slot], wanted);
    if (wanted) {
        work.wanted()[at] = candidate;
    }
}

// Words of the n candidates of the emitting arcs that are within `bound`; the others are given up. What has no word
// is rescored already. Four candidates a thread at a time, for their words come from far.
ARCBEAM_DEVICE void note_words(const RescoringParams& params, const RescoringLane& lane, std::uint32_t n,
                               float bound, const RescoringWorkspace& work) {
    constexpr std::uint32_t kEach = 4U;
    RescoringControl& control = *lane.words;
    const std::uint32_t first_log = lane.state.log_size - lane.state.num_tokens;
    const std::uint32_t of_warps = (n + simt::kWarpSize - 1U) / simt::kWarpSize * simt::kWarpSize;
    std::uint32_t best = kNoCost;
    std::uint32_t within = 0U;
    for (std::uint32_t first = simt::thread_rank(); first < of_warps; first += kEach * simt::block_size()) {
        Candidate candidate[kEach];
        std::uint32_t word[kEach];
        History history[kEach];
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const std::uint32_t i = first + k * simt::block_size();
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
                history[k] = lane.histories[candidate[k].source - first_log];
            }
        }
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const std::uint32_t i = first + k * simt::block_size();
            if (admits(bound, packed_cost(candidate[k].packed))) {
                work.extension()[i] = Extension{history[k], kNoIndex, word[k]};
                const auto key = static_cast<std::uint32_t>(candidate[k].packed >> 32U);
                best = word[k] == kNoWord && key < best ? key : best;
                ++within;
            } else if (i < n) {
                simt::store(&work.candidate().at(i)->packed, kNoPacked);
            }
            want(i, word[k] != kNoWord, 0U, work, control);
        }
    }
    best = simt::reduce_min(simt::kAllLanes, best);
    within = simt::reduce_add(simt::kAllLanes, within);
    if (simt::lane() == 0U && within != 0U) {
        simt::atomic_min<Scope::block>(&control.best, best);
        simt::atomic_add<Scope::block>(&control.num_within, within);
    }
}

ARCBEAM_DEVICE void claim_words(std::uint32_t num_wanted, std::uint32_t slot, const RescoringWorkspace& work,
                                RescoringControl& control) {
    const std::uint32_t size = work.asked().size;
    const std::uint32_t of_warps = (num_wanted + simt::kWarpSize - 1U) / simt::kWarpSize * simt::kWarpSize;
    for (std::uint32_t at = simt::thread_rank(); at < of_warps; at += simt::block_size()) {
        bool asks = false;
        std::uint32_t candidate = 0U;
        if (at < num_wanted) {
            candidate = work.wanted()[at];
            const History history = simt::load(&work.extension().at(candidate)->history);
            const std::uint32_t word = simt::load(&work.extension().at(candidate)->word);
            std::uint32_t place = key_home(word, history, size);
            for (;;) {  // there are as many entries as candidates with words
                const std::uint32_t found =
                    simt::atomic_cas<Scope::block>(work.asked().at(place), kNoIndex, candidate);
                asks = found == kNoIndex;
                if (asks) {
                    simt::store(&work.extension().at(candidate)->place, place);
                    work.wanted()[at] = kNoIndex;
                    break;
                }
                if (simt::load(&work.extension().at(found)->word) == word &&
                    simt::load(&work.extension().at(found)->history) == history) {
                    simt::store(&work.extension().at(candidate)->place, found);
                    break;
                }
                place = place + 1U == size ? 0U : place + 1U;
            }
        }
        const std::uint32_t into = take_place<BlockTeam>(&control.num_distinct[slot], asks);
        if (asks) {
            work.distinct()[into] = candidate;
        }
    }
}

// So many lanes look one word up in one model; twice as many ask for a candidate.
constexpr std::uint32_t kSearching = 8U;

// LmView::find by so many lanes, those of the mask: in each round they look at as many labels at equal distances.
// `reads` counts what they load of the index, by the lane.
template <std::uint32_t lanes>
ARCBEAM_DEVICE std::uint32_t find_together(const LmView& lm, std::uint32_t state, std::uint32_t wanted,
                                           std::uint32_t mask, std::uint32_t& reads) {
    if (state == kLmEmptyHistory) {
        return wanted - 1U;
    }
    const std::uint32_t rank = simt::lane() % lanes;
    if (rank == 0U) {  // what backing off will need is on its way then
        simt::prefetch(lm.backoff_steps + (state >> kLmBlockBits));
        simt::prefetch(lm.backoff_bases + (state >> kLmBlockBits));
    }
    std::uint32_t begin = lm.first_arc(state);
    std::uint32_t end = lm.first_arc(state + 1U);
    reads += rank == 0U ? 2U : 0U;
    while (begin < end && end - begin > lanes) {  // a page that was lost reads as zeros: end may lie before
        const std::uint32_t step = (end - begin + lanes) / (lanes + 1U);
        const std::uint32_t at = begin + (rank + 1U) * step - 1U;
        const bool below = at < end && lm.label(at) < wanted;
        reads += at < end ? 1U : 0U;
        begin += simt::popcount(simt::ballot(mask, below) & mask) * step;
        end = end - begin < step ? end : begin + step;
    }
    const std::uint32_t at = begin + rank;
    const std::uint32_t found = simt::ballot(mask, begin < end && at < end && lm.label(at) == wanted) & mask;
    reads += rank == 0U ? 1U : 0U;
    return found == 0U ? kNoLmArc : begin + simt::lowest_bit(found) % lanes;
}

// What a look-up loads of a model, counted by the lane.
struct Reads {
    std::uint32_t of_index = 0;
    std::uint32_t others = 0;
};

// The states that a look-up backs off from: each lane keeps one, so that what they cost is loaded at the same time.
template <std::uint32_t lanes>
struct BackedOff {
    std::uint32_t count = 0;
    std::uint32_t own = kLmEmptyHistory;
    float sum = 0.0F;

    // Adds what has been kept to the sum, from the longest history down.
    ARCBEAM_DEVICE void add_up(const LmView& lm, std::uint32_t mask) {
        const std::uint32_t rank = simt::lane() % lanes;
        const float weight = rank < count ? lm.backoff_weights[own] : 0.0F;
        for (std::uint32_t i = 0U; i < count; ++i) {
            sum = lm_back_off(sum, simt::shuffle(mask, weight, simt::lane() - rank + i));
        }
        count = 0U;
    }

    ARCBEAM_DEVICE void keep(const LmView& lm, std::uint32_t state, std::uint32_t mask) {
        if (count == lanes) {
            add_up(lm, mask);
        }
        own = simt::lane() % lanes == count ? state : own;
        ++count;
    }
};

// lm_step() by so many lanes: once the index has told which arc the word takes, what it costs and all that backing
// off costs is read side by side. Where only these are in host memory, a look-up waits for the bus once.
template <std::uint32_t lanes>
ARCBEAM_DEVICE LmStep step_in(const LmView& lm, std::uint32_t state, std::uint32_t label, std::uint32_t mask,
                              Reads& reads) {
    BackedOff<lanes> backed_off;
    const std::uint32_t one = simt::lane() % lanes == 0U ? 1U : 0U;
    if (label == kUnknownLabel) {
        for (; state != kLmEmptyHistory; state = lm.backoff_state(state)) {
            backed_off.keep(lm, state, mask);
            reads.of_index += 2U * one;
            reads.others += one;
        }
        backed_off.add_up(lm, mask);
        return lm_unknown(backed_off.sum);
    }
    std::uint32_t arc = find_together<lanes>(lm, state, label, mask, reads.of_index);
    while (arc == kNoLmArc) {
        backed_off.keep(lm, state, mask);
        state = lm.backoff_state(state);
        reads.of_index += 2U * one;
        reads.others += one;
        arc = find_together<lanes>(lm, state, label, mask, reads.of_index);
    }
    const LmArc found = lm.arcs[arc];
    reads.others += one;
    backed_off.add_up(lm, mask);
    return lm_found(backed_off.sum, found, state);
}

// What is asked, and where the answers go.
struct Questions {
    Array<std::uint32_t> distinct;
    std::uint32_t num_distinct;
    Array<Extension> extension;
    Array<std::uint32_t> asked;
};

// One half of the lanes that answer for a candidate ask the large model, the other the small one. Returns what the
// thread has counted.
template <bool kTogether>
ARCBEAM_DEVICE_NOINLINE LookupCounts answer_some(const RescoringParams& params, const Questions questions) {
    LookupCounts counts;
    constexpr std::uint32_t kHalf = kTogether ? kSearching : 1U;
    const std::uint32_t lane = simt::lane();
    const bool is_large = (lane / kHalf) % 2U == 0U;
    const bool is_first = lane % (2U * kHalf) == 0U;
    const std::uint32_t half = ((1U << kHalf) - 1U) << lane / kHalf * kHalf;
    const std::uint32_t both = ((1U << 2U * kHalf) - 1U) << lane / (2U * kHalf) * (2U * kHalf);
    const LmView& lm = is_large ? params.lms.large : params.lms.small;
    const std::uint32_t* const labels = is_large ? params.lms.large_labels : params.lms.small_labels;
    const std::uint32_t groups = simt::block_size() / (2U * kHalf);
    for (std::uint32_t at = simt::thread_rank() / (2U * kHalf); at < questions.num_distinct; at += groups) {
        const std::uint32_t candidate = questions.distinct[at];
        const Extension asked = questions.extension[candidate];
        const std::uint32_t label = simt::load_readonly(labels + asked.word);
        const std::uint32_t state = is_large ? asked.history.large : asked.history.small;
        const std::uint32_t wanted = is_large ? label & ~kKeepsSmallCost : label;
        LmStep step{};
        const std::uint32_t key = is_large ? state : state | kOfSmallModel;
        const bool cached = params.cache.size != 0U && find_cached(params.cache, key, wanted, step);
        if (!simt::all(half, cached)) {  // another lane may have been told of an older answer
            Reads reads;
            step = step_in<kHalf>(lm, state, wanted, half, reads);
            if (is_large) {
                counts.reads += reads.others + (params.index_is_near != 0U ? 0U : reads.of_index);
            }
            if (lane % kHalf == 0U) {
                counts.misses += is_large ? 1U : 0U;
                if (params.cache.size != 0U) {
                    keep_cached(params.cache, params.counters, key, wanted, step);
                }
            }
        }
        const LmStep other{simt::shuffle_xor(both, step.cost, kHalf),
                           simt::shuffle_xor(both, step.next_state, kHalf), 0U};
        simt::warp_sync(both);  // all have read what is overwritten
        if (is_first) {
            const Deviation deviation = deviate(params.lms, label, step, other);
            questions.asked[asked.place] = kNoIndex;
            std::uint32_t bits;
            std::memcpy(&bits, &deviation.cost, sizeof bits);
            questions.extension[candidate] = Extension{deviation.next, bits, asked.word};
            ++counts.distinct;
        }
    }
    return counts;
}

ARCBEAM_DEVICE void answer_words(const RescoringParams& params, std::uint32_t num_distinct,
                                 const RescoringWorkspace& work, LookupCounts& counts) {
    const Questions questions{work.distinct(), num_distinct, work.extension(), work.asked()};
    // Few words are answered sooner by many lanes each; of many, more at a time.
    const LookupCounts some = num_distinct <= simt::block_size() / kSearching
                                  ? answer_some<true>(params, questions)
                                  : answer_some<false>(params, questions);
    counts.distinct += some.distinct;
    counts.misses += some.misses;
    counts.reads += some.reads;
}

}  // namespace arcbeam
