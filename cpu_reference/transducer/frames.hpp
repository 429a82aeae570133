// The encoder output of one utterance: checked once, then projected into the joint network, some frames at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transducer/aligned.hpp"
#include "transducer/network.hpp"

namespace arcbeam::transducer {

// Rows of contiguous features, `row_stride` values apart.
struct EncoderOutput {
    const void* data;
    std::int64_t row_stride;
    std::uint32_t frames;
    bool is_half;
};

// Where a value is not finite.
struct BadValue {
    std::uint32_t frame = 0;
    std::uint32_t column = 0;
};

class Frames {
  public:
    // Checks the frames; false if one is not finite, and where.
    bool begin(const Network& network, const EncoderOutput& input, BadValue& bad);

    // Projects the frames from this one on, unless that has been done; returns how many there are.
    std::int64_t project(std::int64_t frame, AlignedFloats& scratch);

    // The encoder's part of the joint network's hidden layer, at one of these frames.
    [[nodiscard]] const float* projected(std::int64_t frame) const;

  private:
    static constexpr std::int64_t kProjectedFrames = 64;

    template <typename T, typename Load>
    bool check(const T* rows, Load to_float, BadValue& bad) const;
    void load(std::int64_t frame, float* to) const;

    const Network* network_ = nullptr;
    EncoderOutput input_{};
    std::int64_t projected_from_ = 0;
    std::int64_t projected_to_ = 0;
    AlignedFloats projected_;
};

}  // namespace arcbeam::transducer
