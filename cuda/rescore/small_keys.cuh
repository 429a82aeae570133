// The keys of small frames whose words change costs: a graph state, and a place in the phrases of the utterance or
// the states of both language models. They have the members of StateKeys, and what adds the words.
#pragma once

#include "decode/small/small_frame.cuh"
#include "rescore/rescore.cuh"

namespace arcbeam {

// Of a search that boosts without models.
template <class Params>
struct PhraseKeys {
    using History = std::uint32_t;  // a boost state
    static constexpr bool kHaveWords = true;

    const Params& params;
    const Listed& listed;

    ARCBEAM_DEVICE PhraseKeys(const Params& given, RescoringLane& lane) : params(given), listed(listed_of(lane)) {}

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
    ARCBEAM_DEVICE void add_word(bool has, std::uint32_t arc, float& cost, History& phrase) {
        const std::uint32_t word = has ? simt::load_readonly(params.words + arc) : kNoWord;
        if (word != kNoWord) {
            const BoostStep step = listed_step(listed, phrase, word);
            cost = rescore_cost(cost, step.cost);
            phrase = step.next_state;
        }
    }
    // The same arc for all threads.
    ARCBEAM_DEVICE void add_word_of_all(std::uint32_t arc, float& cost, History& phrase) {
        add_word(true, arc, cost, phrase);
    }
    ARCBEAM_DEVICE static bool fit(bool, std::uint32_t) { return true; }
    ARCBEAM_DEVICE static void begin() {}
    ARCBEAM_DEVICE static void commit() {}
};

// Of a search that rescores with a model on the device.
template <class Params>
struct ModelKeys {
    using History = std::uint64_t;  // history_bits()
    static constexpr bool kHaveWords = true;

    const Params& params;
    RescoringLane& lane;
    LookupCounts counted;  // of the frame

    ARCBEAM_DEVICE ModelKeys(const Params& given, RescoringLane& of) : params(given), lane(of) {}

    ARCBEAM_DEVICE static History load(const RescoringLane& lane, std::uint32_t token) {
        return history_bits(lane.histories[token]);
    }
    ARCBEAM_DEVICE static void store(const RescoringLane& lane, std::uint32_t token, History history) {
        lane.histories[token] = history_of(history);
    }
    ARCBEAM_DEVICE static std::uint32_t match(bool has, std::uint32_t state, History history) {
        return StateKeys::match(has, state, {}) & simt::match_any(simt::kAllThreads, history);
    }
    ARCBEAM_DEVICE static bool are_equal(History one, History other) { return one == other; }
    ARCBEAM_DEVICE static bool precedes(History one, History other) { return one < other; }

    // Looks up the words of the threads' arcs, of which each has a question of its own.
    ARCBEAM_DEVICE void add_word(bool has, std::uint32_t arc, float& cost, History& history) {
        const std::uint32_t me = simt::warp_thread();
        const std::uint32_t word = has ? simt::load_readonly(params.words + arc) : kNoWord;
        const std::uint32_t asking = simt::ballot(simt::kAllThreads, word != kNoWord);
        if (asking == 0U) {
            return;
        }
        static_assert((sizeof(Extension) + 8U) * simt::kWarpSize <= kSmallCandidates * sizeof(SmallCandidate),
                      "they take the place of the candidates of emitting arcs");
        auto* const extensions = reinterpret_cast<Extension*>(lane.warp_room.tokens.data);
        auto* const distinct = reinterpret_cast<std::uint32_t*>(extensions + simt::kWarpSize);
        const Array<std::uint32_t> table{distinct + simt::kWarpSize, simt::kWarpSize};
        simt::warp_sync(simt::kAllThreads);
        if (word != kNoWord) {
            simt::store(extensions + me, Extension{history_of(history), me, word});
            simt::store(distinct + simt::place_in(asking), me);
        }
        simt::warp_sync(simt::kAllThreads);
        const std::uint32_t count = simt::popcount(asking);
        const Questions questions{{distinct, count}, count, {extensions, simt::kWarpSize}, table, {}, nullptr};
        counted.lookups += me == 0U ? count : 0U;
        const LookupCounts some = answer_some<WarpTeam, kSearching>(params, questions);
        counted.distinct += some.distinct;
        counted.misses += some.misses;
        counted.reads += some.reads;
        simt::warp_sync(simt::kAllThreads);
        if (word != kNoWord) {
            const Extension answer = simt::load(extensions + me);
            float deviation;
            std::memcpy(&deviation, &answer.place, sizeof deviation);
            cost = rescore_cost(cost, deviation);
            history = history_bits(answer.history);
        }
    }
    ARCBEAM_DEVICE void add_word_of_all(std::uint32_t arc, float& cost, History& history) {
        add_word(simt::warp_thread() == 0U, arc, cost, history);
        cost = simt::shuffle(simt::kAllThreads, cost, 0U);
        history = simt::shuffle(simt::kAllThreads, history, 0U);
    }

    // Whether any hypothesis is finite, and no state has too many, which have to be cut before it is followed.
    ARCBEAM_DEVICE bool fit(bool has, std::uint32_t state) const {
        const std::uint32_t most = params.hypotheses_per_state;
        const std::uint32_t of_state = most == 0U ? 0U : StateKeys::match(has, state, {});
        return simt::any(simt::kAllThreads, has) && simt::all(simt::kAllThreads, simt::popcount(of_state) <= most);
    }
    ARCBEAM_DEVICE void begin() { counted = LookupCounts{}; }
    ARCBEAM_DEVICE void commit() {
        lane.lookups.lookups += counted.lookups;
        lane.lookups.distinct += counted.distinct;
        lane.lookups.misses += counted.misses;
        lane.lookups.reads += counted.reads;
    }
};

}  // namespace arcbeam
