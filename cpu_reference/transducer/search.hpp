// What a search of transducers is given, and what it gives: utterances, options, results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transducer/beam/lattice.hpp"
#include "transducer/beam/state.hpp"
#include "transducer/confidence.hpp"
#include "transducer/frames.hpp"
#include "transducer/fusion.hpp"
#include "transducer/kernels.hpp"
#include "transducer/labels.hpp"

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
    const StreamState* from = nullptr;           // of greedy search; null at the start of a stream
    const beam::BeamState* beam_from = nullptr;  // of beam search; null for an utterance that leaves no state
    Fusion fusion;
    FusionStates fusion_start;   // of the models, at the start of a stream
    bool keeps_lattice = false;  // of beam search
};

inline std::size_t frames_of(const Utterance& utterance) { return utterance.input.frames; }

// Of beam search (law 12).
struct BeamOptions {
    float beam = 0.0F;  // 0: greedy search
    std::uint32_t max_hypotheses = 1;
    bool sums = true;
    float length_power = 0.0F;
    float ilm_scale = 0.0F;           // of the internal language model
    std::uint32_t settle_frames = 0;  // after which the labels of the best hypothesis stay; 0: never
    std::uint32_t merge_context = 0;  // labels; 0: only equal histories are merged
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

// What a beam search took, whatever was decoded together with it.
struct Work {
    std::int64_t frames = 0;  // that were searched: a TDT passes over some
    std::int64_t live = 0;    // hypotheses, summed over these frames before labels are written on them
    std::int64_t runs = 0;    // of the networks, in sequence
    std::int64_t rows = 0;    // of the joint network: histories, each on its frame
};

struct Result : Labels {
    StreamState state;  // of greedy search
    // Of beam search, which leaves all this empty but the states of the models after the best hypothesis.
    NBest nbest;
    std::size_t settled = 0;  // of the labels that each entry begins with: no later frame changes these
    beam::BeamState beam_state;
    beam::Lattice lattice;  // if it is kept
    Work work;
    Outcome outcome = Outcome::kDecoded;
    BadValue bad;
};

}  // namespace arcbeam::transducer
