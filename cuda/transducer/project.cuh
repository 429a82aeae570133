// Stage project: the encoder's part of the joint network's hidden layer, for all frames of all utterances.
//
// in    utterances: rows of features, float32 or float16; groups of up to 8 of their frames
// out   projected [frame][output.stride]: dot(encoder row, features) + bias; bad_inputs, where a value is not
// finite
#pragma once

#include "transducer/features.cuh"
#include "transducer/product.cuh"
#include "transducer/project_staged.cuh"

namespace arcbeam::transducer {

// Finds values that are not finite in the frames of a group, by one warp.
template <bool kHalf>
ARCBEAM_DEVICE void check_group(const ProjectParams& params, FrameGroup group, const EncoderView& view) {
    constexpr int kFrames = static_cast<int>(FrameGroup::kFrames);
    std::uint64_t first_bad = kNothingBad;
    for (std::uint32_t i = simt::warp_thread(); i < params.network.features; i += kStep) {
        float values[kFrames];  // loaded together
        for (int k = 0; k < kFrames; ++k) {
            const std::uint32_t frame = group.first_frame + static_cast<std::uint32_t>(k);
            values[k] = frame < view.frames ? load_feature<kHalf>(view.data, frame * view.row_stride + i) : 0.0F;
        }
        for (int k = 0; k < kFrames; ++k) {
            const std::uint32_t frame = group.first_frame + static_cast<std::uint32_t>(k);
            const std::uint64_t place = std::uint64_t{frame} << 32U | i;
            first_bad = is_number(values[k]) || place > first_bad ? first_bad : place;
        }
    }
    if (first_bad != kNothingBad) {
        simt::atomic_min(params.bad_inputs + group.utterance, first_bad);
    }
}

// One tile of each group checks the group's frames. The tile differs from group to group: otherwise the blocks that
// happen to have the first rows would do all checks.
ARCBEAM_DEVICE bool is_checker(std::uint32_t tile, std::uint32_t last_full, std::uint32_t group) {
    const std::uint32_t tiles = last_full > 0U ? last_full : 1U;
    return tile == group % tiles;
}

// Sums a tile of kRowGroup rows and a group's frames, of which each thread holds one partial, and stores the
// results.
ARCBEAM_DEVICE void store_tile(const ProjectParams& params, std::uint32_t first_row, FrameGroup group,
                               const EncoderView& view, float* sum) {
    constexpr int kValues = static_cast<int>(kRowGroup * FrameGroup::kFrames);
    const DeviceMatrix& encoder = params.network.encoder;
    for (int i = 0; i < kValues; i += 32) {
        add_across<32>(sum + i);
        const std::uint32_t value = static_cast<std::uint32_t>(i) + simt::warp_thread();
        const std::uint32_t row = first_row + value / FrameGroup::kFrames;
        const std::uint32_t frame = group.first_frame + value % FrameGroup::kFrames;
        if (row < encoder.rows && frame < view.frames) {
            const float biased =
                encoder.bias != nullptr ? sum[i] + simt::load_readonly(encoder.bias + row) : sum[i];
            simt::store(params.projected +
                            static_cast<std::size_t>(view.first_row + frame) * params.network.output.stride + row,
                        biased);
        }
    }
}

template <bool kHalf>
ARCBEAM_DEVICE void project_tile(const ProjectParams& params, std::uint32_t first_row, FrameGroup group,
                                 const EncoderView& view) {
    constexpr int kRows = static_cast<int>(kRowGroup);
    constexpr int kFrames = static_cast<int>(FrameGroup::kFrames);
    const DeviceMatrix& encoder = params.network.encoder;
    const std::uint32_t lane = simt::warp_thread();
    const float* const weights =
        static_cast<const float*>(encoder.values) + static_cast<std::size_t>(first_row) * encoder.stride + lane;
    float sum[kRows * kFrames];
    std::int64_t at[kFrames];
    for (int k = 0; k < kFrames; ++k) {
        const std::uint32_t frame = group.first_frame + static_cast<std::uint32_t>(k);
        at[k] = static_cast<std::int64_t>(frame < view.frames ? frame : view.frames - 1U) * view.row_stride;
    }
    for (int i = 0; i < kRows * kFrames; ++i) {
        sum[i] = 0.0F;
    }
    for (std::uint32_t i = 0; i < encoder.stride; i += kStep) {
        float weight[kRows];
        float input[kFrames];
        for (int r = 0; r < kRows; ++r) {
            weight[r] = simt::load_readonly(weights + static_cast<std::uint32_t>(r) * encoder.stride + i);
        }
        for (int k = 0; k < kFrames; ++k) {
            const std::uint32_t feature = i + lane;
            input[k] = feature < params.network.features ? load_feature<kHalf>(view.data, at[k] + feature) : 0.0F;
        }
        for (int r = 0; r < kRows; ++r) {
            for (int k = 0; k < kFrames; ++k) {
                sum[r * kFrames + k] = fused(weight[r], input[k], sum[r * kFrames + k]);
            }
        }
    }
    store_tile(params, first_row, group, view, sum);
}

// The same by the 8 warps of a block, for 32 rows and four groups; first_row is the block's.
ARCBEAM_DEVICE void project_together(const ProjectParams& params, std::uint32_t first_row,
                                     std::uint32_t first_group, float* staging) {
    const DeviceMatrix& encoder = params.network.encoder;
    const auto group_of = [&](std::uint32_t which) {
        const std::uint32_t i = first_group + which;
        return simt::load_readonly(params.groups + (i < params.num_groups ? i : params.num_groups - 1U));
    };
    const std::uint32_t own = simt::thread_rank() / 8U;
    const FrameGroup read = group_of(own / FrameGroup::kFrames);
    const EncoderView& from = params.utterances[read.utterance];
    const std::uint32_t frame = read.first_frame + own % FrameGroup::kFrames;
    const std::int64_t at =
        static_cast<std::int64_t>(frame < from.frames ? frame : from.frames - 1U) * from.row_stride;
    const std::size_t row = first_row + own < encoder.rows ? first_row + own : encoder.rows - 1U;
    const FrameGroup group = group_of(simt::warp() / 2U);
    const EncoderView& view = params.utterances[group.utterance];
    if (simt::warp() % 2U == 0U && is_checker(first_row / kTogetherRows, encoder.rows / kTogetherRows,
                                              first_group * FrameGroup::kFrames / kTogetherRows)) {
        if (view.is_half != 0U) {
            check_group<true>(params, group, view);
        } else {
            check_group<false>(params, group, view);
        }
    }
    const float* const whole = from.is_half != 0U ? nullptr : static_cast<const float*>(from.data) + at;
    const bool aligned = whole != nullptr && reinterpret_cast<std::uintptr_t>(whole) % sizeof(Piece) == 0U;
    const auto inputs = [&](std::uint32_t step, float* to) {
        const std::uint32_t feature = step * kStep + simt::thread_rank() % 8U * 4U;
        if (aligned && feature + 4U <= params.network.features) {
            simt::copy_async<16>(to, whole + feature);
            return;
        }
        for (std::uint32_t k = 0U; k < 4U; ++k) {
            const std::int64_t source = at + feature + k;
            if (feature + k >= params.network.features) {
                simt::store(to + k, 0.0F);
            } else if (from.is_half != 0U) {
                simt::store(to + k, load_feature<true>(from.data, source));
            } else {
                simt::copy_async<4>(to + k, static_cast<const float*>(from.data) + source);
            }
        }
    };
    float sum[kRowGroup * FrameGroup::kFrames];
    sum_together(static_cast<const float*>(encoder.values) + row * encoder.stride, encoder.stride / kStep, inputs,
                 staging, sum);
    if (first_group + simt::warp() / 2U < params.num_groups) {
        store_tile(params, first_row + simt::warp() % 2U * kRowGroup, group, view, sum);
    }
}

// The same in bfloat16 on tensor cores, for kRows rows: see multiply_on_tensor_cores, where rows and columns are
// swapped.
template <bool kHalf, int kRows>
ARCBEAM_DEVICE void project_on_tensor_cores(const ProjectParams& params, std::uint32_t first_row, FrameGroup group,
                                            const EncoderView& view) {
    constexpr int kTiles = kRows / 16;
    const DeviceMatrix& encoder = params.network.encoder;
    const std::uint32_t of_eight = simt::warp_thread() / 4U;
    const std::uint32_t place = simt::warp_thread() % 4U;
    const Piece* weights[kTiles][2];
    float sum[kTiles][2][4];
    for (int r = 0; r < kTiles; ++r) {
        for (std::uint32_t half = 0U; half < 2U; ++half) {
            const std::uint32_t row = first_row + 16U * static_cast<std::uint32_t>(r) + 8U * half + of_eight;
            // Rows beyond the last one are computed in vain
            const std::size_t at = row < encoder.rows ? row : encoder.rows - 1U;
            weights[r][half] = reinterpret_cast<const Piece*>(static_cast<const std::uint16_t*>(encoder.values) +
                                                              at * encoder.stride) +
                               place;
        }
        for (int i = 0; i < 8; ++i) {
            sum[r][i / 4][i % 4] = 0.0F;
        }
    }
    const std::uint32_t frame = group.first_frame + of_eight;
    const std::int64_t at =
        static_cast<std::int64_t>(frame < view.frames ? frame : view.frames - 1U) * view.row_stride;
    for (std::uint32_t i = 0; i < encoder.stride; i += kStep) {
        std::uint32_t b[2][2];
        for (std::uint32_t pair = 0U; pair < 4U; ++pair) {
            std::uint32_t word = 0U;
            for (std::uint32_t k = 0U; k < 2U; ++k) {
                const std::uint32_t feature = i + 8U * place + 2U * pair + k;
                const float value =
                    feature < params.network.features ? load_feature<kHalf>(view.data, at + feature) : 0.0F;
                word |= to_bfloat16(value) << 16U * k;
            }
            b[pair / 2U][pair % 2U] = word;
        }
        for (int r = 0; r < kTiles; ++r) {
            const Piece low = simt::load_readonly(weights[r][0] + i / 8U);
            const Piece high = simt::load_readonly(weights[r][1] + i / 8U);
            simt::multiply_bfloat16(sum[r][0], {low.words[0], high.words[0], low.words[1], high.words[1]}, b[0]);
            simt::multiply_bfloat16(sum[r][1], {low.words[2], high.words[2], low.words[3], high.words[3]}, b[1]);
        }
    }
    for (int r = 0; r < kTiles; ++r) {
        for (std::uint32_t i = 0; i < 4U; ++i) {
            const std::uint32_t row = first_row + 16U * static_cast<std::uint32_t>(r) + 8U * (i / 2U) + of_eight;
            const std::uint32_t to = group.first_frame + 2U * place + i % 2U;
            if (row < encoder.rows && to < view.frames) {
                const float total = sum[r][0][i] + sum[r][1][i];
                simt::store(params.projected +
                                static_cast<std::size_t>(view.first_row + to) * params.network.output.stride + row,
                            encoder.bias != nullptr ? total + simt::load_readonly(encoder.bias + row) : total);
            }
        }
    }
}

template <Precision kPrecision>
struct ProjectStage {
    const ProjectParams& params;

    template <int kRows, int kColumns>
    ARCBEAM_DEVICE void tile(std::uint32_t first_row, std::uint32_t first_column) const {
        const FrameGroup group = simt::load_readonly(params.groups + first_column / FrameGroup::kFrames);
        const EncoderView& view = params.utterances[group.utterance];
        if (view.is_half != 0U) {
            project_part<true, kRows>(first_row, group, view);
        } else {
            project_part<false, kRows>(first_row, group, view);
        }
    }

  private:
    template <bool kHalf, int kRows>
    ARCBEAM_DEVICE void project_part(std::uint32_t first_row, FrameGroup group, const EncoderView& view) const {
        const auto tile_rows = static_cast<std::uint32_t>(kRows);
        if (is_checker(first_row / tile_rows, params.network.encoder.rows / tile_rows,
                       group.first_frame / FrameGroup::kFrames)) {
            check_group<kHalf>(params, group, view);
        }
        simt::warp_sync(simt::kAllThreads);
        if constexpr (kPrecision == Precision::float32) {
            project_tile<kHalf>(params, first_row, group, view);
        } else {
            project_on_tensor_cores<kHalf, kRows>(params, first_row, group, view);
        }
    }
};

template <Precision kPrecision>
ARCBEAM_DEVICE void project(const ProjectParams& params) {
    constexpr auto kFrames = static_cast<int>(FrameGroup::kFrames);
    const ProjectStage<kPrecision> stage{params};
    const std::uint32_t rows = params.network.encoder.rows;
    const std::uint32_t frames = params.num_groups * FrameGroup::kFrames;
    if constexpr (kPrecision == Precision::bfloat16) {
        if (params.staged != 0U) {
            project_staged(params);
            return;
        }
    }
    if constexpr (kPrecision == Precision::float32) {
        if (together(rows, frames)) {
            simt::Carver carver;
            float* const staging =
                carver.take<float>(together_bytes() / static_cast<std::uint32_t>(sizeof(float))).data;
            const std::uint32_t down = (rows + kTogetherRows - 1U) / kTogetherRows;
            const std::uint32_t across = (frames + kTogetherRows - 1U) / kTogetherRows;
            for (std::uint32_t i = simt::block_rank(); i < down * across; i += simt::grid_size()) {
                project_together(params, i % down * kTogetherRows, i / down * (kTogetherRows / FrameGroup::kFrames),
                                 staging);
            }
            return;
        }
    }
    share_tiles<false, static_cast<int>(kRowGroup), kFrames>(stage, rows, frames);
}

}  // namespace arcbeam::transducer
