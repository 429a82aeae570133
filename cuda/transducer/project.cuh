// Stage project: the encoder's part of the joint network's hidden layer, of all frames of all utterances.
//
// in    utterances: rows of features, float32 or float16; groups of up to 8 of their frames
// out   projected [frame][output.stride]: dot(encoder row, features) + bias; bad_inputs, where a value is not
// finite
#pragma once

#include "transducer/features.cuh"
#include "transducer/product.cuh"

namespace arcbeam::transducer {

// Looks for values that are not finite in the frames of a group, by one warp.
template <bool kHalf>
ARCBEAM_DEVICE void check_group(const ProjectParams& params, FrameGroup group, const EncoderView& view) {
    for (std::uint32_t k = 0; k < FrameGroup::kFrames; ++k) {
        const std::uint32_t frame = group.first_frame + k;
        if (frame >= view.frames) {
            return;
        }
        for (std::uint32_t i = simt::lane(); i < params.network.features; i += kStep) {
            const float value =
                load_feature<kHalf>(view.data, static_cast<std::int64_t>(frame) * view.row_stride + i);
            if (!is_number(value)) {
                simt::atomic_min(params.bad_inputs + group.utterance, std::uint64_t{frame} << 32U | i);
                return;  // this lane's others come later
            }
        }
    }
}

template <bool kHalf>
ARCBEAM_DEVICE void project_tile(const ProjectParams& params, std::uint32_t first_row, FrameGroup group,
                                 const EncoderView& view) {
    constexpr int kRows = static_cast<int>(kRowGroup);
    constexpr int kFrames = static_cast<int>(FrameGroup::kFrames);
    const DeviceMatrix& encoder = params.network.encoder;
    const std::uint32_t lane = simt::lane();
    const float* const weights = encoder.values + static_cast<std::size_t>(first_row) * encoder.stride + lane;
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
    for (int i = 0; i < kRows * kFrames; i += 32) {
        add_across<32>(sum + i);
        const std::uint32_t value = static_cast<std::uint32_t>(i) + lane;
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

struct ProjectStage {
    const ProjectParams& params;

    template <int kRows, int kColumns>
    ARCBEAM_DEVICE void tile(std::uint32_t first_row, std::uint32_t first_column) const {
        const FrameGroup group = simt::load_readonly(params.groups + first_column / FrameGroup::kFrames);
        const EncoderView& view = params.utterances[group.utterance];
        if (view.is_half != 0U) {
            project_part<true>(first_row, group, view);
        } else {
            project_part<false>(first_row, group, view);
        }
    }

  private:
    template <bool kHalf>
    ARCBEAM_DEVICE void project_part(std::uint32_t first_row, FrameGroup group, const EncoderView& view) const {
        if (first_row == 0U) {
            check_group<kHalf>(params, group, view);
        }
        simt::warp_sync(simt::kAllLanes);
        project_tile<kHalf>(params, first_row, group, view);
    }
};

}  // namespace arcbeam::transducer
