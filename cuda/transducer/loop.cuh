// The loop over labels (Bataev et al. 2024, Algorithm 3), from the first frame to the last without the host. A
// round tests the next frames of every lane that is not at its end, and runs the prediction network of those that
// have found a label; the others go on with their next frames, without waiting for them.
//
// Barriers of the grid: with stationary weights one a round, and for rounds that find a label one more a layer and
// one more. Weights that are streamed take one more a round, and stateless networks one more a label.
#pragma once

#include "transducer/barrier.cuh"
#include "transducer/joint.cuh"
#include "transducer/predict.cuh"
#include "transducer/result.cuh"

namespace arcbeam::transducer {

// The first of a block's items, and how many it has.
struct Share {
    std::uint32_t first;
    std::uint32_t count;
};

ARCBEAM_DEVICE Share own_share(std::uint32_t items) {
    const std::uint32_t each = share_of(items, simt::grid_size());
    const std::uint32_t first = each * simt::block_rank() < items ? each * simt::block_rank() : items;
    return {first, items - first < each ? items - first : each};
}

template <bool kStationary>
class Loop {
  public:
    using Rows = std::conditional_t<kStationary, SharedRows, GlobalRows>;

    ARCBEAM_DEVICE Loop(const LoopParams& params, simt::Carver& carver, const Lanes& lanes)
        : params_(params),
          lanes_(lanes),
          barrier_(params.arrived, params.status, params.patience, lanes.words.at(BlockWords::kVerdict)) {
        scratch_ = carver.take<float>(2U * kTileValues * simt::num_warps()).at(2U * kTileValues * simt::warp());
        take_weights(carver);
    }

    ARCBEAM_DEVICE void run() {
        lanes_.load(params_);
        if (!prepare()) {
            return;
        }
        Ending ending = Ending::done;
        for (std::uint32_t round = 0U;; ++round) {
            const Plan plan = lanes_.plan(params_);
            if (plan != Plan::test) {
                ending = plan == Plan::room ? Ending::room : Ending::done;
                break;
            }
            const std::uint64_t* const keys = keys_of(round);
            if (!test(round)) {
                return;
            }
            if (simt::load(params_.cancelled + round % 2U) != 0U) {
                ending = Ending::cancelled;
                break;
            }
            lanes_.follow(params_, keys);
            list_found();
            if (lanes_.listed() > 0U) {
                record_all(params_, lanes_, keys);
                if (!predict() || !project_predictions()) {
                    return;
                }
            }
        }
        if (simt::block_rank() == 0U) {
            lanes_.save(params_);
            if (simt::thread_rank() == 0U) {
                simt::store(params_.ending, static_cast<std::uint32_t>(ending));
            }
        }
    }

  private:
    [[nodiscard]] ARCBEAM_DEVICE std::uint64_t* keys_of(std::uint32_t round) const {
        return params_.keys + static_cast<std::size_t>(round % kKeyBuffers) * 2U * params_.most_tests;
    }

    ARCBEAM_DEVICE void list_found() const {
        lanes_.make_list([this](std::uint32_t i) { return simt::load(lanes_.found.at(i)) != kNowhere; });
    }

    // Every lane's prediction before its first test.
    ARCBEAM_DEVICE bool prepare() {
        simt::block_barrier();
        if (params_.resumed != 0U) {
            return true;
        }
        if (params_.network.num_layers > 0U) {
            lanes_.make_list(
                [this](std::uint32_t i) { return simt::load(lanes_.found.at(i)) != kNowhere && is_good(i); });
            if (lanes_.listed() > 0U && !predict()) {
                return false;
            }
        }
        lanes_.make_list([this](std::uint32_t i) { return is_good(i); });
        return lanes_.listed() == 0U || project_predictions();
    }

    [[nodiscard]] ARCBEAM_DEVICE bool is_good(std::uint32_t i) const {
        return simt::load(lanes_.outcome.at(i)) == static_cast<std::uint32_t>(LaneOutcome::decoded);
    }

    ARCBEAM_DEVICE bool test(std::uint32_t round) {
        const DeviceNetwork& network = params_.network;
        const std::uint32_t num_tests = lanes_.num_tests();
        if (simt::block_rank() == 0U) {
            std::uint64_t* const next = keys_of(round + 1U);
            for (std::uint32_t i = simt::thread_rank(); i < 2U * params_.most_tests; i += simt::block_size()) {
                simt::store(next + i, std::uint64_t{0});
            }
            if (simt::thread_rank() == 0U) {
                simt::store(params_.cancelled + round % 2U,
                            simt::load_relaxed<simt::Scope::system>(params_.cancel));
            }
        }
        float* const joined = kStationary ? inputs_ : params_.joined;
        const std::uint32_t workers = kStationary ? simt::num_warps() : simt::num_warps() * simt::grid_size();
        const std::uint32_t worker =
            kStationary ? simt::warp() : simt::warp() * simt::grid_size() + simt::block_rank();
        for (std::uint32_t i = worker; i < num_tests; i += workers) {
            join(params_, lanes_, i, joined + static_cast<std::size_t>(i) * network.output.stride);
        }
        if constexpr (kStationary) {
            simt::block_barrier();
        } else if (!barrier_.wait()) {
            return false;
        }
        const Share share = kStationary ? own_share(network.output.rows) : Share{0U, network.output.rows};
        const OutputStage<Rows> stage{params_,        output_,   share.first,
                                      share.count,    num_tests, PackedColumns{joined, network.output.stride},
                                      keys_of(round), scratch_};
        run_stage<kStationary>(stage, share.count, num_tests);
        return barrier_.wait();
    }

    // Inputs of a stage with stationary weights: hidden states of the listed lanes, copied to `to`.
    ARCBEAM_DEVICE void copy_hidden(std::uint32_t layer, std::uint32_t ahead, float* to) const {
        const std::uint32_t stride = params_.network.prediction.stride;
        for (std::uint32_t column = simt::warp(); column < lanes_.listed(); column += simt::num_warps()) {
            const float* const from = hidden_of(params_, lanes_, simt::load(lanes_.list.at(column)), layer, ahead);
            for (std::uint32_t i = simt::lane(); i < stride; i += kStep) {
                simt::store(to + static_cast<std::size_t>(column) * stride + i, simt::load(from + i));
            }
        }
    }

    // One step of the prediction network of the listed lanes.
    ARCBEAM_DEVICE bool predict() {
        const DeviceNetwork& network = params_.network;
        const std::uint32_t listed = lanes_.listed();
        if (network.num_layers == 0U) {
            return true;  // their contexts have moved on, which is all
        }
        const Share share = kStationary ? own_share(network.units) : Share{0U, network.units};
        const std::size_t area = static_cast<std::size_t>(params_.num_lanes) * network.prediction.stride;
        for (std::uint32_t layer = 0U; layer < network.num_layers; ++layer) {
            const float* copied = nullptr;
            const float* copied_below = nullptr;
            if constexpr (kStationary) {
                copy_hidden(layer, 0U, inputs_);
                if (layer > 0U) {
                    copy_hidden(layer - 1U, 1U, inputs_ + area);
                }
                copied = inputs_;
                copied_below = inputs_ + area;
                simt::block_barrier();
            }
            const LstmStage<Rows> stage{params_,
                                        lanes_,
                                        layer,
                                        recurrent(layer),
                                        input(layer),
                                        share.first,
                                        share.count,
                                        listed,
                                        HiddenColumns{params_, lanes_, layer, 0U, copied},
                                        HiddenColumns{params_, lanes_, layer - 1U, 1U, copied_below},
                                        scratch_};
            run_stage<kStationary>(stage, kGates * share.count, listed);
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

    // The listed lanes' part of the joint network's hidden layer.
    ARCBEAM_DEVICE bool project_predictions() {
        const DeviceNetwork& network = params_.network;
        const std::uint32_t listed = lanes_.listed();
        const bool stateless = network.num_layers == 0U;
        if constexpr (kStationary) {
            if (stateless) {
                look_up_all(simt::warp(), simt::num_warps());
            } else {
                copy_hidden(network.num_layers - 1U, 0U, inputs_);
            }
            simt::block_barrier();
        } else if (stateless) {
            look_up_all(simt::warp() * simt::grid_size() + simt::block_rank(),
                        simt::num_warps() * simt::grid_size());
            if (!barrier_.wait()) {
                return false;
            }
        }
        const Share share = kStationary ? own_share(network.prediction.rows) : Share{0U, network.prediction.rows};
        const PredictionStage<Rows> stage{params_,
                                          lanes_,
                                          prediction_,
                                          share.first,
                                          share.count,
                                          listed,
                                          HiddenColumns{params_, lanes_, stateless ? 0U : network.num_layers - 1U,
                                                        0U, kStationary ? inputs_ : nullptr},
                                          scratch_};
        run_stage<kStationary>(stage, share.count, listed);
        return barrier_.wait();
    }

    // The listed lanes' outputs of a stateless network, with zeros up to the stride.
    ARCBEAM_DEVICE void look_up_all(std::uint32_t worker, std::uint32_t workers) const {
        const std::uint32_t stride = params_.network.prediction.stride;
        for (std::uint32_t column = worker; column < lanes_.listed(); column += workers) {
            const std::uint32_t lane = simt::load(lanes_.list.at(column));
            float* const to = kStationary ? inputs_ + static_cast<std::size_t>(column) * stride
                                          : hidden_of(params_, lanes_, lane, 0U, 0U);
            for (std::uint32_t i = simt::lane(); i < stride; i += kStep) {
                simt::store(to + i, i < params_.network.units ? look_up(params_, lanes_, lane, i) : 0.0F);
            }
        }
    }

    // Weights

    [[nodiscard]] ARCBEAM_DEVICE Rows recurrent(std::uint32_t layer) const {
        if constexpr (kStationary) {
            return Rows{layer_weights_ + (layer == 0U ? 0U : 2U * layer - 1U) * layer_size_,
                        params_.network.prediction.stride};
        } else {
            return Rows{params_.network.layers[layer].recurrent.values, params_.network.prediction.stride};
        }
    }

    [[nodiscard]] ARCBEAM_DEVICE Rows input(std::uint32_t layer) const {
        if constexpr (kStationary) {
            return Rows{layer_weights_ + 2U * layer * layer_size_, params_.network.prediction.stride};
        } else {
            return Rows{params_.network.layers[layer].input.values, params_.network.prediction.stride};
        }
    }

    ARCBEAM_DEVICE void take_weights(simt::Carver& carver) {
        const DeviceNetwork& network = params_.network;
        if constexpr (kStationary) {
            const std::uint32_t matrices = network.num_layers > 0U ? 2U * network.num_layers - 1U : 0U;
            const Share units = own_share(network.units);
            layer_size_ = static_cast<std::size_t>(kGates) * share_of(network.units, simt::grid_size()) *
                          network.prediction.stride;
            layer_weights_ = carver.take<float>(matrices * static_cast<std::uint32_t>(layer_size_)).data;
            for (std::uint32_t layer = 0U; layer < network.num_layers; ++layer) {
                const std::uint32_t first = kGates * units.first;
                copy_rows(network.layers[layer].recurrent, first, kGates * units.count,
                          layer_weights_ + (layer == 0U ? 0U : 2U * layer - 1U) * layer_size_);
                if (layer > 0U) {
                    copy_rows(network.layers[layer].input, first, kGates * units.count,
                              layer_weights_ + 2U * layer * layer_size_);
                }
            }
            prediction_ = take_share(carver, network.prediction);
            output_ = take_share(carver, network.output);
            inputs_ = reinterpret_cast<float*>(carver.take<float>(4U).data);  // what is left
        } else {
            prediction_ = Rows{network.prediction.values, network.prediction.stride};
            output_ = Rows{network.output.values, network.output.stride};
        }
    }

    ARCBEAM_DEVICE Rows take_share(simt::Carver& carver, const DeviceMatrix& matrix) const {
        const std::uint32_t held = held_rows(share_of(matrix.rows, simt::grid_size()));
        const Share share = own_share(matrix.rows);
        float* const to = carver.take<float>(held * matrix.stride).data;
        copy_rows(matrix, share.first, share.count, to);
        // Rows of a tile beyond the share are computed in vain.
        for (std::uint32_t i = share.count * matrix.stride + simt::thread_rank(); i < held * matrix.stride;
             i += simt::block_size()) {
            simt::store(to + i, 0.0F);
        }
        return Rows{to, matrix.stride};
    }

    ARCBEAM_DEVICE static void copy_rows(const DeviceMatrix& matrix, std::uint32_t first, std::uint32_t count,
                                         float* to) {
        const float* const from = matrix.values + static_cast<std::size_t>(first) * matrix.stride;
        for (std::uint32_t i = simt::thread_rank(); i < count * matrix.stride; i += simt::block_size()) {
            simt::store(to + i, simt::load_readonly(from + i));
        }
    }

    const LoopParams& params_;
    const Lanes& lanes_;
    GridBarrier barrier_;
    float* scratch_ = nullptr;  // of this warp
    Rows prediction_{};
    Rows output_{};
    float* layer_weights_ = nullptr;
    std::size_t layer_size_ = 0U;
    float* inputs_ = nullptr;  // in shared memory, with stationary weights
};

template <bool kStationary>
ARCBEAM_DEVICE void decode_lanes(const LoopParams& params) {
    simt::Carver carver;
    Lanes lanes;
    lanes.carve(carver, params);
    Loop<kStationary> loop(params, carver, lanes);
    loop.run();
}

}  // namespace arcbeam::transducer
