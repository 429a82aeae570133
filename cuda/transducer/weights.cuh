// The weights of the loop: either kept, as a share of every matrix in the shared memory of each block, or streamed.
//
// Where weights are kept, the blocks form teams. Each team has all rows and a share of the columns. With more
// teams, a block holds more rows and reads fewer inputs.
#pragma once

#include "transducer/product.cuh"

namespace arcbeam::transducer {

// The first of a block's items, and how many it has.
struct Share {
    std::uint32_t first;
    std::uint32_t count;
};

ARCBEAM_DEVICE Share share_among(std::uint32_t items, std::uint32_t blocks) {
    const std::uint32_t each = share_of(items, blocks);
    const std::uint32_t rank = simt::block_rank() % blocks;
    const std::uint32_t first = each * rank < items ? each * rank : items;
    return {first, items - first < each ? items - first : each};
}

template <Precision kPrecision, bool kKept>
class Weights {
  public:
    using Input = Value<kPrecision>;
    using Rows = std::conditional_t<kKept, SharedRows<kPrecision>, GlobalRows<kPrecision>>;

    ARCBEAM_DEVICE Weights(const LoopParams& params, simt::Carver& carver)
        : network_(params.network), teams_(kKept ? params.teams : 1U) {
        if constexpr (kPrecision == Precision::float32 && !kKept) {
            staging_ = carver.take<float>(together_bytes() / static_cast<std::uint32_t>(sizeof(float))).data;
        }
        take(carver);
    }

    // The rows of a matrix, or the units, that a block computes.
    [[nodiscard]] ARCBEAM_DEVICE Share share_of_rows(std::uint32_t rows) const {
        return kKept ? share_among(rows, team_size()) : Share{0U, rows};
    }

    // The tiles of columns that belong to the block. Blocks that are left over have none.
    [[nodiscard]] ARCBEAM_DEVICE Tiles tiles() const {
        return kKept ? Tiles{simt::block_rank() / team_size(), teams_} : Tiles{0U, 1U};
    }

    [[nodiscard]] ARCBEAM_DEVICE Rows recurrent(std::uint32_t layer) const {
        return of_layer(network_.layers[layer].recurrent, layer == 0U ? 0U : 2U * layer - 1U);
    }

    [[nodiscard]] ARCBEAM_DEVICE Rows input(std::uint32_t layer) const {
        return of_layer(network_.layers[layer].input, 2U * layer);
    }

    [[nodiscard]] ARCBEAM_DEVICE const Rows& prediction() const { return prediction_; }
    [[nodiscard]] ARCBEAM_DEVICE const Rows& output() const { return output_; }

  private:
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t team_size() const { return simt::grid_size() / teams_; }

    // `place` is the matrix's number among the layers that are kept.
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
        return Rows{static_cast<const Input*>(matrix.values),
                    matrix.rows,
                    matrix.stride,
                    matrix.stride,
                    matrix.bias,
                    staging_};
    }

    ARCBEAM_DEVICE void take(simt::Carver& carver) {
        const DeviceNetwork& network = network_;
        if constexpr (kKept) {
            const std::uint32_t matrices = network.num_layers > 0U ? 2U * network.num_layers - 1U : 0U;
            const std::uint32_t stride = network.prediction.stride;
            const std::uint32_t held = held_rows(kPrecision, kGates * share_of(network.units, team_size()));
            const std::uint32_t apart = held_stride(kPrecision, stride);
            Input* to = carver.take<Input>(matrices * held * apart).data;
            layer_weights_ = Rows{to, held, stride, apart, nullptr};
            const Share units = share_among(network.units, team_size());
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
        const std::uint32_t held = held_rows(kPrecision, share_of(matrix.rows, team_size()));
        const std::uint32_t apart = held_stride(kPrecision, matrix.stride);
        Input* const to = carver.take<Input>(held * apart).data;
        const Share share = share_among(matrix.rows, team_size());
        copy_rows(matrix, share, held, to);
        float* const bias = carver.take<float>(held).data;
        if (matrix.bias == nullptr) {
            return Rows{to, held, matrix.stride, apart, nullptr};
        }
        for (std::uint32_t i = simt::thread_rank(); i < share.count; i += simt::block_size()) {
            simt::store(bias + i, simt::load_readonly(matrix.bias + share.first + i));
        }
        return Rows{to, held, matrix.stride, apart, bias};
    }

    // Rows of a tile beyond the share are zeros and are computed in vain.
    ARCBEAM_DEVICE static void copy_rows(const DeviceMatrix& matrix, Share share, std::uint32_t held, Input* to) {
        const Input* const from =
            static_cast<const Input*>(matrix.values) + static_cast<std::size_t>(share.first) * matrix.stride;
        const std::uint32_t apart = held_stride(kPrecision, matrix.stride);
        const std::uint32_t pieces =
            matrix.stride * value_bytes(kPrecision) / static_cast<std::uint32_t>(sizeof(Piece));
        constexpr std::uint32_t kAtOnce = 8U;  // loaded from the device's memory at the same time
        const std::uint32_t count = held * pieces;
        for (std::uint32_t first = simt::thread_rank(); first < count; first += kAtOnce * simt::block_size()) {
            Piece found[kAtOnce];
            for (std::uint32_t k = 0U; k < kAtOnce; ++k) {
                const std::uint32_t row = (first + k * simt::block_size()) / pieces;
                const std::uint32_t piece = (first + k * simt::block_size()) % pieces;
                const auto* const source = reinterpret_cast<const Piece*>(
                    from + static_cast<std::size_t>(row < share.count ? row : 0U) * matrix.stride);
                found[k] = share.count > 0U ? simt::load_readonly(source + piece) : Piece{};
            }
            for (std::uint32_t k = 0U; k < kAtOnce && first + k * simt::block_size() < count; ++k) {
                const std::uint32_t row = (first + k * simt::block_size()) / pieces;
                const std::uint32_t piece = (first + k * simt::block_size()) % pieces;
                simt::store(reinterpret_cast<Piece*>(to + static_cast<std::size_t>(row) * apart) + piece,
                            row < share.count ? found[k] : Piece{});
            }
        }
    }

    const DeviceNetwork& network_;
    std::uint32_t teams_;
    Rows prediction_{};
    Rows output_{};
    Rows layer_weights_{};  // of the first layer's recurrent matrix; the other layers follow
    float* staging_ = nullptr;
};

}  // namespace arcbeam::transducer
