// The loop over labels (Bataev et al. 2024, Algorithm 3), which runs from the first frame to the last without the
// host. A round tests the next frames of every lane that is not at its end, and runs the prediction network of the
// lanes that have found a label. The other lanes go on with their next frames without waiting for those.
//
// Weights are either kept, as a share of every matrix in the shared memory of each block, or streamed. The values
// that they are multiplied by are read from global memory.
//
// A round has two barriers of the grid, or one if every block computes the hidden layers of all tests for itself. A
// round that finds a label has one more for each layer and one more; with stateless networks it has two more.
#pragma once

#include "transducer/barrier.cuh"
#include "transducer/fusion.cuh"
#include "transducer/joint.cuh"
#include "transducer/predict.cuh"
#include "transducer/result.cuh"
#include "transducer/weights.cuh"

namespace arcbeam::transducer {

template <Precision kPrecision, bool kKept, bool kFused>
class Loop {
  public:
    using Input = Value<kPrecision>;
    using Rows = typename Weights<kPrecision, kKept>::Rows;
    using Steps = LaneSteps<kPrecision>;
    using Joined = PackedColumns<kPrecision>;

    ARCBEAM_DEVICE Loop(const LoopParams& params, simt::Carver& carver, const Lanes& lanes,
                        const Labels<kFused>& labels)
        : params_(params),
          lanes_(lanes),
          labels_(labels),
          barrier_(params.arrived, params.status, params.patience, lanes.words.at(BlockWords::kVerdict)),
          scratch_(carver.take<float>(kScratch * simt::num_warps()).at(kScratch * simt::warp())),
          weights_(params, carver) {
        if constexpr (kKept) {
            if (params.joins_alone != 0U) {
                const std::uint32_t apart = held_stride(kPrecision, params.network.output.stride);
                own_joined_ = carver.take<Input>(params.most_tests * apart).data;
            }
        }
    }

    ARCBEAM_DEVICE void run() {
        lanes_.load(params_);
        if constexpr (kFused) {
            labels_.load();
        }
        simt::block_barrier();
        bool begins = params_.resumed == 0U;  // all lanes get their prediction before their first test
        lanes_.make_list([this, begins](std::uint32_t i) {
            return begins && simt::load(lanes_.found.at(i)) != kNowhere && is_good(i);
        });
        Ending ending = Ending::done;
        for (std::uint32_t round = 0U;; ++round) {
            if (begins || lanes_.listed() > 0U) {
                if (!begins) {
                    record_found();
                    fill_labels();
                }
                if (!predict()) {
                    return;
                }
                if (begins) {
                    lanes_.make_list([this](std::uint32_t i) { return is_good(i); });
                    fill_labels();
                    begins = false;
                }
                if (!project_predictions()) {
                    return;
                }
            }
            const Plan plan = lanes_.plan(params_);
            if (plan != Plan::test) {
                ending = plan == Plan::room ? Ending::room : Ending::done;
                break;
            }
            if (!test(round)) {
                return;
            }
            if constexpr (kFused) {
                labels_.fetch(round, lanes_.num_tests());
            }
            if (!lanes_.fetch(params_, keys_of(round), params_.cancelled + round % 2U)) {
                ending = Ending::cancelled;
                break;
            }
            lanes_.make_list([this](std::uint32_t i) {
                lanes_.follow(params_, labels_, i);
                return simt::load(lanes_.found.at(i)) != kNowhere;
            });
        }
        if (simt::block_rank() == 0U) {
            lanes_.save(params_);
            if constexpr (kFused) {
                labels_.save(lanes_);
            }
            if (simt::thread_rank() == 0U) {
                simt::store(params_.ending, static_cast<std::uint32_t>(ending));
            }
        }
    }

  private:
    static constexpr std::uint32_t kScratch = 2U * tile_values(kPrecision);

    [[nodiscard]] ARCBEAM_DEVICE std::uint64_t* keys_of(std::uint32_t round) const {
        return params_.keys + static_cast<std::size_t>(round % kKeyBuffers) * 2U * params_.most_tests;
    }

    [[nodiscard]] ARCBEAM_DEVICE bool is_good(std::uint32_t i) const {
        return simt::load(lanes_.outcome.at(i)) == static_cast<std::uint32_t>(LaneOutcome::decoded);
    }

    ARCBEAM_DEVICE void record_found() const {
        record_all<kFused>(params_, lanes_, [this](std::uint32_t test) {
            return PlainLogits{params_.logits + static_cast<std::size_t>(test) * params_.network.output.rows};
        });
    }

    // What is added to the next labels' logits of the listed lanes, which are known from here on.
    ARCBEAM_DEVICE void fill_labels() const {
        if constexpr (kFused) {
            static_assert(kFillWords <= kScratch);
            labels_.fill(lanes_, scratch_);
        }
    }

    // Runs the tests of this round; their results are in the keys afterwards.
    ARCBEAM_DEVICE bool test(std::uint32_t round) {
        const DeviceNetwork& network = params_.network;
        const std::uint32_t num_tests = lanes_.num_tests();
        if (simt::block_rank() == 0U) {
            std::uint64_t* const next = keys_of(round + 1U);
            for (std::uint32_t i = simt::thread_rank(); i < 2U * params_.most_tests; i += simt::block_size()) {
                simt::store(next + i, std::uint64_t{0});
            }
            if constexpr (kFused) {
                labels_.clear_keys(round + 1U);
            }
            if (simt::thread_rank() == 0U) {
                simt::store(params_.cancelled + round % 2U,
                            simt::load_relaxed<simt::Scope::system>(params_.cancel));
            }
        }
        const bool alone = kKept && params_.joins_alone != 0U;
        Input* const joined = alone ? own_joined_ : static_cast<Input*>(params_.joined);
        const std::uint32_t apart = alone ? held_stride(kPrecision, network.output.stride) : network.output.stride;
        join<kPrecision>(params_, lanes_, params_.predictions, alone ? simt::warp() : worker(),
                         alone ? simt::num_warps() : workers(), joined, apart);
        if (alone) {
            simt::block_barrier();
        } else if (!barrier_.wait()) {
            return false;
        }
        const Share share = weights_.share_of_rows(network.output.rows);
        std::uint64_t* label_keys = nullptr;
        if constexpr (kFused) {
            label_keys = labels_.keys_of(round);
        }
        const OutputStage<Rows, Labels<kFused>> stage{params_,
                                                      lanes_,
                                                      labels_,
                                                      label_keys,
                                                      weights_.output(),
                                                      share.first,
                                                      share.count,
                                                      num_tests,
                                                      Joined{joined, apart},
                                                      keys_of(round),
                                                      scratch_};
        run_stage<kPrecision, kKept>(stage, share.count, num_tests, weights_.tiles());
        return barrier_.wait();
    }

    [[nodiscard]] ARCBEAM_DEVICE Steps steps() const { return {params_, lanes_}; }

    // Runs one step of the prediction network for the listed lanes.
    ARCBEAM_DEVICE bool predict() {
        const DeviceNetwork& network = params_.network;
        const std::uint32_t listed = lanes_.listed();
        if (network.num_layers == 0U || listed == 0U) {
            return true;  // contexts have moved on, and nothing else is needed
        }
        const Share share = weights_.share_of_rows(network.units);
        for (std::uint32_t layer = 0U; layer < network.num_layers; ++layer) {
            const LstmStage<Rows, Steps> stage{
                network,     steps(), layer,   weights_.recurrent(layer), weights_.input(layer), share.first,
                share.count, listed,  scratch_};
            run_stage<kPrecision, kKept>(stage, kGates * share.count, listed, weights_.tiles());
            if (!barrier_.wait()) {
                return false;
            }
        }
        for (std::uint32_t i = simt::thread_rank(); i < listed; i += simt::block_size()) {
            const std::uint32_t lane = simt::load(lanes_.list.at(i));
            simt::store(lanes_.steps.at(lane), simt::load(lanes_.steps.at(lane)) + 1U);
        }
        simt::block_barrier();
        return true;
    }

    // Computes the listed lanes' part of the joint network's hidden layer.
    ARCBEAM_DEVICE bool project_predictions() {
        const DeviceNetwork& network = params_.network;
        const std::uint32_t listed = lanes_.listed();
        if (listed == 0U) {
            return true;
        }
        const bool stateless = network.num_layers == 0U;
        if (stateless) {
            look_up_all<kPrecision>(network, steps(), 0U);
            if (!barrier_.wait()) {
                return false;
            }
        }
        const Share share = weights_.share_of_rows(network.prediction.rows);
        const std::uint32_t top = stateless ? 0U : network.num_layers - 1U;
        const PredictionStage<Rows, Steps> stage{steps(), top,     weights_.prediction(), share.first, share.count,
                                                 listed,  scratch_};
        run_stage<kPrecision, kKept>(stage, share.count, listed, weights_.tiles());
        return barrier_.wait();
    }

    const LoopParams& params_;
    const Lanes& lanes_;
    const Labels<kFused>& labels_;
    GridBarrier barrier_;
    float* scratch_;  // of this warp
    Weights<kPrecision, kKept> weights_;
    Input* own_joined_ = nullptr;  // in shared memory, if blocks join alone
};

template <Precision kPrecision, bool kKept>
ARCBEAM_DEVICE void decode_lanes(const LoopParams& params) {
    simt::Carver carver;
    Lanes lanes;
    lanes.carve(carver, params);
    const PlainLabels labels;
    Loop<kPrecision, kKept, false> loop(params, carver, lanes, labels);
    loop.run();
}

template <Precision kPrecision, bool kKept>
ARCBEAM_DEVICE void decode_fused_lanes(const FusedLoopParams& params) {
    simt::Carver carver;
    Lanes lanes;
    lanes.carve(carver, params.loop);
    FusedLabels labels{&params.loop, &params.fusion, {}, {}};
    labels.carve(carver);
    Loop<kPrecision, kKept, true> loop(params.loop, carver, lanes, labels);
    loop.run();
}

}  // namespace arcbeam::transducer
