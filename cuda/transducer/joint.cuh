// Stage joint: the joint network on the frames that are tested, and the best token and duration of each.
//
// in    lanes: tests; projected, predictions
// out   logits [test][output.rows]; keys: for each test the rank_key of the best token, and of the best duration;
// where
//       logits are fused, also of the best fused label
//
// Keys are raised by atomics, so they begin at 0. There are three buffers of them. A round clears the buffer of the
// next round, which no thread has read since the last barrier.
#pragma once

#include "transducer/fusion.cuh"
#include "transducer/lanes.cuh"
#include "transducer/product.cuh"

namespace arcbeam::transducer {

ARCBEAM_DEVICE float activate(JointActivation activation, float x) {
    switch (activation) {
        case JointActivation::tanh:
            return tanh_of(x);
        case JointActivation::relu:
            return relu_of(x);
        default:
            return sigmoid_of(x);
    }
}

// Four values that a matrix will be multiplied by, at an address aligned to all four.
template <Precision kPrecision>
ARCBEAM_DEVICE void store_inputs(Value<kPrecision>* to, const float* values) {
    if constexpr (kPrecision == Precision::float32) {
        simt::store(reinterpret_cast<Piece*>(to),
                    Piece{{bits_of(values[0]), bits_of(values[1]), bits_of(values[2]), bits_of(values[3])}});
    } else {
        const std::uint32_t low = to_bfloat16(values[0]) | to_bfloat16(values[1]) << 16U;
        const std::uint32_t high = to_bfloat16(values[2]) | to_bfloat16(values[3]) << 16U;
        simt::store(reinterpret_cast<std::uint64_t*>(to), std::uint64_t{high} << 32U | low);
    }
}

// The hidden layers of all tests, with zeros up to the stride, computed by so many warps. Consecutive layers are
// `apart` values from each other. Frames come from far, so a thread loads several pieces at a time, without
// branches, which would wait for each load. `lanes`: num_tests(), test_row, and test_lane, whose prediction it is.
template <Precision kPrecision, class Tests>
ARCBEAM_DEVICE void join(const LoopParams& params, const Tests& lanes, const float* predictions,
                         std::uint32_t worker, std::uint32_t workers, Value<kPrecision>* to, std::uint32_t apart) {
    constexpr std::uint32_t kAtOnce = 4U;
    const DeviceNetwork& network = params.network;
    const std::uint32_t stride = network.output.stride;
    const std::uint32_t pieces = stride / 4U;
    const std::uint32_t steps = (pieces + simt::kWarpSize - 1U) / simt::kWarpSize;  // of a test
    const std::uint32_t count = lanes.num_tests() * steps;
    for (std::uint32_t first = worker; first < count; first += kAtOnce * workers) {
        Piece frame[kAtOnce];
        Piece prediction[kAtOnce];
        std::uint32_t tests[kAtOnce];
        std::uint32_t of_test[kAtOnce];
        for (std::uint32_t k = 0U; k < kAtOnce; ++k) {
            const std::uint32_t step = first + k * workers < count ? first + k * workers : first;
            tests[k] = step / steps;
            of_test[k] = (step - tests[k] * steps) * simt::kWarpSize + simt::warp_thread();
            const std::uint32_t piece = of_test[k] < pieces ? of_test[k] : 0U;
            const std::size_t row = simt::load(lanes.test_row.at(tests[k]));
            const std::size_t lane = simt::load(lanes.test_lane.at(tests[k]));
            frame[k] = simt::load_readonly(reinterpret_cast<const Piece*>(params.projected + row * stride) + piece);
            prediction[k] = simt::load(reinterpret_cast<const Piece*>(predictions + lane * stride) + piece);
        }
        for (std::uint32_t k = 0U; k < kAtOnce && first + k * workers < count; ++k) {
            float values[4];
            for (std::uint32_t i = 0U; i < 4U; ++i) {
                const float sum = from_bits(frame[k].words[i]) + from_bits(prediction[k].words[i]);
                values[i] =
                    4U * of_test[k] + i < network.prediction.rows ? activate(network.activation, sum) : 0.0F;
            }
            if (of_test[k] < pieces) {
                store_inputs<kPrecision>(to + static_cast<std::size_t>(tests[k]) * apart + 4U * of_test[k], values);
            }
        }
    }
}

template <Precision kPrecision>
struct PackedColumns {
    const Value<kPrecision>* first;
    std::uint32_t stride;
    ARCBEAM_DEVICE const Value<kPrecision>* operator()(std::uint32_t column) const {
        return first + static_cast<std::size_t>(column) * stride;
    }
};

template <class Rows, class Labels, class Tests = Lanes>
struct OutputStage {
    const LoopParams& params;
    const Tests& lanes;
    const Labels& labels;
    std::uint64_t* label_keys;  // where logits are fused
    Rows rows;                  // starting at row `offset`
    std::uint32_t offset;
    std::uint32_t num_rows;  // of this block, or of the matrix
    std::uint32_t num_tests;
    PackedColumns<Rows::kPrecision> hidden;
    std::uint64_t* keys;
    float* scratch;

    template <int kRows, int kColumns>
    ARCBEAM_DEVICE void tile(std::uint32_t first_row, std::uint32_t first_column) const {
        constexpr auto kTests = static_cast<std::uint32_t>(kColumns);
        const DeviceNetwork& network = params.network;
        const std::uint32_t test = first_column + simt::warp_thread() % kTests;
        // The thread's value number k is that of row first_row + (k * kWarpSize + thread) / kTests.
        constexpr std::uint32_t kValues = static_cast<std::uint32_t>(kRows * kColumns);
        constexpr std::uint32_t kEach = (kValues + simt::kWarpSize - 1U) / simt::kWarpSize;
        // Biases are on their way while products are computed, unless they would take those too many registers.
        constexpr bool kFetchAhead = kEach <= 4U;
        float biases[kEach] = {};
        const auto fetch_biases = [&] {
            if constexpr (Labels::kFused) {
                for (std::uint32_t k = 0U; k < kEach; ++k) {
                    const std::uint32_t i = k * simt::kWarpSize + simt::warp_thread();
                    const std::uint32_t local = first_row + i / kTests;
                    if (i < kValues && local < num_rows && test < num_tests && offset + local < network.tokens) {
                        biases[k] = labels.bias_of(simt::load(lanes.test_lane.at(test)), offset + local);
                    }
                }
            }
        };
        if constexpr (kFetchAhead) {
            fetch_biases();
        }
        multiply<kRows, kColumns>(rows, first_row, hidden, first_column, num_tests, scratch);
        simt::warp_sync(simt::kAllThreads);
        if constexpr (!kFetchAhead) {
            fetch_biases();
        }
        std::uint64_t best = 0U;
        std::uint64_t best_length = 0U;
        std::uint64_t best_label = 0U;
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const std::uint32_t i = k * simt::kWarpSize + simt::warp_thread();
            const std::uint32_t local = first_row + i / kTests;
            if (i >= kValues || local >= num_rows || test >= num_tests) {
                continue;
            }
            const std::uint32_t row = offset + local;
            float logit = simt::load(scratch + i);
            if (rows.bias != nullptr) {
                logit = logit + Rows::load(rows.bias + local);
            }
            simt::store(params.logits + static_cast<std::size_t>(test) * network.output.rows + row, logit);
            if (row < network.tokens) {
                const std::uint64_t key = rank_key(logit, row);
                best = key > best ? key : best;
                if constexpr (Labels::kFused) {
                    const std::uint64_t fused = labels.key(row, logit, biases[k]);
                    best_label = fused > best_label ? fused : best_label;
                }
            } else {
                const std::uint64_t key = rank_key(logit, row - network.tokens);
                best_length = key > best_length ? key : best_length;
            }
        }
        best = largest_of_tests<kTests>(best);
        best_length = network.durations > 0U ? largest_of_tests<kTests>(best_length) : 0U;
        if constexpr (Labels::kFused) {
            best_label = largest_of_tests<kTests>(best_label);
            if (simt::warp_thread() < kTests && test < num_tests && best_label != 0U) {
                simt::atomic_max(label_keys + test, best_label);
            }
        }
        if (simt::warp_thread() < kTests && test < num_tests) {
            if (best != 0U) {
                simt::atomic_max(keys + test, best);
            }
            if (best_length != 0U) {
                simt::atomic_max(keys + params.most_tests + test, best_length);
            }
        }
        simt::warp_sync(simt::kAllThreads);
    }

  private:
    // Threads that work on the same test are kTests apart.
    template <std::uint32_t kTests>
    ARCBEAM_DEVICE static std::uint64_t largest_of_tests(std::uint64_t key) {
        for (std::uint32_t d = kTests; d < simt::kWarpSize; d *= 2U) {
            const std::uint64_t other = simt::shuffle_xor(simt::kAllThreads, key, d);
            key = other > key ? other : key;
        }
        return key;
    }
};

}  // namespace arcbeam::transducer
