// Stage predict: runs the prediction network after a lane's last token, and computes its part of the joint
// network's hidden layer.
//
// in    lanes: list, token or context; cell; hidden, in buffer steps % 2
// out   cell; hidden, in the other buffer; predictions
#pragma once

#include "transducer/lanes.cuh"
#include "transducer/product.cuh"
#include "transducer/workers.cuh"

namespace arcbeam::transducer {

// The steps of lanes that have found a label. A column is a listed lane, whose hidden states are in two buffers
// that take turns.
template <Precision kPrecision>
struct LaneSteps {
    using Input = Value<kPrecision>;
    const LoopParams& params;
    const Lanes& lanes;

    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t count() const { return lanes.listed(); }
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t token(std::uint32_t column) const {
        return simt::load(lanes.token.at(lane(column)));
    }
    [[nodiscard]] ARCBEAM_DEVICE std::int32_t context(std::uint32_t column, std::uint32_t place) const {
        return simt::load(lanes.context.at(lane(column) * params.network.context + place));
    }
    // The hidden state of a layer, `ahead` steps from the last one.
    [[nodiscard]] ARCBEAM_DEVICE Input* hidden(std::uint32_t column, std::uint32_t layer,
                                               std::uint32_t ahead) const {
        const std::uint32_t layers = params.network.num_layers > 0U ? params.network.num_layers : 1U;
        const std::uint32_t of = lane(column);
        const std::size_t buffer = (simt::load(lanes.steps.at(of)) + ahead) % 2U;
        const std::size_t row = (buffer * params.num_lanes + of) * layers + layer;
        return static_cast<Input*>(params.hidden) + row * params.network.prediction.stride;
    }
    [[nodiscard]] ARCBEAM_DEVICE float* cell(std::uint32_t column, std::uint32_t layer, std::uint32_t) const {
        const std::size_t row = static_cast<std::size_t>(lane(column)) * params.network.num_layers + layer;
        return params.cell + row * params.network.prediction.stride;
    }
    // Its part of the joint network's hidden layer.
    [[nodiscard]] ARCBEAM_DEVICE float* prediction(std::uint32_t column) const {
        return params.predictions + static_cast<std::size_t>(lane(column)) * params.network.output.stride;
    }

  private:
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t lane(std::uint32_t column) const {
        return simt::load(lanes.list.at(column));
    }
};

// Hidden states of a layer, of all columns.
template <class Steps>
struct HiddenColumns {
    Steps steps;
    std::uint32_t layer;
    std::uint32_t ahead;

    ARCBEAM_DEVICE const typename Steps::Input* operator()(std::uint32_t column) const {
        return steps.hidden(column, layer, ahead);
    }
};

// One value of a stateless network's output.
template <class Steps>
ARCBEAM_DEVICE float look_up(const DeviceNetwork& network, const Steps& steps, std::uint32_t column,
                             std::uint32_t unit) {
    float sum = 0.0F;
    for (std::uint32_t place = 0U; place < network.context; ++place) {
        const std::int32_t token = steps.context(column, place);
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

// The outputs of a stateless network, with zeros up to the stride, as hidden states of layer 0, by the warps of the
// grid.
template <Precision kPrecision, class Steps>
ARCBEAM_DEVICE void look_up_all(const DeviceNetwork& network, const Steps& steps, std::uint32_t ahead) {
    const std::uint32_t parts = network.prediction.stride / kStep;
    for (std::uint32_t part = worker(); part < steps.count() * parts; part += workers()) {
        const std::uint32_t column = part / parts;
        const std::uint32_t i = (part - column * parts) * kStep + simt::warp_thread();
        const float value = i < network.units ? look_up(network, steps, column, i) : 0.0F;
        simt::store(steps.hidden(column, 0U, ahead) + i, as_input<kPrecision>(value));
    }
}

template <class Rows, class Steps>
struct LstmStage {
    const DeviceNetwork& network;
    Steps steps;
    std::uint32_t layer;
    Rows recurrent;  // starting at unit `offset`
    Rows input;
    std::uint32_t offset;
    std::uint32_t num_units;  // of this block, or of the layer
    std::uint32_t num_columns;
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
                ahead[k] = fetch(column, offset + local);
            }
        }
        const HiddenColumns<Steps> before{steps, layer, 0U};
        multiply<kRows, kColumns>(recurrent, first_row, before, first_column, num_columns, scratch);
        if (layer > 0U) {
            const HiddenColumns<Steps> below{steps, layer - 1U, 1U};
            multiply<kRows, kColumns>(input, first_row, below, first_column, num_columns, from_below);
        }
        simt::warp_sync(simt::kAllThreads);
        for (std::uint32_t k = 0U; k < kSteps; ++k) {
            const std::uint32_t i = k * simt::kWarpSize + simt::warp_thread();
            const std::uint32_t local = first_row / kGates + i / kLanes;
            const std::uint32_t column = first_column + i % kLanes;
            if (i < kUnits * kLanes && local < num_units && column < num_columns) {
                step(column, offset + local, ahead[k], (i / kLanes) * kGates * kLanes + i % kLanes, kLanes);
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

    [[nodiscard]] ARCBEAM_DEVICE Ahead fetch(std::uint32_t column, std::uint32_t unit) const {
        const std::size_t token = steps.token(column);
        const float* const added =
            layer > 0U ? network.layers[layer].input.bias : network.tables + token * kGates * network.units;
        const Piece piece = simt::load_readonly(reinterpret_cast<const Piece*>(added + kGates * unit));
        Ahead ahead;
        for (std::uint32_t g = 0U; g < kGates; ++g) {
            ahead.added[g] = from_bits(piece.words[g]);
        }
        ahead.cell = simt::load(steps.cell(column, layer, 0U) + unit);
        return ahead;
    }

    // Computes a unit of a lane; the sums of its gates are `apart` from each other in the scratch memory.
    ARCBEAM_DEVICE void step(std::uint32_t column, std::uint32_t unit, const Ahead& ahead, std::uint32_t at,
                             std::uint32_t apart) const {
        float gates[kGates];
        for (std::uint32_t g = 0U; g < kGates; ++g) {
            const float from_input =
                layer > 0U ? simt::load(scratch + tile_values(Rows::kPrecision) + at + g * apart) + ahead.added[g]
                           : ahead.added[g];
            gates[g] = from_input + simt::load(scratch + at + g * apart);
        }
        const float next = lstm_cell(gates[0], gates[1], gates[2], ahead.cell);
        simt::store(steps.cell(column, layer, 1U) + unit, next);
        const auto hidden = as_input<Rows::kPrecision>(lstm_hidden(gates[3], next));
        simt::store(steps.hidden(column, layer, 1U) + unit, hidden);
    }
};

template <class Rows, class Steps>
struct PredictionStage {
    Steps steps;
    std::uint32_t layer;  // the last one
    Rows rows;            // starting at row `offset`
    std::uint32_t offset;
    std::uint32_t num_rows;
    std::uint32_t num_columns;
    float* scratch;

    template <int kRows, int kColumns>
    ARCBEAM_DEVICE void tile(std::uint32_t first_row, std::uint32_t first_column) const {
        constexpr auto kLanes = static_cast<std::uint32_t>(kColumns);
        const HiddenColumns<Steps> hidden{steps, layer, 0U};
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
                simt::store(steps.prediction(column) + row, sum);
            }
        }
        simt::warp_sync(simt::kAllThreads);
    }
};

}  // namespace arcbeam::transducer
