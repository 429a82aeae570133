// What a search of transducers is given, and what it gives: utterances, options, results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transducer/confidence.hpp"
#include "transducer/frames.hpp"
#include "transducer/fusion.hpp"
#include "transducer/kernels.hpp"

namespace arcbeam::transducer {

// The state from which decoding goes on: everything that the next chunk of a stream needs.
struct StreamState {
    std::vector<float> hidden;          // [layers, units]
    std::vector<float> cell;            // [layers, units]
    std::vector<std::int32_t> context;  // the last tokens, oldest first, -1 for none; of stateless networks
    std::int64_t skip = 0;              // frames of the next chunk that a duration has already passed
    std::int64_t frames = 0;            // frames of the chunks so far
    FusionStates fusion{};
};

struct Utterance {
    EncoderOutput input;
    const StreamState* from;  // null at the start of a stream
    Fusion fusion;
    FusionStates fusion_start;  // of the models, at the start of a stream
};

inline std::size_t frames_of(const Utterance& utterance) { return utterance.input.frames; }

// Of beam search (law 12).
struct BeamOptions {
    float beam = 0.0F;  // 0: greedy search
    std::uint32_t max_hypotheses = 1;
    bool sums = true;
    float length_power = 0.0F;
    float ilm_scale = 0.0F;  // of the internal language model
};

struct Options {
    std::uint32_t blank;
    std::uint32_t max_symbols;
    std::vector<std::uint32_t> durations;  // as many as the network has; none for an RNN-T
    bool frame_looping;
    Confidence confidence;
    BeamOptions beam;
};

// How sure the network is of its next token, from the logits of all tokens.
inline float confidence_in(const Confidence& confidence, const Kernels& kernels, const float* logits, std::size_t n,
                           float largest, float log_sum) {
    float statistic = log_prob(largest, largest, log_sum);
    if (confidence.statistic != Confidence::Statistic::kLargest) {
        const bool weighted = confidence.statistic == Confidence::Statistic::kWeighted;
        statistic = kernels.power_sum(logits, n, largest, log_sum, confidence.alpha, weighted);
    }
    return confidence.of(statistic);
}

enum class Outcome : std::uint8_t { kDecoded, kBadInput, kNotFinite, kOutOfMemory, kCancelled };

// Labels that have been written.
struct Labels {
    std::vector<std::uint32_t> tokens;
    std::vector<std::int64_t> frames;  // counted from the start of the stream
    std::vector<std::uint32_t> durations;
    std::vector<float> log_probs;
    std::vector<float> confidences;
};

struct Alternative : Labels {
    double score = 0.0;
    double posterior = 0.0;             // among all that the search has ended with
    double shares[kFusionModels] = {};  // of the score: what each model has added
    double ilm_share = 0.0;
};

struct Result : Labels {
    std::vector<Alternative> nbest;  // of beam search, which leaves labels and state above empty
    StreamState state;
    Outcome outcome = Outcome::kDecoded;
    BadValue bad;
};

}  // namespace arcbeam::transducer
