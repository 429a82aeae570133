// One utterance while it is being decoded: its place, its prediction network's state, and the labels it has
// written.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shared/transducer_rules.hpp"
#include "transducer/aligned.hpp"
#include "transducer/evaluation.hpp"
#include "transducer/frames.hpp"
#include "transducer/fusion.hpp"
#include "transducer/network.hpp"
#include "transducer/search.hpp"

namespace arcbeam::transducer {

// The result of a frame: its token, and the duration that goes with it.
struct Choice {
    std::uint32_t token;
    std::uint32_t duration;
    float largest;  // of the logits: the token's, unless a fusion has changed the label
};

class Lane {
  public:
    // Checks the frames; false if one is not finite; it is in the result then.
    bool begin(const Network& network, const EncoderOutput& input, const StreamState& from, const Fusion& fusion,
               Result& result);

    [[nodiscard]] bool is_active() const { return place_.frame < frames_; }
    [[nodiscard]] std::int64_t frame() const { return place_.frame; }

    // Projects the frames from frame() on, unless that has been done; returns how many there are.
    std::int64_t project(AlignedFloats& scratch) { return encoder_.project(place_.frame, scratch); }

    // The joint network at one of these frames.
    [[nodiscard]] Test test_at(std::int64_t frame) const { return {encoder_.projected(frame), &prediction}; }

    // The token and duration that the logits choose; false if the logits are not finite, which ends the lane.
    bool choose(const Options& options, const float* logits, std::int64_t frame, Choice& choice);

    void pass_blank(const Choice& choice) { place_ = after_blank(place_, choice.duration); }
    void write(const Options& options, const Choice& choice, const float* logits);

    // Ends the utterance and writes the values that the next chunk needs to the result.
    void end();

    Prediction prediction;     // after the labels so far
    std::uint32_t window = 0;  // frames to test at a time

  private:
    const Network* network_ = nullptr;
    Frames encoder_;
    Result* result_ = nullptr;
    std::int64_t frames_ = 0;  // of the utterance; 0 if the lane has been ended by a bad value
    std::int64_t frames_given_ = 0;
    std::int64_t frames_before_ = 0;
    Place place_{0, 0};
    FusedLogits fused_;
};

}  // namespace arcbeam::transducer
