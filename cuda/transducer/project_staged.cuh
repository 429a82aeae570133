// Stage project for many frames in bfloat16. A block rounds 64 frames into shared memory, where its warps multiply
// all rows by them on tensor cores. The sums are those of project_on_tensor_cores.
//
//     warp 0   rows 0 to 31 and 128 to 159 and so on, frames 0 to 31       warp 2   rows 32 to 63 ...
//     warp 1   the same rows, frames 32 to 63                              warp 3   ...
#pragma once

#include "transducer/features.cuh"
#include "transducer/product.cuh"

namespace arcbeam::transducer {

constexpr std::uint32_t kHalfOfStaged = kStagedFrames / 2U;
constexpr std::uint32_t kFeaturesAtOnce = 8U;

// Eight features of a frame, zeros beyond the last one.
ARCBEAM_DEVICE void load_features(const EncoderView& view, std::int64_t at, std::uint32_t feature,
                                  std::uint32_t features, float* values) {
    const std::uint32_t bytes = view.is_half != 0U ? 2U : 4U;
    const auto* const from = static_cast<const unsigned char*>(view.data) + (at + feature) * bytes;
    if (feature + kFeaturesAtOnce <= features && reinterpret_cast<std::uintptr_t>(from) % sizeof(Piece) == 0U) {
        const Piece first = simt::load_readonly(reinterpret_cast<const Piece*>(from));
        if (view.is_half != 0U) {
            for (std::uint32_t k = 0U; k < kFeaturesAtOnce; ++k) {
                values[k] = half_to_float(static_cast<std::uint16_t>(first.words[k / 2U] >> 16U * (k % 2U)));
            }
            return;
        }
        const Piece second = simt::load_readonly(reinterpret_cast<const Piece*>(from) + 1);
        for (std::uint32_t k = 0U; k < kFeaturesAtOnce; ++k) {
            values[k] = from_bits(k < 4U ? first.words[k % 4U] : second.words[k % 4U]);
        }
        return;
    }
    for (std::uint32_t k = 0U; k < kFeaturesAtOnce; ++k) {
        const std::int64_t place = at + feature + k;
        values[k] = feature + k >= features ? 0.0F
                    : view.is_half != 0U    ? load_feature<true>(view.data, place)
                                            : load_feature<false>(view.data, place);
    }
}

// Rounds the frames of these groups, and reports the first value of an utterance that is not finite.
ARCBEAM_DEVICE void stage_frames(const ProjectParams& params, std::uint32_t first_group, std::uint16_t* to,
                                 std::uint32_t apart) {
    const std::uint32_t features = params.network.features;
    const std::uint32_t parts = params.network.encoder.stride / kFeaturesAtOnce;
    for (std::uint32_t f = simt::warp(); f < kStagedFrames; f += simt::num_warps()) {
        const std::uint32_t i = first_group + f / FrameGroup::kFrames;
        const FrameGroup group = simt::load_readonly(params.groups + (i < params.num_groups ? i : first_group));
        const EncoderView& view = params.utterances[group.utterance];
        const std::uint32_t requested = group.first_frame + f % FrameGroup::kFrames;
        const std::uint32_t frame = requested < view.frames ? requested : view.frames - 1U;
        const std::int64_t at = static_cast<std::int64_t>(frame) * view.row_stride;
        for (std::uint32_t part = simt::warp_thread(); part < parts; part += simt::kWarpSize) {
            float values[kFeaturesAtOnce];
            load_features(view, at, part * kFeaturesAtOnce, features, values);
            Piece rounded{};
            for (std::uint32_t k = 0U; k < kFeaturesAtOnce; ++k) {
                rounded.words[k / 2U] |= to_bfloat16(values[k]) << 16U * (k % 2U);
                if (!is_number(values[k])) {
                    simt::atomic_min(params.bad_inputs + group.utterance,
                                     std::uint64_t{frame} << 32U | (part * kFeaturesAtOnce + k));
                }
            }
            simt::store(reinterpret_cast<Piece*>(to + f * apart) + part, rounded);
        }
    }
}

// Multiplies 32 rows by half of the staged frames, by one warp.
ARCBEAM_DEVICE void project_half(const ProjectParams& params, std::uint32_t first_row, std::uint32_t first_group,
                                 const std::uint16_t* frames, std::uint32_t apart) {
    constexpr int kTiles = 2;
    constexpr int kGroups = static_cast<int>(kHalfOfStaged / FrameGroup::kFrames);
    const DeviceMatrix& encoder = params.network.encoder;
    const std::uint32_t of_eight = simt::warp_thread() / 4U;
    const std::uint32_t place = simt::warp_thread() % 4U;
    const Piece* weights[kTiles][2];
    float sum[kTiles][kGroups][2][4];
    for (int t = 0; t < kTiles; ++t) {
        for (std::uint32_t half = 0U; half < 2U; ++half) {
            const std::uint32_t row = first_row + 16U * static_cast<std::uint32_t>(t) + 8U * half + of_eight;
            // Rows beyond the last one are computed in vain
            const std::size_t at = row < encoder.rows ? row : encoder.rows - 1U;
            weights[t][half] = reinterpret_cast<const Piece*>(static_cast<const std::uint16_t*>(encoder.values) +
                                                              at * encoder.stride) +
                               place;
        }
        for (int g = 0; g < kGroups; ++g) {
            for (int i = 0; i < 8; ++i) {
                sum[t][g][i / 4][i % 4] = 0.0F;
            }
        }
    }
    const auto* const inputs = reinterpret_cast<const Piece*>(frames + of_eight * apart) + place;
    const std::uint32_t group_apart = FrameGroup::kFrames * apart / kFeaturesAtOnce;
    in_steps<2>(encoder.stride / kStep, [&](auto deep, std::uint32_t step) {
        constexpr int kSteps = decltype(deep)::value;
        Piece weight[kSteps][kTiles][2];
        for (int d = 0; d < kSteps; ++d) {
            for (int t = 0; t < 2 * kTiles; ++t) {
                weight[d][t / 2][t % 2] = simt::load_readonly(
                    weights[t / 2][t % 2] + (step + static_cast<std::uint32_t>(d)) * (kStep / 8U));
            }
        }
        for (int d = 0; d < kSteps; ++d) {
            for (int g = 0; g < kGroups; ++g) {
                const Piece input = simt::load(inputs + static_cast<std::uint32_t>(g) * group_apart +
                                               (step + static_cast<std::uint32_t>(d)) * (kStep / 8U));
                for (int t = 0; t < kTiles; ++t) {
                    const Piece& low = weight[d][t][0];
                    const Piece& high = weight[d][t][1];
                    simt::multiply_bfloat16(sum[t][g][0],
                                            {low.words[0], high.words[0], low.words[1], high.words[1]},
                                            {input.words[0], input.words[1]});
                    simt::multiply_bfloat16(sum[t][g][1],
                                            {low.words[2], high.words[2], low.words[3], high.words[3]},
                                            {input.words[2], input.words[3]});
                }
            }
        }
    });
    for (int g = 0; g < kGroups; ++g) {
        const std::uint32_t which = first_group + static_cast<std::uint32_t>(g);
        if (which >= params.num_groups) {
            break;
        }
        const FrameGroup group = simt::load_readonly(params.groups + which);
        const EncoderView& view = params.utterances[group.utterance];
        for (std::uint32_t i = 0U; i < 4U * kTiles; ++i) {
            const std::uint32_t t = i / 4U;
            const std::uint32_t row = first_row + 16U * t + 8U * (i % 4U / 2U) + of_eight;
            const std::uint32_t frame = group.first_frame + 2U * place + i % 2U;
            if (row < encoder.rows && frame < view.frames) {
                const float total = sum[t][g][0][i % 4U] + sum[t][g][1][i % 4U];
                simt::store(params.projected +
                                static_cast<std::size_t>(view.first_row + frame) * params.network.output.stride +
                                row,
                            encoder.bias != nullptr ? total + simt::load_readonly(encoder.bias + row) : total);
            }
        }
    }
}

// Blocks must have an even number of warps.
ARCBEAM_DEVICE void project_staged(const ProjectParams& params) {
    constexpr std::uint32_t kGroups = kStagedFrames / FrameGroup::kFrames;
    constexpr std::uint32_t kRows = 32U;
    simt::Carver carver;
    const std::uint32_t apart = held_stride(Precision::bfloat16, params.network.encoder.stride);
    std::uint16_t* const staged = carver.take<std::uint16_t>(kStagedFrames * apart).data;
    const std::uint32_t half = simt::warp() % 2U;
    for (std::uint32_t first = simt::block_rank() * kGroups; first < params.num_groups;
         first += simt::grid_size() * kGroups) {
        stage_frames(params, first, staged, apart);
        simt::block_barrier();
        for (std::uint32_t row = simt::warp() / 2U * kRows; row < params.network.encoder.rows;
             row += simt::num_warps() / 2U * kRows) {
            project_half(params, row, first + half * kGroups / 2U, staged + half * kHalfOfStaged * apart, apart);
        }
        simt::block_barrier();
    }
}

}  // namespace arcbeam::transducer
