// The next step of greedy transducer decoding, written once for both engines and for every loop (Bataev et al.
// 2024, Algorithm 1 and section 3.3).
//
// A frame has at most max_symbols labels: when that many have been written without leaving the frame, the next
// frame follows, as if a blank had been read. In an RNN-T a label stays on its frame and a blank moves one frame
// on. In a TDT both move on by the duration that was chosen with them, and a blank by at least one frame.
#pragma once

#include <cstdint>

#include "shared/portable.hpp"

namespace arcbeam::transducer {

// A place in an utterance: the frame to read, and the labels already written there.
struct Place {
    std::int64_t frame;
    std::uint32_t symbols;
};

ARCBEAM_HD Place after_blank(Place place, std::uint32_t duration) {
    return {place.frame + (duration > 1U ? duration : 1U), 0U};
}

ARCBEAM_HD Place after_label(Place place, std::uint32_t duration, std::uint32_t max_symbols) {
    if (duration > 0U) {
        return {place.frame + duration, 0U};
    }
    if (place.symbols + 1U >= max_symbols) {
        return {place.frame + 1, 0U};
    }
    return {place.frame, place.symbols + 1U};
}

}  // namespace arcbeam::transducer
