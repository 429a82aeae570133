// How the decoding of an utterance on a device has ended.
#pragma once

#include <cstdint>

namespace arcbeam::transducer {

constexpr std::uint32_t kNowhere = 0xffffffffU;

enum class LaneOutcome : std::uint32_t { decoded = 0, bad_input = 1, not_finite = 2 };

}  // namespace arcbeam::transducer
