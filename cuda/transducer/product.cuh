// Products of a matrix with columns of activations, in the defined order: thread p of a warp holds the partial sums
// p of a tile of kRows rows and kColumns columns, which are then added across the threads.
//
// Adding 32 values of a tile one by one would take 5 shuffles each. Here, at every step of the tree, threads keep
// half of the values they hold and give away the other half, so 32 values take 31 shuffles, and thread i ends with
// value i:
//
//     threads 0 to 15  keep values 0 to 15,  add those of thread + 16
//     threads 16 to 31 keep values 16 to 31, add those of thread - 16       and so on with 8, 4, 2, 1
//
// An addition does not depend on the order of its operands, so both give partial[p] + partial[p + s].
#pragma once

#include "shared/simt.cuh"
#include "shared/transducer_math.hpp"
#include "transducer/lanes.cuh"
#include "transducer/together.cuh"

namespace arcbeam::transducer {

// The sum of 32 threads' partials, in every thread.
ARCBEAM_DEVICE float add_lanes(float partial) {
    for (std::uint32_t s = 16U; s > 0U; s /= 2U) {
        partial = partial + simt::shuffle_xor(simt::kAllThreads, partial, s);
    }
    return partial;
}

// Sums kValues values of each thread, a power of two up to 32. Afterwards, values[0] of each thread holds the sum
// of value number thread / (32 / kValues).
template <int kValues, int kApart = 16>
ARCBEAM_DEVICE void add_across(float* values) {
    if constexpr (kApart > 0) {
        constexpr auto kFlip = static_cast<std::uint32_t>(kApart);
        if constexpr (kValues > 1) {
            constexpr int kHalf = kValues / 2;
            const bool upper = (simt::warp_thread() & kFlip) != 0U;
            for (int i = 0; i < kHalf; ++i) {
                const float kept = upper ? values[i + kHalf] : values[i];
                const float given = upper ? values[i] : values[i + kHalf];
                values[i] = kept + simt::shuffle_xor(simt::kAllThreads, given, kFlip);
            }
            add_across<kHalf, kApart / 2>(values);
        } else {
            values[0] = values[0] + simt::shuffle_xor(simt::kAllThreads, values[0], kFlip);
            add_across<1, kApart / 2>(values);
        }
    }
}

// Rows of a matrix, in shared memory or in global memory that no thread writes.
template <Precision kOf>
struct SharedRows {
    static constexpr Precision kPrecision = kOf;
    static constexpr bool kAtHand = true;  // loading them takes no time, compared with loads from L2
    const Value<kOf>* values;
    std::uint32_t count;
    std::uint32_t inputs;  // a multiple of kStep
    std::uint32_t stride;
    const float* bias;  // of the first row, or null
    template <class T>
    ARCBEAM_DEVICE static T load(const T* at) {
        return simt::load(at);
    }
};

template <Precision kOf>
struct GlobalRows {
    static constexpr Precision kPrecision = kOf;
    static constexpr bool kAtHand = false;
    const Value<kOf>* values;
    std::uint32_t count;
    std::uint32_t inputs;
    std::uint32_t stride;
    const float* bias;
    float* staging;  // for float32, see together.cuh
    template <class T>
    ARCBEAM_DEVICE static T load(const T* at) {
        return simt::load_readonly(at);
    }
};

// Calls take(count, first) for all steps: kDeep at a time while there are so many, then 4, then 1. The loads of one
// call are on their way together, because a load from L2 takes as long as the products of several steps.
template <int kDeep, class Take>
ARCBEAM_DEVICE void in_steps(std::uint32_t steps, const Take& take, std::uint32_t step = 0U) {
    for (; step + static_cast<std::uint32_t>(kDeep) <= steps; step += static_cast<std::uint32_t>(kDeep)) {
        take(std::integral_constant<int, kDeep>{}, step);
    }
    if constexpr (kDeep > 1) {
        in_steps<(kDeep > 4 ? 4 : 1)>(steps, take, step);
    }
}

// Sums a thread's partials of kValues outputs, into `out`. A warp_sync follows.
template <int kValues>
ARCBEAM_DEVICE void add_up(float* sum, float* out) {
    constexpr int kAtOnce = kValues < 32 ? kValues : 32;
    for (int i = 0; i < kValues; i += kAtOnce) {
        add_across<kAtOnce>(sum + i);
        constexpr auto kLanesOfOne = static_cast<std::uint32_t>(32 / kAtOnce);
        if (simt::warp_thread() % kLanesOfOne == 0U) {
            simt::store(out + static_cast<std::uint32_t>(i) + simt::warp_thread() / kLanesOfOne, sum[i]);
        }
    }
}

// out[row * kColumns + column] = dot(rows[first_row + row], columns(first_column + column)), by one warp. Columns
// from num_columns on repeat the last one. `out` belongs to the warp; a warp_sync follows.
template <int kRows, int kColumns, class Rows, class Columns>
ARCBEAM_DEVICE void multiply_exactly(const Rows& rows, std::uint32_t first_row, const Columns& columns,
                                     std::uint32_t first_column, std::uint32_t num_columns, float* out) {
    constexpr int kValues = kRows * kColumns;
    const std::uint32_t lane = simt::warp_thread();
    const float* const weights = rows.values + static_cast<std::size_t>(first_row) * rows.stride + lane;
    const float* inputs[kColumns];
    float sum[kValues];
    for (int c = 0; c < kColumns; ++c) {
        const std::uint32_t column = first_column + static_cast<std::uint32_t>(c);
        inputs[c] = columns(column < num_columns ? column : num_columns - 1U) + lane;
    }
    for (int i = 0; i < kValues; ++i) {
        sum[i] = 0.0F;
    }
    constexpr int kDeep = kColumns == 1 ? 16 : kRows == 8 ? 4 : 8;
    in_steps<kDeep>(rows.inputs / kStep, [&](auto deep, std::uint32_t step) {
        constexpr int kSteps = decltype(deep)::value;
        float weight[kSteps][kRows];
        float input[kSteps][kColumns];
        for (int d = 0; d < kSteps; ++d) {
            const std::uint32_t i = (step + static_cast<std::uint32_t>(d)) * kStep;
            for (int c = 0; c < kColumns; ++c) {
                input[d][c] = simt::load(inputs[c] + i);
            }
        }
        for (int d = 0; d < kSteps; ++d) {
            const std::uint32_t i = (step + static_cast<std::uint32_t>(d)) * kStep;
            for (int r = 0; r < kRows; ++r) {
                weight[d][r] = Rows::load(weights + static_cast<std::uint32_t>(r) * rows.stride + i);
            }
        }
        for (int d = 0; d < kSteps; ++d) {
            for (int r = 0; r < kRows; ++r) {
                for (int c = 0; c < kColumns; ++c) {
                    sum[r * kColumns + c] = fused(weight[d][r], input[d][c], sum[r * kColumns + c]);
                }
            }
        }
    });
    add_up<kValues>(sum, out);
}

// The same in bfloat16 on tensor cores, for 16 columns. The rows of the matrix are the columns of simt's b, kRows /
// 8 of them. Any inputs may be multiplied at the same time, so a thread takes 8 successive ones: place p of 4 takes
// those from 8 p on of every kStep, half of them in one product and half in the next. Sums are in the order of the
// steps, and do not depend on the other rows and columns.
template <int kRows, class Rows, class Columns>
ARCBEAM_DEVICE void multiply_on_tensor_cores(const Rows& rows, std::uint32_t first_row, const Columns& columns,
                                             std::uint32_t first_column, std::uint32_t num_columns, float* out) {
    constexpr int kTiles = kRows / 8;
    const std::uint32_t group = simt::warp_thread() / 4U;
    const std::uint32_t place = simt::warp_thread() % 4U;
    const Piece* weights[kTiles];
    const Piece* inputs[2];
    float sum[kTiles][2][4];  // of the first halves and of the second halves
    for (int r = 0; r < kTiles; ++r) {
        const std::uint32_t row = first_row + 8U * static_cast<std::uint32_t>(r) + group;
        // Rows beyond the last one are computed in vain
        const std::size_t at = row < rows.count ? row : rows.count - 1U;
        weights[r] = reinterpret_cast<const Piece*>(rows.values + at * rows.stride) + place;
        for (int i = 0; i < 8; ++i) {
            sum[r][i / 4][i % 4] = 0.0F;
        }
    }
    for (std::uint32_t half = 0U; half < 2U; ++half) {
        const std::uint32_t column = first_column + 8U * half + group;
        inputs[half] =
            reinterpret_cast<const Piece*>(columns(column < num_columns ? column : num_columns - 1U)) + place;
    }
    constexpr int kDeep = kTiles == 1 ? (Rows::kAtHand ? 10 : 8) : (Rows::kAtHand ? 8 : 4);
    in_steps<kDeep>(rows.inputs / kStep, [&](auto deep, std::uint32_t step) {
        constexpr int kSteps = decltype(deep)::value;
        Piece input[kSteps][2];
        Piece weight[kSteps][kTiles];
        for (int d = 0; d < kSteps; ++d) {
            const std::uint32_t i = (step + static_cast<std::uint32_t>(d)) * (kStep / 8U);
            input[d][0] = simt::load(inputs[0] + i);
            input[d][1] = simt::load(inputs[1] + i);
        }
        for (int d = 0; d < kSteps; ++d) {
            const std::uint32_t i = (step + static_cast<std::uint32_t>(d)) * (kStep / 8U);
            for (int r = 0; r < kTiles; ++r) {
                weight[d][r] = Rows::load(weights[r] + i);
            }
        }
        for (int d = 0; d < kSteps; ++d) {
            const Piece& low = input[d][0];
            const Piece& high = input[d][1];
            for (int r = 0; r < kTiles; ++r) {
                for (int half = 0; half < 2; ++half) {
                    const int w = 2 * half;
                    simt::multiply_bfloat16(sum[r][half],
                                            {low.words[w], high.words[w], low.words[w + 1], high.words[w + 1]},
                                            {weight[d][r].words[w], weight[d][r].words[w + 1]});
                }
            }
        }
    });
    for (int r = 0; r < kTiles; ++r) {
        for (std::uint32_t i = 0; i < 4U; ++i) {
            const std::uint32_t row = 8U * static_cast<std::uint32_t>(r) + 2U * place + i % 2U;
            simt::store(out + row * 16U + 8U * (i / 2U) + group, sum[r][0][i] + sum[r][1][i]);
        }
    }
}

// The same by all warps of a block together, see together.cuh; first_row and first_column are this warp's.
template <class Rows, class Columns>
ARCBEAM_DEVICE void multiply_together(const Rows& rows, std::uint32_t first_row, const Columns& columns,
                                      std::uint32_t first_column, std::uint32_t num_columns, float* out) {
    const std::uint32_t row = first_row - simt::warp() % 2U * 16U + simt::thread_rank() / 8U;
    const std::uint32_t column = first_column - simt::warp() / 2U * 8U + simt::thread_rank() / 8U;
    const float* const from = columns(column < num_columns ? column : num_columns - 1U);
    const auto* const inputs = reinterpret_cast<const Piece*>(from) + simt::thread_rank() % 8U;
    const std::size_t at = row < rows.count ? row : rows.count - 1U;
    float sum[16 * 8];
    sum_together(
        rows.values + at * rows.stride, rows.inputs / kStep,
        [=](std::uint32_t step, float* to) { simt::copy_async<16>(to, inputs + step * 8U); }, rows.staging, sum);
    add_up<16 * 8>(sum, out);
}

template <int kRows, int kColumns, class Rows, class Columns>
ARCBEAM_DEVICE void multiply(const Rows& rows, std::uint32_t first_row, const Columns& columns,
                             std::uint32_t first_column, std::uint32_t num_columns, float* out) {
    if constexpr (Rows::kPrecision == Precision::bfloat16) {
        static_assert(kColumns == 16, "as many as the product on tensor cores has");
        multiply_on_tensor_cores<kRows>(rows, first_row, columns, first_column, num_columns, out);
    } else if constexpr (kRows == 16) {
        multiply_together(rows, first_row, columns, first_column, num_columns, out);
    } else {
        multiply_exactly<kRows, kColumns>(rows, first_row, columns, first_column, num_columns, out);
    }
}

// Tiles of columns: number `first`, and every `apart`-th from there.
struct Tiles {
    std::uint32_t first;
    std::uint32_t apart;
};

// Calls stage.tile<kRows, kColumns>(first row, first column) for the tiles of this warp. If blocks keep weights,
// the warps of a block share the block's rows; otherwise all warps of the grid share all rows. In that case
// neighbouring warps take tiles of two groups of rows, so that weights and inputs both stay in the multiprocessor's
// cache; if there are fewer tiles than warps, they are spread over the blocks.
template <bool kKept, int kRows, int kColumns, class Stage>
ARCBEAM_DEVICE void share_tiles(const Stage& stage, std::uint32_t rows, std::uint32_t columns,
                                Tiles tiles = {0U, 1U}) {
    constexpr auto kTileRows = static_cast<std::uint32_t>(kRows);
    constexpr auto kTileColumns = static_cast<std::uint32_t>(kColumns);
    const std::uint32_t of_all = (columns + kTileColumns - 1U) / kTileColumns;
    if (tiles.first >= tiles.apart || tiles.first >= of_all) {
        return;
    }
    const std::uint32_t across = (of_all - tiles.first + tiles.apart - 1U) / tiles.apart;
    const std::uint32_t down = (rows + kTileRows - 1U) / kTileRows;
    const std::uint32_t workers = kKept ? simt::num_warps() : simt::num_warps() * simt::grid_size();
    std::uint32_t worker = simt::warp();
    if (!kKept) {
        const bool few = across * down <= workers;
        worker = few ? simt::warp() * simt::grid_size() + simt::block_rank()
                     : simt::block_rank() * simt::num_warps() + simt::warp();
    }
    for (std::uint32_t i = worker; i < across * down; i += workers) {
        const std::uint32_t pair = i / (2U * across);
        const std::uint32_t within = i % (2U * across);
        const std::uint32_t in_pair = down - 2U * pair >= 2U ? 2U : 1U;
        stage.template tile<kRows, kColumns>((2U * pair + within % in_pair) * kTileRows,
                                             (tiles.first + within / in_pair * tiles.apart) * kTileColumns);
    }
}

// Whether there is a tile of 32 x 32 for every block.
ARCBEAM_DEVICE bool together(std::uint32_t rows, std::uint32_t columns) {
    const std::uint32_t tiles =
        (rows + kTogetherRows - 1U) / kTogetherRows * ((columns + kTogetherRows - 1U) / kTogetherRows);
    return simt::num_warps() == kTogetherWarps && tiles >= simt::grid_size();
}

// The tiles of 32 x 32 of this block, of which each warp has 16 x 8.
template <class Stage>
ARCBEAM_DEVICE void share_blocks(const Stage& stage, std::uint32_t rows, std::uint32_t columns) {
    const std::uint32_t down = (rows + kTogetherRows - 1U) / kTogetherRows;
    const std::uint32_t across = (columns + kTogetherRows - 1U) / kTogetherRows;
    for (std::uint32_t i = simt::block_rank(); i < down * across; i += simt::grid_size()) {
        stage.template tile<16, 8>(i % down * kTogetherRows + simt::warp() % 2U * 16U,
                                   i / down * kTogetherRows + simt::warp() / 2U * 8U);
    }
}

template <Precision kPrecision, bool kKept, class Stage>
ARCBEAM_DEVICE void run_stage(const Stage& stage, std::uint32_t rows, std::uint32_t columns, Tiles tiles) {
    const std::uint32_t workers = kKept ? simt::num_warps() : simt::num_warps() * simt::grid_size();
    if constexpr (kPrecision == Precision::bfloat16) {
        // Inputs in global memory are read once for all of a block's rows, unless that would leave warps without
        // work.
        const std::uint32_t across = ((columns + 15U) / 16U + tiles.apart - 1U) / tiles.apart;
        const std::uint32_t small = (rows + 7U) / 8U * across;
        const std::uint32_t large = (rows + 23U) / 24U * across;
        if (rows <= 8U || (kKept ? small <= workers : large < workers)) {
            share_tiles<kKept, 8, 16>(stage, rows, columns, tiles);
        } else {
            share_tiles<kKept, 24, 16>(stage, rows, columns, tiles);
        }
    } else if constexpr (kKept) {
        const std::uint32_t across = ((columns + 3U) / 4U + tiles.apart - 1U) / tiles.apart;
        if ((rows + 3U) / 4U * columns <= workers) {
            share_tiles<true, 4, 1>(stage, rows, columns, tiles);
        } else if (rows % 8U == 0U && rows / 8U * across >= workers) {  // this reads inputs half as often
            share_tiles<true, 8, 4>(stage, rows, columns, tiles);
        } else {
            share_tiles<true, 4, 4>(stage, rows, columns, tiles);
        }
    } else {
        if (together(rows, columns)) {
            share_blocks(stage, rows, columns);
        } else {
            share_tiles<false, 4, 4>(stage, rows, columns);
        }
    }
}

}  // namespace arcbeam::transducer
