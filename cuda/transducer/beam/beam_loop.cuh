// The loop of beam search, which runs from the first frame to the last without the host. Every utterance belongs to
// one block, which expands its hypotheses, one frame and depth after the other, and requests predictions and tests;
// all blocks run the networks for the requests of all.
//
// A round has three barriers of the grid: after the requests, after the hidden layers (unless every block computes
// them for itself), after the logits. A round with predictions has one more for each layer, and one more; with
// stateless networks it has two more.
#pragma once

#include "transducer/barrier.cuh"
#include "transducer/beam/advance.cuh"
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
        return simt::load((ahead == 0U ? beam.step_from : beam.step_to) + column);
    }
};

// The tests of a round: whose prediction is joined with which frame.
struct Tests {
    simt::Array<std::uint32_t> test_lane;
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
            advance.begin();
            advance.request(requests(0U));
        });
        Ending ending = Ending::done;
        for (std::uint32_t round = 0U;; ++round) {
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
            if (!test(round, num_tests)) {
                return;
            }
            if (simt::load(loop_.cancelled + round % 2U) != 0U) {
                ending = Ending::cancelled;
                break;
            }
            expand(round);
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
    ARCBEAM_DEVICE void each_tested(const Take& take) const {
        const std::uint32_t most = beam_.sizes.hypotheses;
        for (std::uint32_t i = simt::warp(); first_lane(i / most) < beam_.sizes.lanes; i += simt::num_warps()) {
            const Utterance one{loop_, beam_, beam_.memory, first_lane(i / most)};
            if (i % most < simt::load(&one.state().tests)) {
                take(one, i % most);
            }
        }
    }

    [[nodiscard]] ARCBEAM_DEVICE static std::uint32_t first_lane(std::uint32_t i) {
        return i * simt::grid_size() + simt::block_rank();
    }

    [[nodiscard]] ARCBEAM_DEVICE Round requests(std::uint32_t round) const {
        std::uint32_t* const of = beam_.counters + 2U * (round % kKeyBuffers);
        return {of, of + 1};
    }

    [[nodiscard]] ARCBEAM_DEVICE std::uint64_t* keys_of(std::uint32_t round) const {
        return loop_.keys + static_cast<std::size_t>(round % kKeyBuffers) * 2U * loop_.most_tests;
    }

    // Whether every block computes the hidden layers of all tests for itself.
    [[nodiscard]] ARCBEAM_DEVICE bool joins_alone() const { return kKept && loop_.joins_alone != 0U; }

    // Runs the steps of the prediction network.
    ARCBEAM_DEVICE bool predict(std::uint32_t num_steps) {
        const DeviceNetwork& network = loop_.network;
        const Steps steps{beam_, num_steps};
        if constexpr (Models::kFused) {
            static_assert(kFillWords <= kScratch);
            models_.fill(loop_, beam_, num_steps, scratch_);
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
        const Share share = weights_.share_of_rows(network.prediction.rows);
        const PredictionStage<Rows, AfterSteps> stage{
            {steps}, beam_.sizes.layers - 1U, weights_.prediction(), share.first, share.count, num_steps, scratch_};
        run_stage<kPrecision, kKept>(stage, share.count, num_steps, weights_.tiles());
        return barrier_.wait();
    }

    // Steps that have been taken: the state after them is the last one.
    struct AfterSteps {
        using Input = Value<kPrecision>;
        Steps steps;
        [[nodiscard]] ARCBEAM_DEVICE Input* hidden(std::uint32_t column, std::uint32_t layer, std::uint32_t) const {
            return steps.hidden(column, layer, 1U);
        }
        [[nodiscard]] ARCBEAM_DEVICE float* prediction(std::uint32_t column) const {
            return steps.prediction(column);
        }
    };

    // Runs the tests; their results are in the logits and keys afterwards.
    ARCBEAM_DEVICE bool test(std::uint32_t round, std::uint32_t num_tests) {
        const DeviceNetwork& network = loop_.network;
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
        const Tests tests{{beam_.test_slot, num_tests}, {beam_.test_row, num_tests}};
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

    // Goes on with the utterances of this block.
    ARCBEAM_DEVICE void expand(std::uint32_t round) const {
        each_tested([&](const Utterance& one, std::uint32_t rank) {
            Expansion<Models>{one, models_}.add_up(rank, keys_of(round));
        });
        simt::block_barrier();
        each_tested([&](const Utterance& one, std::uint32_t rank) {
            Expansion<Models>{one, models_}.find_labels(simt::load(&one.state().live), rank);
        });
        simt::block_barrier();
        each_own([&](const Utterance& one) {
            if (one.is_tested()) {
                const Advance<Models, Lattices> advance(one, models_, lattices_);
                advance.advance();
                if (one.is_tested()) {
                    advance.request(requests(round + 1U));
                }
            }
        });
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
