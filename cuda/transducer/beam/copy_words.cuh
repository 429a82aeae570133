// Copying arrays piece by piece, by one warp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shared/simt.cuh"

namespace arcbeam::transducer::beam {

// In pieces of 4 bytes.
template <class T>
ARCBEAM_DEVICE void copy_words(const T* from, T* to, std::size_t count) {
    const auto* const source = reinterpret_cast<const std::uint32_t*>(from);
    auto* const target = reinterpret_cast<std::uint32_t*>(to);
    for (std::size_t i = simt::warp_thread(); i < count * sizeof(T) / 4U; i += simt::kWarpSize) {
        simt::store(target + i, simt::load(source + i));
    }
}

}  // namespace arcbeam::transducer::beam
