// The lanes of a launch, in the shared memory of every block. All blocks compute the same plan for the next round,
// so that a round needs no barrier for it: which frames are tested, where the results lead, which lanes have found
// a label.
#pragma once

#include "shared/simt.cuh"
#include "shared/transducer_bfloat16.hpp"
#include "shared/transducer_math.hpp"
#include "shared/transducer_rules.hpp"
#include "transducer/device_network.hpp"
#include "transducer/features.cuh"

namespace arcbeam::transducer {

constexpr std::uint64_t kNotFinite = 0xffffffffffffffffULL;

template <Precision kPrecision>
using Value = std::conditional_t<kPrecision == Precision::float32, float, std::uint16_t>;

// A value that a matrix will be multiplied by.
template <Precision kPrecision>
ARCBEAM_DEVICE Value<kPrecision> as_input(float value) {
    if constexpr (kPrecision == Precision::float32) {
        return value;
    } else {
        return static_cast<std::uint16_t>(to_bfloat16(value));
    }
}

// The unit in which a thread moves data.
struct alignas(16) Piece {
    std::uint32_t words[4];
};

// The largest of such keys belongs to the largest value, and among equal values to the smallest index. Every key is
// above 0. A value that is not finite is above all others.
ARCBEAM_DEVICE std::uint64_t rank_key(float value, std::uint32_t index) {
    if (!is_number(value)) {
        return kNotFinite;
    }
    const std::uint32_t bits = bits_of(value + 0.0F);  // makes -0 and +0 equal
    const std::uint32_t ordered = (bits & 0x80000000U) != 0U ? ~bits : bits | 0x80000000U;
    return static_cast<std::uint64_t>(ordered) << 32U | (0xffffffffU - index);
}

ARCBEAM_DEVICE std::uint32_t index_of(std::uint64_t key) { return 0xffffffffU - static_cast<std::uint32_t>(key); }

ARCBEAM_DEVICE float value_of(std::uint64_t key) {
    const auto ordered = static_cast<std::uint32_t>(key >> 32U);
    return from_bits((ordered & 0x80000000U) != 0U ? ordered & 0x7fffffffU : ~ordered);
}

// The words that the threads of a block share.
struct BlockWords {
    static constexpr std::uint32_t kVerdict = 0U;  // for the grid's barrier
    static constexpr std::uint32_t kTests = 1U;
    static constexpr std::uint32_t kListed = 2U;
    static constexpr std::uint32_t kCancelled = 3U;
    static constexpr std::uint32_t kActive = 4U;    // in a plan: lanes that are not at their end
    static constexpr std::uint32_t kFull = 5U;      // 1: one of them has no room
    static constexpr std::uint32_t kEarliest = 6U;  // the first frame of any active lane
    static constexpr std::uint32_t kPlan = 7U;      // of one part, up to 32 lanes
    static constexpr std::uint32_t kCount = 8U;
};

enum class Plan : std::uint32_t { test, end, room };

struct Lanes {
    simt::Array<std::uint32_t> words;  // BlockWords
    simt::Array<std::uint32_t> frame, frames, symbols, window, count, steps, outcome, bad_frame, first_row;
    simt::Array<std::uint32_t> first_test, tests;  // of this round
    simt::Array<std::uint32_t> found;              // the test that found a label in this round, or kNowhere
    simt::Array<std::uint32_t> label_frame, token, duration;
    simt::Array<std::uint32_t> list;    // [listed()]: lanes that a stage works on
    simt::Array<std::int32_t> context;  // [lanes, context]
    // For each 32 lanes: which ones are to be listed, or how many tests they get
    simt::Array<std::uint32_t> part_takers;
    simt::Array<std::uint32_t> test_lane, test_row;
    simt::Array<std::uint64_t> best, best_length;  // keys of the tests' results

    ARCBEAM_DEVICE void carve(simt::Carver& carver, const LoopParams& params) {
        words = carver.take<std::uint32_t>(BlockWords::kCount);
        for (auto* array : {&frame, &frames, &symbols, &window, &count, &steps, &outcome, &bad_frame, &first_row,
                            &first_test, &tests, &found, &label_frame, &token, &duration, &list}) {
            *array = carver.take<std::uint32_t>(params.num_lanes);
        }
        context = carver.take<std::int32_t>(params.num_lanes * params.network.context);
        part_takers = carver.take<std::uint32_t>((params.num_lanes + simt::kWarpSize - 1U) / simt::kWarpSize);
        test_lane = carver.take<std::uint32_t>(params.most_tests);
        test_row = carver.take<std::uint32_t>(params.most_tests);
        best = carver.take<std::uint64_t>(params.most_tests);
        best_length = carver.take<std::uint64_t>(params.most_tests);
    }

    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t num_tests() const {
        return simt::load(words.at(BlockWords::kTests));
    }
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t listed() const { return simt::load(words.at(BlockWords::kListed)); }

    // Takes the lanes over from the last launch, or from the host. A barrier of the block must follow.
    ARCBEAM_DEVICE void load(const LoopParams& params) const {
        for (std::uint32_t i = simt::thread_rank(); i < params.num_lanes; i += simt::block_size()) {
            const LaneState state = params.lanes[i];
            const bool bad = simt::load_readonly(params.bad_inputs + i) != kNothingBad;
            simt::store(frame.at(i), state.frame);
            simt::store(frames.at(i), bad ? 0U : state.frames);
            simt::store(symbols.at(i), state.symbols);
            simt::store(window.at(i), state.window);
            simt::store(count.at(i), state.count);
            simt::store(steps.at(i), state.steps);
            simt::store(outcome.at(i), static_cast<std::uint32_t>(bad ? LaneOutcome::bad_input : state.outcome));
            simt::store(bad_frame.at(i), state.bad_frame);
            simt::store(first_row.at(i), state.first_row);
            simt::store(token.at(i), params.blank);
            // The first step of a stream is taken with the blank.
            simt::store(found.at(i), state.fresh != 0U && state.steps == 0U ? 0U : kNowhere);
        }
        for (std::uint32_t i = simt::thread_rank(); i < context.size; i += simt::block_size()) {
            simt::store(context.at(i), simt::load(params.contexts + i));
        }
        forget_plan();
    }

    // One block writes the lanes back.
    ARCBEAM_DEVICE void save(const LoopParams& params) const {
        for (std::uint32_t i = simt::thread_rank(); i < params.num_lanes; i += simt::block_size()) {
            LaneState& state = params.lanes[i];
            const std::uint64_t bad = simt::load_readonly(params.bad_inputs + i);
            simt::store(&state.frame, simt::load(frame.at(i)));
            simt::store(&state.symbols, simt::load(symbols.at(i)));
            simt::store(&state.window, simt::load(window.at(i)));
            simt::store(&state.count, simt::load(count.at(i)));
            simt::store(&state.steps, simt::load(steps.at(i)));
            simt::store(&state.outcome, static_cast<LaneOutcome>(simt::load(outcome.at(i))));
            simt::store(&state.bad_frame, simt::load(bad_frame.at(i)));
            if (bad != kNothingBad) {
                const auto its_frame = static_cast<std::uint32_t>(bad >> 32U);
                const auto its_feature = static_cast<std::uint32_t>(bad);
                simt::store(&state.bad_frame, its_frame);
                simt::store(&state.bad_feature, its_feature);
                simt::store(&state.bad_value, feature_at(params.utterances[i], its_frame, its_feature));
            }
            if (simt::load(outcome.at(i)) == static_cast<std::uint32_t>(LaneOutcome::not_finite)) {
                simt::store(&state.frames, 0U);  // the utterance has ended
            }
        }
        for (std::uint32_t i = simt::thread_rank(); i < context.size; i += simt::block_size()) {
            simt::store(params.contexts + i, simt::load(context.at(i)));
        }
    }

    [[nodiscard]] ARCBEAM_DEVICE bool is_active(std::uint32_t i) const {
        return simt::load(frame.at(i)) < simt::load(frames.at(i));
    }

    // Lists the lanes for which `chosen` is true, in their order. Warps share the lanes, 32 at a time. There are
    // barriers of the block before and after.
    template <class Chosen>
    ARCBEAM_DEVICE void make_list(const Chosen& chosen) const {
        simt::block_barrier();
        const bool one_part = frame.size <= simt::kWarpSize;
        each_part([&](std::uint32_t part, std::uint32_t i) {
            const bool take = i < frame.size && chosen(i);
            const std::uint32_t takers = simt::ballot(simt::kAllThreads, take);
            if (one_part) {
                put_in_list(take, takers, 0U, i);
            } else if (simt::warp_thread() == 0U) {
                simt::store(part_takers.at(part), takers);
            }
        });
        simt::block_barrier();
        if (one_part) {
            return;
        }
        each_part([&](std::uint32_t part, std::uint32_t i) {
            std::uint32_t before = 0U;
            for (std::uint32_t p = simt::warp_thread(); p < part; p += simt::kWarpSize) {
                before += simt::popcount(simt::load(part_takers.at(p)));
            }
            const std::uint32_t takers = simt::load(part_takers.at(part));
            put_in_list((takers >> simt::warp_thread() & 1U) != 0U, takers,
                        simt::reduce_add(simt::kAllThreads, before), i);
        });
        simt::block_barrier();
    }

    // Plans which frames this round tests: each active lane gets as many as its window and the limit on all tests
    // allow. Warps share the lanes, 32 at a time. There are barriers of the block before and after.
    ARCBEAM_DEVICE Plan plan(const LoopParams& params) const {
        simt::block_barrier();
        if (frame.size <= simt::kWarpSize) {
            return plan_one_part(params);
        }
        each_part([&](std::uint32_t, std::uint32_t i) { count_active(params, i); });
        simt::block_barrier();
        const std::uint32_t active = simt::load(words.at(BlockWords::kActive));
        const bool full = simt::load(words.at(BlockWords::kFull)) != 0U;
        const std::uint32_t earliest = simt::load(words.at(BlockWords::kEarliest));
        if (active == 0U || full) {
            return full ? Plan::room : Plan::end;
        }
        each_part([&](std::uint32_t part, std::uint32_t i) {
            want_tests(params, params.most_tests / active, earliest, part, i);
        });
        simt::block_barrier();
        each_part([&](std::uint32_t part, std::uint32_t i) { place_tests(part, i); });
        forget_plan();
        simt::block_barrier();
        return Plan::test;
    }

    // Fetches the results of all tests at once; false if the host requests an end. There are barriers of the block
    // before and after.
    ARCBEAM_DEVICE bool fetch(const LoopParams& params, const std::uint64_t* keys,
                              const std::uint32_t* cancelled) const {
        for (std::uint32_t i = simt::thread_rank(); i < num_tests(); i += simt::block_size()) {
            const std::uint64_t key = simt::load(keys + i);
            simt::store(best_length.at(i), params.network.durations > 0U ? simt::load(keys + params.most_tests + i)
                                                                         : std::uint64_t{0});
            simt::store(best.at(i), key);
        }
        if (simt::thread_rank() + 1U == simt::block_size()) {
            simt::store(words.at(BlockWords::kCancelled), simt::load(cancelled));
        }
        simt::block_barrier();
        return simt::load(words.at(BlockWords::kCancelled)) == 0U;
    }

    // Follows the results of a lane's tests until there is a label, or the tests or the frames end (Bataev et al.
    // 2024, Algorithm 3). A duration may skip frames that were tested in vain. `labels`: see fusion.cuh.
    template <class Labels>
    ARCBEAM_DEVICE void follow(const LoopParams& params, const Labels& labels, std::uint32_t i) const {
        simt::store(found.at(i), kNowhere);
        if (is_active(i)) {
            follow_one(params, labels, i);
        }
    }

  private:
    // Calls take(part, lane) for every 32 lanes, by one warp, even where a part has fewer lanes.
    template <class Take>
    ARCBEAM_DEVICE void each_part(const Take& take) const {
        for (std::uint32_t part = simt::warp(); part * simt::kWarpSize < frame.size; part += simt::num_warps()) {
            take(part, part * simt::kWarpSize + simt::warp_thread());
        }
    }

    // Called by a warp for its part. The last part also sets how many lanes are listed.
    ARCBEAM_DEVICE void put_in_list(bool take, std::uint32_t takers, std::uint32_t before, std::uint32_t i) const {
        if (take) {
            simt::store(list.at(before + simt::place_in(takers)), i);
        }
        if (i + simt::kWarpSize - simt::warp_thread() >= frame.size && simt::warp_thread() == 0U) {
            simt::store(words.at(BlockWords::kListed), before + simt::popcount(takers));
        }
    }

    ARCBEAM_DEVICE void forget_plan() const {
        if (simt::thread_rank() == 0U) {
            simt::store(words.at(BlockWords::kActive), 0U);
            simt::store(words.at(BlockWords::kFull), 0U);
            simt::store(words.at(BlockWords::kEarliest), 0xffffffffU);
        }
    }

    // The active lanes among 32.
    struct Active {
        std::uint32_t count;
        std::uint32_t earliest;
        bool full;
    };

    [[nodiscard]] ARCBEAM_DEVICE Active active_of_part(const LoopParams& params, std::uint32_t i) const {
        const bool works = i < frame.size && is_active(i);
        const std::uint32_t active = simt::popcount(simt::ballot(simt::kAllThreads, works));
        const bool full = simt::any(simt::kAllThreads, works && simt::load(count.at(i)) >= params.room);
        std::uint32_t earliest = 0xffffffffU;
        if (params.frame_looping != 0U) {
            earliest = simt::reduce_min(simt::kAllThreads, works ? simt::load(frame.at(i)) : earliest);
        }
        return {active, earliest, full};
    }

    ARCBEAM_DEVICE void count_active(const LoopParams& params, std::uint32_t i) const {
        const Active active = active_of_part(params, i);
        if (simt::warp_thread() == 0U && active.count != 0U) {
            simt::atomic_add<simt::Scope::block>(words.at(BlockWords::kActive), active.count);
            simt::atomic_min<simt::Scope::block>(words.at(BlockWords::kEarliest), active.earliest);
            if (active.full) {
                simt::atomic_or<simt::Scope::block>(words.at(BlockWords::kFull), 1U);
            }
        }
    }

    // Plans the tests of up to 32 lanes, by one warp.
    ARCBEAM_DEVICE Plan plan_one_part(const LoopParams& params) const {
        const std::uint32_t i = simt::warp_thread();
        if (simt::warp() == 0U) {
            const Active active = active_of_part(params, i);
            Plan found_plan = active.full ? Plan::room : Plan::end;
            if (!active.full && active.count > 0U) {
                found_plan = Plan::test;
                const std::uint32_t needed =
                    tests_needed(params, params.most_tests / active.count, active.earliest, i);
                const std::uint32_t end = sum_up_to(needed);
                put_tests(end - needed, needed, i);
                if (simt::warp_thread() == simt::kWarpSize - 1U) {
                    simt::store(words.at(BlockWords::kTests), end);
                }
            }
            if (simt::warp_thread() == 0U) {
                simt::store(words.at(BlockWords::kPlan), static_cast<std::uint32_t>(found_plan));
            }
        }
        simt::block_barrier();
        return static_cast<Plan>(simt::load(words.at(BlockWords::kPlan)));
    }

    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t tests_needed(const LoopParams& params, std::uint32_t share,
                                                            std::uint32_t earliest, std::uint32_t i) const {
        if (i >= frame.size || !is_active(i)) {
            return 0U;
        }
        if (params.frame_looping != 0U) {
            return simt::load(frame.at(i)) == earliest ? 1U : 0U;
        }
        const std::uint32_t left = simt::load(frames.at(i)) - simt::load(frame.at(i));
        std::uint32_t needed = simt::load(window.at(i));
        needed = needed < left ? needed : left;
        return needed < share ? needed : share;
    }

    // The sum over this thread of the warp and those before it.
    [[nodiscard]] ARCBEAM_DEVICE static std::uint32_t sum_up_to(std::uint32_t value) {
        for (std::uint32_t d = 1U; d < simt::kWarpSize; d *= 2U) {
            const std::uint32_t before = simt::shuffle_up(simt::kAllThreads, value, d);
            value += simt::warp_thread() >= d ? before : 0U;
        }
        return value;
    }

    ARCBEAM_DEVICE void put_tests(std::uint32_t begin, std::uint32_t needed, std::uint32_t i) const {
        if (i < frame.size) {
            simt::store(first_test.at(i), begin);
            simt::store(tests.at(i), needed);
            const std::uint32_t row = simt::load(first_row.at(i)) + simt::load(frame.at(i));
            for (std::uint32_t k = 0U; k < needed; ++k) {
                simt::store(test_lane.at(begin + k), i);
                simt::store(test_row.at(begin + k), row + k);
            }
        }
    }

    // Notes how many tests a lane gets, and how many the lanes before it in its part get.
    ARCBEAM_DEVICE void want_tests(const LoopParams& params, std::uint32_t share, std::uint32_t earliest,
                                   std::uint32_t part, std::uint32_t i) const {
        const std::uint32_t needed = tests_needed(params, share, earliest, i);
        const std::uint32_t end = sum_up_to(needed);
        if (i < frame.size) {
            simt::store(first_test.at(i), end - needed);
            simt::store(tests.at(i), needed);
        }
        if (simt::warp_thread() == simt::kWarpSize - 1U) {
            simt::store(part_takers.at(part), end);
        }
    }

    ARCBEAM_DEVICE void place_tests(std::uint32_t part, std::uint32_t i) const {
        std::uint32_t before = 0U;
        for (std::uint32_t p = simt::warp_thread(); p < part; p += simt::kWarpSize) {
            before += simt::load(part_takers.at(p));
        }
        before = simt::reduce_add(simt::kAllThreads, before);
        if ((part + 1U) * simt::kWarpSize >= frame.size && simt::warp_thread() == 0U) {
            simt::store(words.at(BlockWords::kTests), before + simt::load(part_takers.at(part)));
        }
        if (i < frame.size) {
            put_tests(before + simt::load(first_test.at(i)), simt::load(tests.at(i)), i);
        }
    }

    template <class Labels>
    ARCBEAM_DEVICE void follow_one(const LoopParams& params, const Labels& labels, std::uint32_t i) const {
        const std::uint32_t tested = simt::load(tests.at(i));
        const std::uint32_t first = simt::load(frame.at(i));
        const std::uint32_t last = simt::load(frames.at(i));
        Place place{first, simt::load(symbols.at(i))};
        bool wrote = false;
        while (!wrote && place.frame < last && place.frame - first < tested) {
            const auto here = static_cast<std::uint32_t>(place.frame);
            const std::uint32_t test = simt::load(first_test.at(i)) + (here - first);
            const std::uint64_t of_token = simt::load(best.at(test));
            const std::uint64_t of_length = simt::load(best_length.at(test));
            std::uint32_t length = 0U;
            if (of_token == kNotFinite || of_length == kNotFinite) {
                simt::store(outcome.at(i), static_cast<std::uint32_t>(LaneOutcome::not_finite));
                simt::store(bad_frame.at(i), here);
                simt::store(frames.at(i), 0U);
                return;
            }
            if (params.network.durations > 0U) {
                length = simt::load_readonly(params.lengths + index_of(of_length));
            }
            if (index_of(of_token) == params.blank) {
                place = after_blank(place, length);
                continue;
            }
            wrote = true;
            simt::store(found.at(i), test);
            simt::store(label_frame.at(i), here);
            simt::store(duration.at(i), length);
            const std::uint32_t label = labels.label(test, of_token);
            labels.follow(i);
            write_token(params, i, label);
            place = after_label(place, length, params.max_symbols);
        }
        const std::uint32_t wider = 2U * simt::load(window.at(i));
        simt::store(frame.at(i), static_cast<std::uint32_t>(place.frame));
        simt::store(symbols.at(i), place.symbols);
        simt::store(window.at(i), wrote                          ? params.first_window
                                  : wider < params.widest_window ? wider
                                                                 : params.widest_window);
    }

    ARCBEAM_DEVICE void write_token(const LoopParams& params, std::uint32_t i, std::uint32_t next) const {
        simt::store(token.at(i), next);
        simt::store(count.at(i), simt::load(count.at(i)) + 1U);
        const std::uint32_t places = params.network.context;
        for (std::uint32_t k = 0U; k < places; ++k) {
            simt::store(context.at(i * places + k), k + 1U < places ? simt::load(context.at(i * places + k + 1U))
                                                                    : static_cast<std::int32_t>(next));
        }
    }
};

}  // namespace arcbeam::transducer
