// Stage predict: runs the prediction network after a lane's last token, and computes its part of the joint
// network's hidden layer.
//
// in    lanes: list, token or context; cell; hidden, in buffer steps % 2
// out   cell; hidden, in the other buffer; predictions
#pragma once

#include "transducer/lanes.cuh"
#include "transducer/product.cuh"

namespace arcbeam::transducer {

// A lane's hidden state of a layer, `ahead` steps from its last one.
template <Precision kPrecision>
ARCBEAM_DEVICE Value<kPrecision>* hidden_of(const LoopParams& params, const Lanes& lanes, std::uint32_t lane,
                                            std::uint32_t layer, std::uint32_t ahead) {
    const std::uint32_t layers = params.network.num_layers > 0U ? params.network.num_layers : 1U;
    const std::size_t buffer = (simt::load(lanes.steps.at(lane)) + ahead) % 2U;
    const std::size_t row = (buffer * params.num_lanes + lane) * layers + layer;
    return static_cast<Value<kPrecision>*>(params.hidden) + row * params.network.prediction.stride;
}

// Hidden states of the listed lanes.
template <Precision kPrecision>
struct HiddenColumns {
    const LoopParams& params;
    const Lanes& lanes;
    std::uint32_t layer;
    std::uint32_t ahead;

    ARCBEAM_DEVICE const Value<kPrecision>* operator()(std::uint32_t column) const {
        return hidden_of<kPrecision>(params, lanes, simt::load(lanes.list.at(column)), layer, ahead);
    }
};

// One value of a stateless network's output.
ARCBEAM_DEVICE float look_up(const LoopParams& params, const Lanes& lanes, std::uint32_t lane, std::uint32_t unit) {
    const DeviceNetwork& network = params.network;
    float sum = 0.0F;
    for (std::uint32_t place = 0U; place < network.context; ++place) {
        const std::int32_t token = simt::load(lanes.context.at(lane * network.context + place));
        if (token >= 0) {
            const std::size_t row =
                static_cast<std::size_t>(place) * network.tokens + static_cast<std::size_t>(token);
            sum = sum + simt::load_readonly(network.tables + row * network.units + unit);
        }
    }
    if (network.convolution_bias != nullptr) {
        sum = sum + simt::load_readonly(network.convolution_bias + unit);
    }
    return network.relu != 0U ? relu_of(sum) : sum;
}

template <class Rows, class Hidden>
struct LstmStage {
    const LoopParams& params;
    const Lanes& lanes;
    std::uint32_t layer;
    Rows recurrent;  // starting at unit `offset`
    Rows input;
    std::uint32_t offset;
    std::uint32_t num_units;  // of this block, or of the layer
    std::uint32_t num_columns;
    Hidden before;  // of this layer
    Hidden below;   // of the layer below, one step ahead
    float* scratch;

    template <int kRows, int kColumns>
    ARCBEAM_DEVICE void tile(std::uint32_t first_row, std::uint32_t first_column) const {
        constexpr auto kLanes = static_cast<std::uint32_t>(kColumns);
        constexpr std::uint32_t kUnits = static_cast<std::uint32_t>(kRows) / kGates;
        constexpr std::uint32_t kSteps = (kUnits * kLanes + simt::kWarpSize - 1U) / simt::kWarpSize;
        float* const from_below = scratch + tile_values(Rows::kPrecision);
        Ahead ahead[kSteps];
        for (std::uint32_t k = 0U; k < kSteps; ++k) {
            const std::uint32_t i = k * simt::kWarpSize + simt::warp_thread();
            const std::uint32_t local = first_row / kGates + i / kLanes;
            const std::uint32_t column = first_column + i % kLanes;
            if (i < kUnits * kLanes && local < num_units && column < num_columns) {
                ahead[k] = fetch(simt::load(lanes.list.at(column)), offset + local);
            }
        }
        multiply<kRows, kColumns>(recurrent, first_row, before, first_column, num_columns, scratch);
        if (layer > 0U) {
            multiply<kRows, kColumns>(input, first_row, below, first_column, num_columns, from_below);
        }
        simt::warp_sync(simt::kAllThreads);
        for (std::uint32_t k = 0U; k < kSteps; ++k) {
            const std::uint32_t i = k * simt::kWarpSize + simt::warp_thread();
            const std::uint32_t local = first_row / kGates + i / kLanes;
            const std::uint32_t column = first_column + i % kLanes;
            if (i < kUnits * kLanes && local < num_units && column < num_columns) {
                step(simt::load(lanes.list.at(column)), offset + local, ahead[k],
                     (i / kLanes) * kGates * kLanes + i % kLanes, kLanes);
            }
        }
        simt::warp_sync(simt::kAllThreads);
    }

  private:
    // The values that a step needs in addition to the products, fetched before the products are computed.
    struct Ahead {
        float added[kGates];  // to the product with the layer below; in the first layer it replaces that product
        float cell;
    };

    [[nodiscard]] ARCBEAM_DEVICE float* cell_of(std::uint32_t lane, std::uint32_t unit) const {
        const std::size_t row = static_cast<std::size_t>(lane) * params.network.num_layers + layer;
        return params.cell + row * params.network.prediction.stride + unit;
    }

    [[nodiscard]] ARCBEAM_DEVICE Ahead fetch(std::uint32_t lane, std::uint32_t unit) const {
        const DeviceNetwork& network = params.network;
        const std::size_t token = simt::load(lanes.token.at(lane));
        const float* const added =
            layer > 0U ? network.layers[layer].input.bias : network.tables + token * kGates * network.units;
        const Piece piece = simt::load_readonly(reinterpret_cast<const Piece*>(added + kGates * unit));
        Ahead ahead;
        for (std::uint32_t g = 0U; g < kGates; ++g) {
            ahead.added[g] = from_bits(piece.words[g]);
        }
        ahead.cell = simt::load(cell_of(lane, unit));
        return ahead;
    }

    // Computes a unit of a lane; the sums of its gates are `apart` from each other in the scratch memory.
    ARCBEAM_DEVICE void step(std::uint32_t lane, std::uint32_t unit, const Ahead& ahead, std::uint32_t at,
                             std::uint32_t apart) const {
        float gates[kGates];
        for (std::uint32_t g = 0U; g < kGates; ++g) {
            const float from_input =
                layer > 0U ? simt::load(scratch + tile_values(Rows::kPrecision) + at + g * apart) + ahead.added[g]
                           : ahead.added[g];
            gates[g] = from_input + simt::load(scratch + at + g * apart);
        }
        const float next = lstm_cell(gates[0], gates[1], gates[2], ahead.cell);
        simt::store(cell_of(lane, unit), next);
        const auto hidden = as_input<Rows::kPrecision>(lstm_hidden(gates[3], next));
        simt::store(hidden_of<Rows::kPrecision>(params, lanes, lane, layer, 1U) + unit, hidden);
    }
};

template <class Rows, class Hidden>
struct PredictionStage {
    const LoopParams& params;
    const Lanes& lanes;
    Rows rows;  // starting at row `offset`
    std::uint32_t offset;
    std::uint32_t num_rows;
    std::uint32_t num_columns;
    Hidden hidden;
    float* scratch;

    template <int kRows, int kColumns>
    ARCBEAM_DEVICE void tile(std::uint32_t first_row, std::uint32_t first_column) const {
        constexpr auto kLanes = static_cast<std::uint32_t>(kColumns);
        multiply<kRows, kColumns>(rows, first_row, hidden, first_column, num_columns, scratch);
        simt::warp_sync(simt::kAllThreads);
        for (std::uint32_t i = simt::warp_thread(); i < static_cast<std::uint32_t>(kRows * kColumns);
             i += simt::kWarpSize) {
            const std::uint32_t local = first_row + i / kLanes;
            const std::uint32_t column = first_column + i % kLanes;
            if (local < num_rows && column < num_columns) {
                const std::uint32_t row = offset + local;
                float sum = simt::load(scratch + i);
                if (rows.bias != nullptr) {
                    sum = sum + Rows::load(rows.bias + local);
                }
                const std::size_t lane = simt::load(lanes.list.at(column));
                simt::store(params.predictions + lane * params.network.output.stride + row, sum);
            }
        }
        simt::warp_sync(simt::kAllThreads);
    }
};

}  // namespace arcbeam::transducer
