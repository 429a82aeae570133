// The loop of beam search, which runs from the first frame to the last without the host. Every utterance belongs to
// one block, which expands its hypotheses, one frame and depth after the other, and requests predictions and tests;
// all blocks run the networks for the requests of all.
//
// Hypotheses are tested on several frames at once: a block goes on with an utterance until one is live that has not
// been tested where it is.
// The predictions of states that streams go on from are completed before the first round (restore).
//
// A round has three barriers of the grid: after the requests, after the hidden layers (unless every block computes
// them for itself), after the logits. A round with predictions has one more for each layer, and one more; with
// stateless networks it has two more.
#pragma once

#include "transducer/barrier.cuh"
#include "transducer/beam/advance.cuh"
#include "transducer/beam/state.cuh"
#include "transducer/beam/take_over.cuh"
#include "transducer/fusion.cuh"
#include "transducer/joint.cuh"
#include "transducer/predict.cuh"
#include "transducer/weights.cuh"

namespace arcbeam::transducer::beam {

// What a block's threads share.
struct BlockWord {
    static constexpr std::uint32_t kVerdict = 0U;  // for the grid's barrier
    static constexpr std::uint32_t kCount = 8U;
};

// Steps of the prediction network, each from one slot to another.
template <Precision kPrecision>
struct SlotSteps {
    using Input = Value<kPrecision>;
    const BeamParams& beam;
    const std::uint32_t* to;
    std::uint32_t num_steps;

    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t count() const { return num_steps; }
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t token(std::uint32_t column) const {
        return simt::load(beam.step_token + column);
    }
    [[nodiscard]] ARCBEAM_DEVICE std::int32_t context(std::uint32_t column, std::uint32_t place) const {
        return simt::load(beam.memory.contexts + slot(column, 1U) * beam.sizes.context + place);
    }
    [[nodiscard]] ARCBEAM_DEVICE Input* hidden(std::uint32_t column, std::uint32_t layer,
                                               std::uint32_t ahead) const {
        return static_cast<Input*>(beam.memory.hidden) +
               (slot(column, ahead) * beam.sizes.layers + layer) * beam.sizes.unit_stride;
    }
    [[nodiscard]] ARCBEAM_DEVICE float* cell(std::uint32_t column, std::uint32_t layer, std::uint32_t ahead) const {
        return beam.memory.cell + (slot(column, ahead) * beam.sizes.layers + layer) * beam.sizes.unit_stride;
    }
    [[nodiscard]] ARCBEAM_DEVICE float* prediction(std::uint32_t column) const {
        return beam.memory.predictions + slot(column, 1U) * beam.sizes.joint_stride;
    }

  private:
    [[nodiscard]] ARCBEAM_DEVICE std::size_t slot(std::uint32_t column, std::uint32_t ahead) const {
        return simt::load((ahead == 0U ? beam.step_from : to) + column);
    }
};

// Steps that have been taken: the state after them is the last one.
template <Precision kPrecision>
struct AfterSteps {
    using Input = Value<kPrecision>;
    SlotSteps<kPrecision> steps;
    [[nodiscard]] ARCBEAM_DEVICE Input* hidden(std::uint32_t column, std::uint32_t layer, std::uint32_t) const {
        return steps.hidden(column, layer, 1U);
    }
    [[nodiscard]] ARCBEAM_DEVICE float* prediction(std::uint32_t column) const { return steps.prediction(column); }
};

// The part of hidden layers that predictions give, from the last layer of their states.
template <Precision kPrecision, bool kKept>
ARCBEAM_DEVICE void project(const SlotSteps<kPrecision>& steps, std::uint32_t rows, std::uint32_t layer,
                            const Weights<kPrecision, kKept>& weights, float* scratch) {
    using Rows = typename Weights<kPrecision, kKept>::Rows;
    const Share share = weights.share_of_rows(rows);
    const PredictionStage<Rows, AfterSteps<kPrecision>> stage{
        {steps}, layer, weights.prediction(), share.first, share.count, steps.num_steps, scratch};
    run_stage<kPrecision, kKept>(stage, share.count, steps.num_steps, weights.tiles());
}

// A call, so that whole utterances keep their registers.
template <Precision kPrecision, bool kKept>
ARCBEAM_DEVICE_NOINLINE void project_apart(const SlotSteps<kPrecision> steps, std::uint32_t rows,
                                           std::uint32_t layer, const Weights<kPrecision, kKept> weights,
                                           float* scratch) {
    project(steps, rows, layer, weights, scratch);
}

// The tests of a round: whose prediction is joined with which frame.
struct Tests {
    simt::Array<const std::uint32_t> test_lane;
    simt::Array<std::uint32_t> test_row;
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t num_tests() const { return test_row.size; }
};

template <Precision kPrecision, bool kKept, class Models, class Lattices>
class BeamLoop {
  public:
    using Input = Value<kPrecision>;
    using Rows = typename Weights<kPrecision, kKept>::Rows;
    using Steps = SlotSteps<kPrecision>;

    ARCBEAM_DEVICE BeamLoop(const BeamLoopParams& params, const Models& models, const Lattices& lattices,
                            simt::Carver& carver)
        : loop_(params.loop),
          beam_(params.beam),
          models_(models),
          lattices_(lattices),
          barrier_(params.loop.arrived, params.loop.status, params.loop.patience,
                   carver.take<std::uint32_t>(BlockWord::kCount).at(BlockWord::kVerdict)),
          scratch_(carver.take<float>(kScratch * simt::num_warps()).at(kScratch * simt::warp())),
          weights_(params.loop, carver) {
        if (joins_alone()) {
            const std::uint32_t apart = held_stride(kPrecision, params.loop.network.output.stride);
            own_joined_ = carver.take<Input>(params.loop.most_tests * apart).data;
        }
    }

    ARCBEAM_DEVICE void run() {
        each_own([this](const Utterance& one) {
            if (beam_.before.rooms.nodes > 0U) {
                const Utterance old{loop_, beam_, beam_.before, one.lane};
                take_over<Models::kFused>(old, one);
                if constexpr (Lattices::kKept) {
                    lattices_.take_over(old, one);
                }
            }
            const Advance<Models, Lattices> advance(one, models_, lattices_);
            if (!Lattices::kKept && beam_.from_states != 0U) {
                restore_apart(one);
                advance.go_on();
            } else {
                advance.begin();
            }
        });
        std::uint32_t first_round = 0U;
        if (!Lattices::kKept && beam_.num_restored > 0U && !restore(first_round)) {
            return;
        }
        each_own([&](const Utterance& one) { Requests<Models>(one, models_).request(requests(first_round)); });
        Ending ending = Ending::done;
        for (std::uint32_t round = first_round;; ++round) {
            if (!barrier_.wait()) {
                return;
            }
            const std::uint32_t num_tests = simt::load(requests(round).tests);
            const std::uint32_t num_steps = simt::load(requests(round).steps);
            if (num_tests == 0U) {
                ending = simt::load(beam_.needs_room) != 0U ? Ending::room : Ending::done;
                break;
            }
            if (num_steps > 0U && !predict(num_steps)) {
                return;
            }
            if (!test(round, Tests{{beam_.test_slot, num_tests}, {beam_.test_row, num_tests}})) {
                return;
            }
            if (simt::load(loop_.cancelled + round % 2U) != 0U) {
                ending = Ending::cancelled;
                break;
            }
            expand(round);
        }
        if (!Lattices::kKept && ending == Ending::done && beam_.packed != nullptr) {
            each_own([](const Utterance& one) { leave_apart(one); });
        }
        if (simt::block_rank() == 0U && simt::thread_rank() == 0U) {
            simt::store(loop_.ending, static_cast<std::uint32_t>(ending));
        }
    }

  private:
    static constexpr std::uint32_t kScratch = 2U * tile_values(kPrecision);

    // Calls take(utterance) for those of this block, each by one warp.
    template <class Take>
    ARCBEAM_DEVICE void each_own(const Take& take) const {
        for (std::uint32_t i = simt::warp(); first_lane(i) < beam_.sizes.lanes; i += simt::num_warps()) {
            take(Utterance{loop_, beam_, beam_.memory, first_lane(i)});
        }
    }

    // Calls take(utterance, rank) for the live hypotheses that have been tested, each by one warp.
    template <class Take>
    ARCBEAM_DEVICE void each_tested(std::uint32_t round, const Take& take) const {
        const std::uint32_t most = beam_.sizes.hypotheses;
        for (std::uint32_t i = simt::warp(); first_lane(i / most) < beam_.sizes.lanes; i += simt::num_warps()) {
            const Utterance one{loop_, beam_, beam_.memory, first_lane(i / most)};
            if (i % most < one.tested(round)) {
                take(one, i % most);
            }
        }
    }

    [[nodiscard]] ARCBEAM_DEVICE static std::uint32_t first_lane(std::uint32_t i) {
        return i * simt::grid_size() + simt::block_rank();
    }

    [[nodiscard]] ARCBEAM_DEVICE Round requests(std::uint32_t round) const {
        std::uint32_t* const of = beam_.counters + 2U * (round % kKeyBuffers);
        return {round, of, of + 1};
    }

    [[nodiscard]] ARCBEAM_DEVICE std::uint64_t* keys_of(std::uint32_t round) const {
        return loop_.keys + static_cast<std::size_t>(round % kKeyBuffers) * 2U * loop_.most_tests;
    }

    // Whether every block computes the hidden layers of all tests for itself.
    [[nodiscard]] ARCBEAM_DEVICE bool joins_alone() const { return kKept && loop_.joins_alone != 0U; }

    // Runs the steps of the prediction network.
    ARCBEAM_DEVICE bool predict(std::uint32_t num_steps) {
        const DeviceNetwork& network = loop_.network;
        const Steps steps{beam_, beam_.step_to, num_steps};
        if constexpr (Models::kFused) {
            static_assert(kFillWords <= kScratch);
            models_.fill(loop_, beam_, beam_.step_to, num_steps, scratch_);
        }
        if (network.num_layers == 0U) {
            look_up_all<kPrecision>(network, steps, 1U);
            if (!barrier_.wait()) {
                return false;
            }
        }
        const Share units = weights_.share_of_rows(network.units);
        for (std::uint32_t layer = 0U; layer < network.num_layers; ++layer) {
            const LstmStage<Rows, Steps> stage{
                network,     steps,     layer,   weights_.recurrent(layer), weights_.input(layer), units.first,
                units.count, num_steps, scratch_};
            run_stage<kPrecision, kKept>(stage, kGates * units.count, num_steps, weights_.tiles());
            if (!barrier_.wait()) {
                return false;
            }
        }
        project(steps, network.prediction.rows, beam_.sizes.layers - 1U, weights_, scratch_);
        return barrier_.wait();
    }

    // Completes the predictions of states. With an internal language model it takes rounds of tests, after which
    // `round` is the next.
    ARCBEAM_DEVICE bool restore(std::uint32_t& round) {
        if (!barrier_.wait()) {
            return false;
        }
        const Steps steps{beam_, beam_.restored, beam_.num_restored};
        if constexpr (Models::kFused) {
            models_.fill(loop_, beam_, beam_.restored, beam_.num_restored, scratch_);
            if (models_.has_ilm() && simt::block_rank() == 0U) {
                for (std::uint32_t i = simt::thread_rank(); i < loop_.most_tests; i += simt::block_size()) {
                    simt::store(beam_.test_row + i, models_.no_encoder_row());
                }
            }
        }
        if (loop_.network.num_layers == 0U) {
            look_up_all<kPrecision>(loop_.network, steps, 1U);
            if (!barrier_.wait()) {
                return false;
            }
        }
        project_apart(steps, loop_.network.prediction.rows, beam_.sizes.layers - 1U, weights_, scratch_);
        if (!barrier_.wait()) {
            return false;
        }
        if constexpr (Models::kFused) {
            for (std::uint32_t first = 0U; models_.has_ilm() && first < beam_.num_restored; ++round) {
                const std::uint32_t left = beam_.num_restored - first;
                const std::uint32_t count = left < loop_.most_tests ? left : loop_.most_tests;
                const std::uint32_t* const slots = beam_.restored + first;
                if (!test(round, Tests{{slots, count}, {beam_.test_row, count}})) {
                    return false;
                }
                for (std::uint32_t i = worker(); i < count; i += workers()) {
                    models_.subtract_restored(
                        loop_, beam_.memory, simt::load(slots + i),
                        loop_.logits + static_cast<std::size_t>(i) * loop_.network.output.rows,
                        simt::load(keys_of(round) + i));
                }
                if (!barrier_.wait()) {
                    return false;
                }
                first += count;
            }
        }
        return true;
    }

    // Runs the tests; their results are in the logits and keys afterwards.
    ARCBEAM_DEVICE bool test(std::uint32_t round, const Tests& tests) {
        const DeviceNetwork& network = loop_.network;
        const std::uint32_t num_tests = tests.num_tests();
        if (simt::block_rank() == 0U) {
            std::uint64_t* const next = keys_of(round + 1U);
            for (std::uint32_t i = simt::thread_rank(); i < 2U * loop_.most_tests; i += simt::block_size()) {
                simt::store(next + i, std::uint64_t{0});
            }
            if (simt::thread_rank() == 0U) {
                simt::store(requests(round + 1U).tests, 0U);
                simt::store(requests(round + 1U).steps, 0U);
                simt::store(loop_.cancelled + round % 2U, simt::load_relaxed<simt::Scope::system>(loop_.cancel));
            }
        }
        const bool alone = joins_alone();
        Input* const joined = alone ? own_joined_ : static_cast<Input*>(loop_.joined);
        const std::uint32_t apart = alone ? held_stride(kPrecision, network.output.stride) : network.output.stride;
        join<kPrecision>(loop_, tests, beam_.memory.predictions, alone ? simt::warp() : worker(),
                         alone ? simt::num_warps() : workers(), joined, apart);
        if (alone) {
            simt::block_barrier();
        } else if (!barrier_.wait()) {
            return false;
        }
        const Share share = weights_.share_of_rows(network.output.rows);
        const PlainLabels labels;
        const OutputStage<Rows, PlainLabels, Tests> stage{loop_,
                                                          tests,
                                                          labels,
                                                          nullptr,
                                                          weights_.output(),
                                                          share.first,
                                                          share.count,
                                                          num_tests,
                                                          PackedColumns<kPrecision>{joined, apart},
                                                          keys_of(round),
                                                          scratch_};
        run_stage<kPrecision, kKept>(stage, share.count, num_tests, weights_.tiles());
        return barrier_.wait();
    }

    // Goes on with the utterances of this block, each as far as it has been tested.
    ARCBEAM_DEVICE void expand(std::uint32_t round) const {
        bool goes_on = true;
        while (goes_on) {
            each_tested(round, [&](const Utterance& one, std::uint32_t rank) {
                Expansion<Models>{one, models_}.add_up(rank, keys_of(round));
            });
            simt::block_barrier();
            each_tested(round, [&](const Utterance& one, std::uint32_t rank) {
                Expansion<Models>{one, models_}.find_labels(simt::load(&one.state().live), rank);
            });
            simt::block_barrier();
            bool has_tests = false;
            each_own([&](const Utterance& one) {
                if (one.tested(round) == 0U) {
                    return;
                }
                const Advance<Models, Lattices> advance(one, models_, lattices_);
                advance.advance();
                if (one.tested(round) == 0U) {
                    return;  // it waits for room
                }
                const Requests<Models> next(one, models_);
                if (next.find_tests()) {
                    has_tests = true;
                } else {
                    next.request(requests(round + 1U));
                }
            });
            goes_on = simt::block_barrier_or(has_tests);
        }
    }

    const LoopParams& loop_;
    const BeamParams& beam_;
    const Models& models_;
    const Lattices& lattices_;
    GridBarrier barrier_;
    float* scratch_;  // of this warp
    Weights<kPrecision, kKept> weights_;
    Input* own_joined_ = nullptr;  // in shared memory, if blocks join alone
};

template <Precision kPrecision, bool kKept, class Models, class Lattices = NoLattices>
ARCBEAM_DEVICE void search(const BeamLoopParams& params, const Models& models,
                           const Lattices& lattices = NoLattices{}) {
    simt::Carver carver;
    BeamLoop<kPrecision, kKept, Models, Lattices> loop(params, models, lattices, carver);
    loop.run();
}

}  // namespace arcbeam::transducer::beam
