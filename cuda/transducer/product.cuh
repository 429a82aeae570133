// Products of a matrix with columns of activations, in the written order: lane p of a warp holds the partial sums p
// of a tile of kRows rows and kColumns columns, which are then added across the lanes.
//
// Adding 32 tiles' values lane by lane would take 5 shuffles each. Here lanes keep half of the values they hold and
// give away the other half at every step of the tree, so 32 values take 31, and lane i ends with value i:
//
//     lanes 0 to 15  keep values 0 to 15,  add those of lane + 16
//     lanes 16 to 31 keep values 16 to 31, add those of lane - 16       and so on with 8, 4, 2, 1
//
// An addition has no order, so both give partial[p] + partial[p + s].
#pragma once

#include "shared/simt.cuh"
#include "shared/transducer_math.hpp"
#include "transducer/device_network.hpp"

namespace arcbeam::transducer {

// The sum of 32 lanes' partials, in every lane.
ARCBEAM_DEVICE float add_lanes(float partial) {
    for (std::uint32_t s = 16U; s > 0U; s /= 2U) {
        partial = partial + simt::shuffle_xor(simt::kAllLanes, partial, s);
    }
    return partial;
}

// kValues values a lane, a power of two up to 32: afterwards value lane / (32 / kValues) is summed, in values[0].
template <int kValues, int kApart = 16>
ARCBEAM_DEVICE void add_across(float* values) {
    if constexpr (kApart > 0) {
        constexpr auto kFlip = static_cast<std::uint32_t>(kApart);
        if constexpr (kValues > 1) {
            constexpr int kHalf = kValues / 2;
            const bool upper = (simt::lane() & kFlip) != 0U;
            for (int i = 0; i < kHalf; ++i) {
                const float kept = upper ? values[i + kHalf] : values[i];
                const float given = upper ? values[i] : values[i + kHalf];
                values[i] = kept + simt::shuffle_xor(simt::kAllLanes, given, kFlip);
            }
            add_across<kHalf, kApart / 2>(values);
        } else {
            values[0] = values[0] + simt::shuffle_xor(simt::kAllLanes, values[0], kFlip);
            add_across<1, kApart / 2>(values);
        }
    }
}

// Rows of a matrix, in shared memory or in global memory that nobody writes.
struct SharedRows {
    const float* values;
    std::uint32_t stride;
    ARCBEAM_DEVICE static float load(const float* at) { return simt::load(at); }
};

struct GlobalRows {
    const float* values;
    std::uint32_t stride;
    ARCBEAM_DEVICE static float load(const float* at) { return simt::load_readonly(at); }
};

// out[row * kColumns + column] = dot(rows[first_row + row], columns(first_column + column)), by one warp. Columns
// from num_columns on repeat the last one. `out` is the warp's own; a warp_sync follows.
template <int kRows, int kColumns, class Rows, class Columns>
ARCBEAM_DEVICE void multiply(const Rows& rows, std::uint32_t first_row, const Columns& columns,
                             std::uint32_t first_column, std::uint32_t num_columns, float* out) {
    constexpr int kValues = kRows * kColumns;
    constexpr int kAtOnce = kValues < 32 ? kValues : 32;
    const std::uint32_t lane = simt::lane();
    const std::uint32_t stride = rows.stride;
    const float* const weights = rows.values + static_cast<std::size_t>(first_row) * stride + lane;
    const float* inputs[kColumns];
    float sum[kValues];
    for (int c = 0; c < kColumns; ++c) {
        const std::uint32_t column = first_column + static_cast<std::uint32_t>(c);
        inputs[c] = columns(column < num_columns ? column : num_columns - 1U) + lane;
    }
    for (int i = 0; i < kValues; ++i) {
        sum[i] = 0.0F;
    }
    for (std::uint32_t i = 0; i < stride; i += kStep) {
        float weight[kRows];
        float input[kColumns];
        for (int r = 0; r < kRows; ++r) {
            weight[r] = Rows::load(weights + static_cast<std::uint32_t>(r) * stride + i);
        }
        for (int c = 0; c < kColumns; ++c) {
            input[c] = simt::load(inputs[c] + i);
        }
        for (int r = 0; r < kRows; ++r) {
            for (int c = 0; c < kColumns; ++c) {
                sum[r * kColumns + c] = fused(weight[r], input[c], sum[r * kColumns + c]);
            }
        }
    }
    for (int i = 0; i < kValues; i += kAtOnce) {
        add_across<kAtOnce>(sum + i);
        constexpr auto kLanesOfOne = static_cast<std::uint32_t>(32 / kAtOnce);
        if (lane % kLanesOfOne == 0U) {
            simt::store(out + static_cast<std::uint32_t>(i) + lane / kLanesOfOne, sum[i]);
        }
    }
}

// Calls stage.tile<kRows, kColumns>(first row, first column) for the tiles of this warp. The warps of a block with
// stationary weights share the block's rows; else all warps of the grid share all rows. There neighbours take tiles
// of two groups of rows, so that weights and inputs both stay in the multiprocessor's cache; if there are fewer
// tiles than warps, they are spread over the blocks.
template <bool kStationary, int kRows, int kColumns, class Stage>
ARCBEAM_DEVICE void share_tiles(const Stage& stage, std::uint32_t rows, std::uint32_t columns) {
    constexpr auto kTileRows = static_cast<std::uint32_t>(kRows);
    constexpr auto kTileColumns = static_cast<std::uint32_t>(kColumns);
    const std::uint32_t across = (columns + kTileColumns - 1U) / kTileColumns;
    const std::uint32_t down = (rows + kTileRows - 1U) / kTileRows;
    const std::uint32_t workers = kStationary ? simt::num_warps() : simt::num_warps() * simt::grid_size();
    std::uint32_t worker = simt::warp();
    if (!kStationary) {
        const bool few = across * down <= workers;
        worker = few ? simt::warp() * simt::grid_size() + simt::block_rank()
                     : simt::block_rank() * simt::num_warps() + simt::warp();
    }
    for (std::uint32_t i = worker; i < across * down; i += workers) {
        const std::uint32_t pair = i / (2U * across);
        const std::uint32_t within = i % (2U * across);
        const std::uint32_t in_pair = down - 2U * pair >= 2U ? 2U : 1U;
        stage.template tile<kRows, kColumns>((2U * pair + within % in_pair) * kTileRows,
                                             within / in_pair * kTileColumns);
    }
}

template <bool kStationary, class Stage>
ARCBEAM_DEVICE void run_stage(const Stage& stage, std::uint32_t rows, std::uint32_t columns) {
    if constexpr (kStationary) {
        if (columns == 1U) {
            share_tiles<true, 4, 1>(stage, rows, columns);
        } else {
            share_tiles<true, 4, 4>(stage, rows, columns);
        }
    } else {
        const std::uint32_t large = (rows + 15U) / 16U * ((columns + 7U) / 8U);
        if (large >= simt::num_warps() * simt::grid_size()) {
            share_tiles<false, 16, 8>(stage, rows, columns);
        } else {
            share_tiles<false, 4, 4>(stage, rows, columns);
        }
    }
}

}  // namespace arcbeam::transducer
