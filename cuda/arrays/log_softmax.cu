// Log-probs of logits that lie on the GPU, row by row; the twin is arcbeam/arrays/_log_softmax/log_softmax.hpp,
// which has the rule. A warp takes a row, and its thread p the partial sum p.
//
// in     utterances with logits in float32 or float16, which nobody writes
// out    log_probs [rows][columns]
// launch any number of blocks of whole warps, without shared memory; no byte depends on their number
#include <limits>

#include "arrays/log_softmax.hpp"
#include "shared/half.hpp"
#include "transducer/result.cuh"

namespace arcbeam {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A row of logits, as `transducer::sum_of` reads it.
struct LogitsRow {
    const void* first;
    bool is_half;
    [[nodiscard]] ARCBEAM_DEVICE float at(std::uint32_t column) const {
        return is_half ? half_to_float(simt::load_readonly(static_cast<const std::uint16_t*>(first) + column))
                       : simt::load_readonly(static_cast<const float*>(first) + column);
    }
    template <int kCount>
    ARCBEAM_DEVICE void read(std::uint32_t from, std::uint32_t apart, std::uint32_t end, float* values) const {
        for (std::uint32_t k = 0U; k < static_cast<std::uint32_t>(kCount); ++k) {
            values[k] = from + k * apart < end ? at(from + k * apart) : 0.0F;
        }
    }
};

ARCBEAM_DEVICE LogitsRow row_of(const LogSoftmaxParams& params, std::uint64_t row) {
    std::uint32_t at = 0U;  // the last utterance that begins at this row or before
    for (std::uint32_t end = params.num_utterances; end - at > 1U;) {
        const std::uint32_t middle = at + (end - at) / 2U;
        const bool begins = simt::load_readonly(&params.utterances[middle].first_row) <= row;
        at = begins ? middle : at;
        end = begins ? end : middle;
    }
    const LogitsView* const view = params.utterances + at;
    const auto frame = static_cast<std::int64_t>(row - simt::load_readonly(&view->first_row));
    const bool is_half = simt::load_readonly(&view->is_half) != 0;
    const std::int64_t bytes = frame * simt::load_readonly(&view->row_stride) * (is_half ? 2 : 4);
    return {static_cast<const unsigned char*>(simt::load_readonly(&view->logits)) + bytes, is_half};
}

// The largest logit of a row; -inf for a row that stays as it is.
ARCBEAM_DEVICE float largest_of(const LogitsRow& row, std::uint32_t columns) {
    float largest = -kInfinity;
    bool sound = true;
    for (std::uint32_t column = simt::warp_thread(); column < columns; column += simt::kWarpSize) {
        const float value = row.at(column);
        sound = sound && value < kInfinity;  // false for NaN, too
        largest = value > largest ? value : largest;
    }
    for (std::uint32_t s = simt::kWarpSize / 2U; s > 0U; s /= 2U) {
        const float other = simt::shuffle_xor(simt::kAllThreads, largest, s);
        largest = other > largest ? other : largest;
    }
    return simt::all(simt::kAllThreads, sound) ? largest : -kInfinity;
}

ARCBEAM_DEVICE void normalise(const LogitsRow& row, std::uint32_t columns, float* to) {
    const float largest = largest_of(row, columns);
    const bool stays = largest == -kInfinity;
    float log_sum = 0.0F;
    if (!stays) {
        log_sum = transducer::log_of(
            transducer::sum_of(row, columns, [=](float logit) { return transducer::exp_of(logit - largest); }));
    }
    for (std::uint32_t column = simt::warp_thread(); column < columns; column += simt::kWarpSize) {
        const float logit = row.at(column);
        simt::store(to + column, stays ? logit : transducer::log_prob(logit, largest, log_sum));
    }
}

}  // namespace arcbeam

ARCBEAM_KERNEL(arcbeam_log_softmax, 256, arcbeam::LogSoftmaxParams) {
    namespace simt = arcbeam::simt;
    const std::uint64_t warps = std::uint64_t{simt::grid_size()} * simt::num_warps();
    std::uint64_t row = std::uint64_t{simt::block_rank()} * simt::num_warps() + simt::warp();
    for (; row < params.rows; row += warps) {
        arcbeam::normalise(arcbeam::row_of(params, row), params.columns, params.log_probs + row * params.columns);
    }
}
