// The encoder output of an utterance, float32 or float16.
#pragma once

#include "shared/half.hpp"
#include "shared/simt.cuh"
#include "transducer/device_network.hpp"

namespace arcbeam::transducer {

template <bool kHalf>
ARCBEAM_DEVICE float load_feature(const void* data, std::int64_t at) {
    if constexpr (kHalf) {
        return half_to_float(simt::load_readonly(static_cast<const std::uint16_t*>(data) + at));
    } else {
        return simt::load_readonly(static_cast<const float*>(data) + at);
    }
}

ARCBEAM_DEVICE float feature_at(const EncoderView& view, std::uint32_t frame, std::uint32_t feature) {
    const std::int64_t at = static_cast<std::int64_t>(frame) * view.row_stride + feature;
    return view.is_half != 0U ? load_feature<true>(view.data, at) : load_feature<false>(view.data, at);
}

}  // namespace arcbeam::transducer
