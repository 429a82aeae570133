// The keys of small frames whose words change costs: a graph state, and a place in the phrases of the utterance.
// They have the members of StateKeys, and what adds the words.
#pragma once

#include "decode/small_frame.cuh"
#include "rescore/boost.cuh"

namespace arcbeam {

// Of a search that boosts without models.
template <class Params>
struct PhraseKeys {
    using History = std::uint32_t;  // a boost state
    static constexpr bool kHaveWords = true;

    const Params& params;
    const Listed& listed;

    ARCBEAM_DEVICE PhraseKeys(const Params& given, const RescoringLane& lane)
        : params(given), listed(listed_of(lane)) {}

    ARCBEAM_DEVICE static History load(const RescoringLane& lane, std::uint32_t token) {
        return simt::load(&lane.histories.at(token)->large);
    }
    ARCBEAM_DEVICE static void store(const RescoringLane& lane, std::uint32_t token, History phrase) {
        lane.histories[token] = arcbeam::History{phrase, 0U};
    }
    ARCBEAM_DEVICE static std::uint32_t match(bool has, std::uint32_t state, History phrase) {
        const std::uint64_t key = std::uint64_t{has ? phrase : kNoIndex} << 32U;
        return simt::match_any(simt::kAllThreads, key | (has ? state : simt::warp_thread()));
    }
    ARCBEAM_DEVICE static bool are_equal(History one, History other) { return one == other; }
    ARCBEAM_DEVICE static bool precedes(History one, History other) { return one < other; }

    // Adds what the word of this thread's arc adds, if it has one.
    ARCBEAM_DEVICE void add_word(bool has, std::uint32_t arc, float& cost, History& phrase) const {
        const std::uint32_t word = has ? simt::load_readonly(params.words + arc) : kNoWord;
        if (word != kNoWord) {
            const BoostStep step = listed_step(listed, phrase, word);
            cost = rescore_cost(cost, step.cost);
            phrase = step.next_state;
        }
    }
    // The same arc for all threads.
    ARCBEAM_DEVICE void add_word_of_all(std::uint32_t arc, float& cost, History& phrase) const {
        add_word(true, arc, cost, phrase);
    }
};

}  // namespace arcbeam
