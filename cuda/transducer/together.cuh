// The exact product of 32 rows and 32 columns by the 8 warps of a block, each of which has 16 rows and 8 columns,
// in the defined order. Weights and inputs pass through shared memory, so that the block reads each only once, and
// some steps of 32 inputs ahead of their use.
//
//     step s    wait for its weights; all warps are done with step s - 1; load step s + 3 to the place of s - 1
#pragma once

#include "transducer/lanes.cuh"

namespace arcbeam::transducer {

constexpr std::uint32_t kTogetherWarps = 8U;
constexpr std::uint32_t kTogetherRows = 32U;  // and columns
constexpr std::uint32_t kAhead = 4U;          // steps in shared memory

// The size of one step's inputs of all rows. Shared memory holds these for kAhead steps, and after them the
// columns' inputs.
constexpr std::uint32_t kTogetherPart = kTogetherRows * kStep;
static_assert(together_bytes() == sizeof(float) * 2U * kTogetherPart * kAhead, "what the host sets aside");

// `row` is this thread's row of the matrix, one of the 32. `inputs(step, to)` copies four inputs of this thread's
// column, if possible asynchronously. The sums of this warp are sum[16 * 8], of which each thread holds a partial.
template <class Inputs>
ARCBEAM_DEVICE void sum_together(const float* row, std::uint32_t steps, const Inputs& inputs, float* staging,
                                 float* sum) {
    constexpr std::uint32_t kRows = 16U;
    constexpr std::uint32_t kColumns = 8U;
    const std::uint32_t place = simt::thread_rank() / 8U * kStep + simt::thread_rank() % 8U * 4U;
    const float* const weights = row + simt::thread_rank() % 8U * 4U;
    float* const all_columns = staging + kTogetherPart * kAhead;
    const auto fetch = [&](std::uint32_t step) {
        if (step < steps) {
            const std::uint32_t at = step % kAhead * kTogetherPart + place;
            simt::copy_async<16>(staging + at, weights + step * kStep);
            inputs(step, all_columns + at);
        }
        simt::copy_commit();
    };
    simt::block_barrier();  // no thread still reads the old content
    for (std::uint32_t step = 0U; step + 1U < kAhead; ++step) {
        fetch(step);
    }
    for (std::uint32_t i = 0U; i < kRows * kColumns; ++i) {
        sum[i] = 0.0F;
    }
    const std::uint32_t first_row = simt::warp() % 2U * kRows * kStep + simt::warp_thread();
    const std::uint32_t first_column = simt::warp() / 2U * kColumns * kStep + simt::warp_thread();
    for (std::uint32_t step = 0U; step < steps; ++step) {
        simt::copy_wait<kAhead - 2U>();
        simt::block_barrier();
        fetch(step + kAhead - 1U);
        const float* const rows = staging + step % kAhead * kTogetherPart + first_row;
        const float* const columns = all_columns + step % kAhead * kTogetherPart + first_column;
        float input[kColumns];
        for (std::uint32_t k = 0U; k < kColumns; ++k) {
            input[k] = simt::load(columns + k * kStep);
        }
        for (std::uint32_t r = 0U; r < kRows; ++r) {
            const float weight = simt::load(rows + r * kStep);
            for (std::uint32_t k = 0U; k < kColumns; ++k) {
                sum[r * kColumns + k] = fused(weight, input[k], sum[r * kColumns + k]);
            }
        }
    }
}

}  // namespace arcbeam::transducer
