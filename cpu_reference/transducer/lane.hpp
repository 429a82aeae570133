// One utterance while it is being decoded: its place, its prediction network's state, and the labels it has
// written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shared/transducer_rules.hpp"
#include "transducer/aligned.hpp"
#include "transducer/confidence.hpp"
#include "transducer/fusion.hpp"
#include "transducer/network.hpp"

namespace arcbeam::transducer {

// Encoder output of one utterance: rows of contiguous features, `row_stride` values apart.
struct EncoderOutput {
    const void* data;
    std::int64_t row_stride;
    std::uint32_t frames;
    bool is_half;
};

// The state from which decoding goes on: everything that the next chunk of a stream needs.
struct StreamState {
    std::vector<float> hidden;          // [layers, units]
    std::vector<float> cell;            // [layers, units]
    std::vector<std::int32_t> context;  // the last tokens, oldest first, -1 for none; of stateless networks
    std::int64_t skip = 0;              // frames of the next chunk that a duration has already passed
    std::int64_t frames = 0;            // frames of the chunks so far
    FusionStates fusion{};
};

enum class Outcome : std::uint8_t { kDecoded, kBadInput, kNotFinite, kOutOfMemory, kCancelled };

struct Result {
    std::vector<std::uint32_t> tokens;
    std::vector<std::int64_t> frames;  // counted from the start of the stream
    std::vector<std::uint32_t> durations;
    std::vector<float> log_probs;
    std::vector<float> confidences;
    StreamState state;
    Outcome outcome = Outcome::kDecoded;
    std::uint32_t bad_frame = 0;
    std::uint32_t bad_column = 0;
};

struct Options {
    std::uint32_t blank;
    std::uint32_t max_symbols;
    std::vector<std::uint32_t> durations;  // as many as the network has; none for an RNN-T
    bool frame_looping;
    Confidence confidence;
};

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
    std::int64_t project(AlignedFloats& scratch);

    // The encoder's part of the joint network's hidden layer, at one of these frames.
    [[nodiscard]] const float* projected(std::int64_t frame) const;

    // The token and duration that the logits choose; false if the logits are not finite, which ends the lane.
    bool choose(const Options& options, const float* logits, std::int64_t frame, Choice& choice);

    void pass_blank(const Choice& choice) { place_ = after_blank(place_, choice.duration); }
    void write(const Options& options, const Choice& choice, const float* logits);

    // Ends the utterance and writes the values that the next chunk needs to the result.
    void end();

    AlignedFloats hidden;      // [layers, room for units as input]; for a stateless network its output
    AlignedFloats cell;        // [layers, units]
    AlignedFloats prediction;  // the prediction network's part of the joint network's hidden layer
    std::vector<std::int32_t> context;
    std::uint32_t last_token = 0;
    std::uint32_t window = 0;  // frames to test at a time

  private:
    static constexpr std::int64_t kProjectedFrames = 64;

    template <typename T, typename Load>
    bool check(const T* rows, Load to_float);
    void load(std::int64_t frame, float* to) const;

    const Network* network_ = nullptr;
    EncoderOutput input_{};
    Result* result_ = nullptr;
    std::int64_t frames_ = 0;
    std::int64_t frames_before_ = 0;
    Place place_{0, 0};
    std::int64_t projected_from_ = 0;
    std::int64_t projected_to_ = 0;
    AlignedFloats projected_;
    FusedLogits fused_;
};

}  // namespace arcbeam::transducer
