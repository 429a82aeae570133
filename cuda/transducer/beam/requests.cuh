// What an utterance needs of the networks in a round: the predictions of new histories, and the tests of its live
// hypotheses on one frame or more.
//
// in    live hypotheses, and their histories' predictions
// out   steps and tests of the round, in an order among utterances that is left open
#pragma once

#include "transducer/beam/histories.cuh"
#include "transducer/beam/models.cuh"

namespace arcbeam::transducer::beam {

// The tests and steps of a round.
struct Round {
    std::uint32_t number;
    std::uint32_t* tests;
    std::uint32_t* steps;
};

// Leaves what an utterance needs to the next launch, which has more room.
ARCBEAM_DEVICE void wait_for_room(const Utterance& of) {
    simt::warp_sync(simt::kAllThreads);
    if (simt::warp_thread() == 0U) {
        simt::store(&of.state().tests, 0U);
        simt::report_status(of.beam.needs_room, 1U);
    }
    simt::warp_sync(simt::kAllThreads);
}

template <class Models>
class Requests {
  public:
    ARCBEAM_DEVICE Requests(const Utterance& of, const Models& models) : of_(of), models_(models), histories_{of} {}

    // Whether all live hypotheses have been tested ahead on this frame, in the round whose tests it has.
    ARCBEAM_DEVICE bool find_tests() const {
        Lane& lane = of_.state();
        const std::uint32_t me = simt::warp_thread();
        const std::uint32_t live = of_.is_active() ? simt::load(&lane.live) : 0U;
        const std::uint32_t ahead = simt::load(&lane.frame) - simt::load(&lane.first_frame);
        const std::uint32_t slot = me < live ? histories_.slot_of(simt::load(&of_.live(me)->node)) : kNowhere;
        const std::uint64_t tested = slot != kNowhere ? simt::load(of_.memory.tested + of_.slot_at(slot)) : 0U;
        const bool is_tested = ahead < simt::load(&lane.window) && tested >> 32U == simt::load(&lane.round) + 1U;
        if (live == 0U || !simt::all(simt::kAllThreads, me >= live || is_tested)) {
            return false;
        }
        simt::warp_sync(simt::kAllThreads);
        if (me < live) {
            simt::store(of_.test(me), static_cast<std::uint32_t>(tested) + ahead);
        }
        if (me == 0U) {
            simt::store(&lane.tests, live);
            simt::store(&lane.predicted, 0U);
        }
        simt::warp_sync(simt::kAllThreads);
        return true;
    }

    // Requests the predictions of its live hypotheses and their tests, on as many frames as there is room for.
    ARCBEAM_DEVICE void request(const Round& round) const {
        Lane& lane = of_.state();
        const std::uint32_t me = simt::warp_thread();
        const std::uint32_t live = of_.is_active() ? simt::load(&lane.live) : 0U;
        const std::uint32_t node = me < live ? simt::load(&of_.live(me)->node) : kRoot;
        std::uint32_t slot = me < live ? histories_.slot_of(node) : kNowhere;
        const bool steps = me < live && slot == kNowhere;
        simt::warp_sync(simt::kAllThreads);
        bool fits = histories_.take_slots(steps, node, slot);
        for (std::uint32_t children = of_.is_stream() ? 0U : 2U; !fits && children > 0U; --children) {
            histories_.keep(live, children == 2U);
            fits = histories_.take_slots(steps, node, slot);
        }
        if (!fits) {
            wait_for_room(of_);
            return;
        }
        const std::uint32_t steppers = simt::ballot(simt::kAllThreads, steps);
        const std::uint32_t extra = models_.more_tests(steppers);
        const std::uint32_t window = live > 0U ? window_for(live, extra) : 0U;
        const std::uint32_t count = me == 0U ? live * window + extra : simt::popcount(steppers);
        std::uint32_t first = 0U;
        simt::warp_sync(simt::kAllThreads);
        if (me < 2U && count > 0U) {
            first = simt::atomic_add(me == 0U ? round.tests : round.steps, count);
        }
        const std::uint32_t first_test = simt::shuffle(simt::kAllThreads, first, 0U);
        const std::uint32_t first_step = simt::shuffle(simt::kAllThreads, first, 1U);
        const std::uint32_t frame = simt::load(&lane.frame);
        if (me == 0U) {
            simt::store(&lane.round, round.number);
            simt::store(&lane.tests, live);
            simt::store(&lane.first_frame, frame);
            simt::store(&lane.window, window);
            simt::store(&lane.first_extra, first_test + live * window);
        }
        if (me < live) {
            const std::uint32_t first_mine = first_test + me * window;
            const std::uint32_t row = simt::load(&lane.first_row) + frame;
            for (std::uint32_t k = 0U; k < window; ++k) {
                simt::store(of_.beam.test_slot + first_mine + k, static_cast<std::uint32_t>(of_.slot_at(slot)));
                simt::store(of_.beam.test_row + first_mine + k, row + k);
            }
            simt::store(of_.test(me), first_mine);
            simt::store(of_.memory.tested + of_.slot_at(slot),
                        std::uint64_t{round.number + 1U} << 32U | first_mine);
        }
        if (steps) {
            put_step(first_step + simt::place_in(steppers), node, static_cast<std::uint32_t>(of_.slot_at(slot)));
        }
        if constexpr (Models::kFused) {
            models_.request(of_, steppers, first_test + live * window, slot);
        }
        simt::warp_sync(simt::kAllThreads);
    }

  private:
    // On how many frames each live hypothesis is tested: what is tested ahead needs no round of its own.
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t window_for(std::uint32_t live, std::uint32_t extra) const {
        const Lane& lane = of_.state();
        const std::uint32_t left = simt::load(&lane.frames) - simt::load(&lane.frame);
        const std::uint32_t share = of_.loop.most_tests / of_.beam.sizes.lanes;
        const std::uint32_t fits = share > extra ? (share - extra) / live : 0U;
        const std::uint32_t widest = fits < of_.loop.widest_window ? fits : of_.loop.widest_window;
        const std::uint32_t window = widest < left ? widest : left;
        return window > 0U ? window : 1U;
    }

    // A step from its parent's prediction, or from the zeros that are the last one.
    ARCBEAM_DEVICE void put_step(std::uint32_t step, std::uint32_t node, std::uint32_t to) const {
        const std::uint32_t zeros = of_.beam.sizes.lanes * of_.rooms().slots;
        const std::uint32_t token = simt::load(&of_.node(node)->token);
        const std::uint32_t from =
            node == kRoot
                ? zeros
                : static_cast<std::uint32_t>(of_.slot_at(histories_.slot_of(simt::load(&of_.node(node)->parent))));
        simt::store(of_.beam.step_from + step, from);
        simt::store(of_.beam.step_to + step, to);
        simt::store(of_.beam.step_token + step, token);
        const std::size_t places = of_.beam.sizes.context;
        for (std::size_t k = 0U; k < places; ++k) {
            const std::int32_t moved = node == kRoot     ? -1
                                       : k + 1U < places ? simt::load(of_.memory.contexts + from * places + k + 1U)
                                                         : 0;
            simt::store(of_.memory.contexts + to * places + k,
                        k + 1U < places ? moved : static_cast<std::int32_t>(token));
        }
    }

    const Utterance& of_;
    const Models& models_;
    Histories histories_;
};

}  // namespace arcbeam::transducer::beam
