// The loop over labels (Bataev et al. 2024, Algorithm 3), from the first frame to the last without the host. A
// round tests the next frames of every lane that is not at its end, and runs the prediction network of those that
// have found a label; the others go on with their next frames, without waiting for them.
//
// Weights are kept, a share of every matrix in the shared memory of each block, or streamed. What they are
// multiplied by is staged, copied to (or computed in) the shared memory of every block, or read where it is.
//
// Barriers of the grid: with staged inputs one a round, and for rounds that find a label one more a layer and one
// more. Otherwise there is one more a round, and with stateless networks one more a label.
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

template <Precision kPrecision, bool kKept, bool kStaged>
class Loop {
  public:
    using Input = Value<kPrecision>;
    using Rows = std::conditional_t<kKept, SharedRows<kPrecision>, GlobalRows<kPrecision>>;
    using Hidden = HiddenColumns<kPrecision, kStaged>;
    using Joined = PackedColumns<kPrecision>;

    ARCBEAM_DEVICE Loop(const LoopParams& params, simt::Carver& carver, const Lanes& lanes)
        : params_(params),
          lanes_(lanes),
          barrier_(params.arrived, params.status, params.patience, lanes.words.at(BlockWords::kVerdict)) {
        constexpr std::uint32_t kScratch = 2U * tile_values(kPrecision);
        scratch_ = carver.take<float>(kScratch * simt::num_warps()).at(kScratch * simt::warp());
        if constexpr (kPrecision == Precision::float32 && !kKept) {
            staging_ = carver.take<float>(together_bytes() / static_cast<std::uint32_t>(sizeof(float))).data;
        }
        take_weights(carver);
        if constexpr (kStaged) {
            inputs_ = carver.take<Input>(8U).data;  // what is left
        }
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
            if (!test(round)) {
                return;
            }
            if (!lanes_.fetch(params_, keys_of(round), params_.cancelled + round % 2U)) {
                ending = Ending::cancelled;
                break;
            }
            lanes_.follow(params_);
            list_found();
            if (lanes_.listed() > 0U) {
                record_all(params_, lanes_);
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
        Input* const joined = kStaged ? inputs_ : static_cast<Input*>(params_.joined);
        const std::uint32_t apart =
            kStaged ? held_stride(kPrecision, network.output.stride) : network.output.stride;
        join<kPrecision>(params_, lanes_, worker(), workers(), joined, apart);
        if constexpr (kStaged) {
            simt::block_barrier();
        } else if (!barrier_.wait()) {
            return false;
        }
        const Share share = share_of_rows(network.output.rows);
        const OutputStage<Rows> stage{
            params_, output_, share.first, share.count, num_tests, Joined{joined, apart}, keys_of(round), scratch_};
        run_stage<kPrecision, kKept, kStaged>(stage, share.count, num_tests);
        return barrier_.wait();
    }

    // The warps that make inputs: of the block, for itself, or of the grid.
    [[nodiscard]] ARCBEAM_DEVICE static std::uint32_t worker() {
        return kStaged ? simt::warp() : simt::warp() * simt::grid_size() + simt::block_rank();
    }
    [[nodiscard]] ARCBEAM_DEVICE static std::uint32_t workers() {
        return kStaged ? simt::num_warps() : simt::num_warps() * simt::grid_size();
    }

    [[nodiscard]] ARCBEAM_DEVICE static Share share_of_rows(std::uint32_t rows) {
        return kKept ? own_share(rows) : Share{0U, rows};
    }

    // Inputs of a stage: hidden states of the listed lanes, copied to `to`.
    ARCBEAM_DEVICE void copy_hidden(std::uint32_t layer, std::uint32_t ahead, Input* to) const {
        const std::uint32_t stride = params_.network.prediction.stride;
        const std::uint32_t pieces = stride * value_bytes(kPrecision) / static_cast<std::uint32_t>(sizeof(Piece));
        const std::uint32_t apart = held_stride(kPrecision, stride);
        for (std::uint32_t i = simt::thread_rank(); i < lanes_.listed() * pieces; i += simt::block_size()) {
            const std::uint32_t column = i / pieces;
            const std::uint32_t piece = i - column * pieces;
            const Input* const from =
                hidden_of<kPrecision>(params_, lanes_, simt::load(lanes_.list.at(column)), layer, ahead);
            simt::store(reinterpret_cast<Piece*>(to + static_cast<std::size_t>(column) * apart) + piece,
                        simt::load(reinterpret_cast<const Piece*>(from) + piece));
        }
    }

    // One step of the prediction network of the listed lanes.
    ARCBEAM_DEVICE bool predict() {
        const DeviceNetwork& network = params_.network;
        const std::uint32_t listed = lanes_.listed();
        if (network.num_layers == 0U) {
            return true;  // their contexts have moved on, which is all
        }
        const Share share = share_of_rows(network.units);
        const std::size_t area =
            static_cast<std::size_t>(params_.num_lanes) * held_stride(kPrecision, network.prediction.stride);
        for (std::uint32_t layer = 0U; layer < network.num_layers; ++layer) {
            const Input* copied = nullptr;
            const Input* copied_below = nullptr;
            if (kStaged && share.count > 0U) {  // those without a share have time for the records
                copy_hidden(layer, 0U, inputs_);
                if (layer > 0U) {
                    copy_hidden(layer - 1U, 1U, inputs_ + area);
                }
                copied = inputs_;
                copied_below = inputs_ + area;
                simt::block_barrier();
            }
            const LstmStage<Rows, Hidden> stage{params_,
                                                lanes_,
                                                layer,
                                                recurrent(layer),
                                                input(layer),
                                                share.first,
                                                share.count,
                                                listed,
                                                Hidden{params_, lanes_, layer, 0U, copied},
                                                Hidden{params_, lanes_, layer - 1U, 1U, copied_below},
                                                scratch_};
            run_stage<kPrecision, kKept, kStaged>(stage, kGates * share.count, listed);
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
        if (stateless) {
            look_up_all();
        } else if constexpr (kStaged) {
            copy_hidden(network.num_layers - 1U, 0U, inputs_);
        }
        if constexpr (kStaged) {
            simt::block_barrier();
        } else if (stateless && !barrier_.wait()) {
            return false;
        }
        const Share share = share_of_rows(network.prediction.rows);
        const std::uint32_t top = stateless ? 0U : network.num_layers - 1U;
        const PredictionStage<Rows, Hidden> stage{params_,
                                                  lanes_,
                                                  prediction_,
                                                  share.first,
                                                  share.count,
                                                  listed,
                                                  Hidden{params_, lanes_, top, 0U, kStaged ? inputs_ : nullptr},
                                                  scratch_};
        run_stage<kPrecision, kKept, kStaged>(stage, share.count, listed);
        return barrier_.wait();
    }

    // The listed lanes' outputs of a stateless network, with zeros up to the stride.
    ARCBEAM_DEVICE void look_up_all() const {
        const std::uint32_t stride = params_.network.prediction.stride;
        const std::uint32_t parts = stride / kStep;
        const std::uint32_t apart = held_stride(kPrecision, stride);
        for (std::uint32_t part = worker(); part < lanes_.listed() * parts; part += workers()) {
            const std::uint32_t column = part / parts;
            const std::uint32_t lane = simt::load(lanes_.list.at(column));
            Input* const to = kStaged ? inputs_ + static_cast<std::size_t>(column) * apart
                                      : hidden_of<kPrecision>(params_, lanes_, lane, 0U, 0U);
            const std::uint32_t i = (part - column * parts) * kStep + simt::lane();
            simt::store(to + i,
                        as_input<kPrecision>(i < params_.network.units ? look_up(params_, lanes_, lane, i) : 0.0F));
        }
    }

    // Weights

    [[nodiscard]] ARCBEAM_DEVICE Rows recurrent(std::uint32_t layer) const {
        return of_layer(params_.network.layers[layer].recurrent, layer == 0U ? 0U : 2U * layer - 1U);
    }

    [[nodiscard]] ARCBEAM_DEVICE Rows input(std::uint32_t layer) const {
        return of_layer(params_.network.layers[layer].input, 2U * layer);
    }

    // `place`: among the matrices of layers that are kept.
    [[nodiscard]] ARCBEAM_DEVICE Rows of_layer(const DeviceMatrix& matrix, std::uint32_t place) const {
        if constexpr (kKept) {
            Rows rows = layer_weights_;
            rows.values += static_cast<std::size_t>(place) * rows.count * rows.stride;
            return rows;
        } else {
            return streamed(matrix);
        }
    }

    [[nodiscard]] ARCBEAM_DEVICE Rows streamed(const DeviceMatrix& matrix) const {
        return Rows{static_cast<const Input*>(matrix.values), matrix.rows, matrix.stride, matrix.stride, staging_};
    }

    ARCBEAM_DEVICE void take_weights(simt::Carver& carver) {
        const DeviceNetwork& network = params_.network;
        if constexpr (kKept) {
            const std::uint32_t matrices = network.num_layers > 0U ? 2U * network.num_layers - 1U : 0U;
            const std::uint32_t stride = network.prediction.stride;
            const std::uint32_t held = held_rows(kPrecision, kGates * share_of(network.units, simt::grid_size()));
            const std::uint32_t apart = held_stride(kPrecision, stride);
            Input* to = carver.take<Input>(matrices * held * apart).data;
            layer_weights_ = Rows{to, held, stride, apart};
            const Share units = own_share(network.units);
            const Share rows{kGates * units.first, kGates * units.count};
            for (std::uint32_t layer = 0U; layer < network.num_layers; ++layer) {
                if (layer > 0U) {
                    copy_rows(network.layers[layer].recurrent, rows, held, to);
                    to += held * apart;
                    copy_rows(network.layers[layer].input, rows, held, to);
                } else {
                    copy_rows(network.layers[layer].recurrent, rows, held, to);
                }
                to += held * apart;
            }
            prediction_ = take_share(carver, network.prediction);
            output_ = take_share(carver, network.output);
        } else {
            prediction_ = streamed(network.prediction);
            output_ = streamed(network.output);
        }
    }

    ARCBEAM_DEVICE Rows take_share(simt::Carver& carver, const DeviceMatrix& matrix) const {
        const std::uint32_t held = held_rows(kPrecision, share_of(matrix.rows, simt::grid_size()));
        const std::uint32_t apart = held_stride(kPrecision, matrix.stride);
        Input* const to = carver.take<Input>(held * apart).data;
        copy_rows(matrix, own_share(matrix.rows), held, to);
        return Rows{to, held, matrix.stride, apart};
    }

    // Rows of a tile beyond the share are zeros, and computed in vain.
    ARCBEAM_DEVICE static void copy_rows(const DeviceMatrix& matrix, Share share, std::uint32_t held, Input* to) {
        const Input* const from =
            static_cast<const Input*>(matrix.values) + static_cast<std::size_t>(share.first) * matrix.stride;
        const std::uint32_t apart = held_stride(kPrecision, matrix.stride);
        const std::uint32_t pieces =
            matrix.stride * value_bytes(kPrecision) / static_cast<std::uint32_t>(sizeof(Piece));
        for (std::uint32_t i = simt::thread_rank(); i < held * pieces; i += simt::block_size()) {
            const std::uint32_t row = i / pieces;
            const std::uint32_t piece = i - row * pieces;
            const auto* const source =
                reinterpret_cast<const Piece*>(from + static_cast<std::size_t>(row) * matrix.stride) + piece;
            simt::store(reinterpret_cast<Piece*>(to + static_cast<std::size_t>(row) * apart) + piece,
                        row < share.count ? simt::load_readonly(source) : Piece{});
        }
    }

    const LoopParams& params_;
    const Lanes& lanes_;
    GridBarrier barrier_;
    float* scratch_ = nullptr;  // of this warp
    Rows prediction_{};
    Rows output_{};
    Rows layer_weights_{};  // of the first layer's recurrent matrix; the others follow
    float* staging_ = nullptr;
    Input* inputs_ = nullptr;  // in shared memory, if they are staged
};

template <Precision kPrecision, bool kKept, bool kStaged>
ARCBEAM_DEVICE void decode_lanes(const LoopParams& params) {
    simt::Carver carver;
    Lanes lanes;
    lanes.carve(carver, params);
    Loop<kPrecision, kKept, kStaged> loop(params, carver, lanes);
    loop.run();
}

}  // namespace arcbeam::transducer
