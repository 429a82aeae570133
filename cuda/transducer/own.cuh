// What every block has for itself where blocks exchange by mail: the lanes' hidden states and predictions, and the
// hidden layers of the tests.
#pragma once

#include "transducer/mail.cuh"
#include "transducer/predict.cuh"

namespace arcbeam::transducer {

template <Precision kPrecision>
class Own {
  public:
    using Input = Value<kPrecision>;

    ARCBEAM_DEVICE Own(const LoopParams& params, const Lanes& lanes) : params_(params), lanes_(lanes) {}

    ARCBEAM_DEVICE void take(simt::Carver& carver) {
        const DeviceNetwork& network = params_.network;
        joined_ = carver.take<Input>(params_.most_tests * held_stride(kPrecision, network.output.stride)).data;
        hidden_ = carver.take<Input>(hidden_layers() * params_.num_lanes * hidden_apart()).data;
        predictions_ = carver.take<float>(params_.num_lanes * network.output.stride).data;
    }

    [[nodiscard]] ARCBEAM_DEVICE Input* joined() const { return joined_; }
    [[nodiscard]] ARCBEAM_DEVICE float* predictions() const { return predictions_; }

    [[nodiscard]] ARCBEAM_DEVICE Input* hidden(std::uint32_t layer, std::uint32_t lane) const {
        return hidden_ + (static_cast<std::size_t>(layer) * params_.num_lanes + lane) * hidden_apart();
    }

    // What the launch begins with. A barrier of the block must follow.
    ARCBEAM_DEVICE void load() const {
        if (simt::thread_rank() == 0U) {
            simt::store(lanes_.words.at(BlockWords::kVerdict), 0U);
        }
        simt::block_barrier();
        each_hidden([this](std::uint32_t lane, std::uint32_t layer, std::uint32_t i) {
            simt::store(hidden(layer, lane) + i,
                        simt::load(hidden_of<kPrecision>(params_, lanes_, lane, layer, 0U) + i));
        });
        const std::uint32_t stride = params_.network.output.stride;
        for (std::uint32_t i = simt::thread_rank(); i < params_.num_lanes * stride; i += simt::block_size()) {
            simt::store(predictions_ + i, params_.resumed != 0U ? simt::load(params_.predictions + i) : 0.0F);
        }
    }

    // By one block, for the host and the launch that goes on.
    ARCBEAM_DEVICE void save() const {
        if (params_.network.num_layers > 0U) {
            each_hidden([this](std::uint32_t lane, std::uint32_t layer, std::uint32_t i) {
                simt::store(hidden_of<kPrecision>(params_, lanes_, lane, layer, 0U) + i,
                            simt::load(hidden(layer, lane) + i));
            });
        }
        const std::uint32_t stride = params_.network.output.stride;
        for (std::uint32_t i = simt::thread_rank(); i < params_.num_lanes * stride; i += simt::block_size()) {
            simt::store(params_.predictions + i, simt::load(predictions_ + i));
        }
    }

    // Waits for `values` words of each listed lane: take(lane, i, bits), where from(lane) is a lane's first word.
    // All threads; false if one does not come. Barriers of the block on both sides.
    template <class From, class Take>
    ARCBEAM_DEVICE bool fetch_listed(const Mail& mail, std::uint32_t values, const From& from,
                                     const Take& take) const {
        constexpr int kAtOnce = 4;
        const std::uint32_t count = values * lanes_.listed();
        const std::uint32_t apart = simt::block_size();
        simt::block_barrier();
        for (std::uint32_t first = simt::thread_rank(); first < count; first += std::uint32_t{kAtOnce} * apart) {
            const std::uint32_t here = (count - first + apart - 1U) / apart;
            std::uint32_t bits[kAtOnce];
            const auto lane_of = [&](std::uint32_t k) {
                return simt::load(lanes_.list.at((first + k * apart) / values));
            };
            mail.read<kAtOnce>(
                here, [&](std::uint32_t k) { return from(lane_of(k)) + (first + k * apart) % values; }, bits);
            for (std::uint32_t k = 0U; k < std::uint32_t{kAtOnce} && k < here; ++k) {
                take(lane_of(k), (first + k * apart) % values, bits[k]);
            }
        }
        return mail.all_came();
    }

  private:
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t hidden_layers() const {
        return params_.network.num_layers > 0U ? params_.network.num_layers : 1U;
    }
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t hidden_apart() const {
        return held_stride(kPrecision, params_.network.prediction.stride);
    }
    // Calls take(lane, layer, value) for all hidden states, padding included.
    template <class Take>
    ARCBEAM_DEVICE void each_hidden(const Take& take) const {
        const std::uint32_t stride = params_.network.prediction.stride;
        const std::uint32_t count = params_.num_lanes * hidden_layers() * stride;
        for (std::uint32_t i = simt::thread_rank(); i < count; i += simt::block_size()) {
            const std::uint32_t row = i / stride;
            take(row % params_.num_lanes, row / params_.num_lanes, i - row * stride);
        }
    }

    const LoopParams& params_;
    const Lanes& lanes_;
    Input* joined_ = nullptr;
    Input* hidden_ = nullptr;
    float* predictions_ = nullptr;
};

}  // namespace arcbeam::transducer
