// Expansion: what the live hypotheses of one frame and depth can do next.
//
// in    hypotheses in their rank, the scores of each one's tokens, and the best score among those that have passed
// over the frame out   the candidates that are admitted, by (rank, the blank before labels, token, place of the
// duration) rule  admitted are those within `beam` of the best of all candidates and of those that have passed
// over; of the labels
//       with one duration, the first max_hypotheses of them by (score, rank, token)
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transducer/beam/bucket.hpp"
#include "transducer/beam/fusion.hpp"
#include "transducer/network.hpp"
#include "transducer/search.hpp"

namespace arcbeam::transducer::beam {

// What the joint network says of one history at one frame.
struct Row {
    // False if the logits are not finite. `biases` are read if the fusion is active.
    bool read(const Network& network, const Options& options, const float* from, const BeamFusion& fusion,
              const Biases* biases);

    [[nodiscard]] float token(std::uint32_t token) const { return log_prob(logits[token], largest, log_sum); }

    std::uint32_t node;
    std::vector<float> logits;  // of the tokens
    float largest;
    float log_sum;
    std::vector<float> scores;  // of the tokens: their log-probs, or with models what these make of them
    float best_score;
    std::vector<float> durations;  // their log-probs; of an RNN-T 0 for its only one
    float best_duration;
    float confidence;

  private:
    void fuse(const Network& network, std::uint32_t blank, const BeamFusion& fusion, const Biases& biases);
};

struct Candidate {
    float score;
    std::uint32_t rank;
    std::uint32_t token;
    std::uint32_t duration;  // its place in the list of durations
};

class Expansion {
  public:
    // The candidates; `bound` is what the admitted ones score at least. There are none if the best score is not
    // finite, which models with scores beyond any of float32 can cause.
    const std::vector<Candidate>& expand(const Options& options, const std::vector<Hypothesis>& live,
                                         const std::vector<const Row*>& rows, float passed_over);
    [[nodiscard]] float bound() const { return bound_; }
    [[nodiscard]] bool is_finite() const { return is_finite_; }

  private:
    [[nodiscard]] bool admits(float score) const { return score >= bound_ && is_number(score); }

    float bound_ = 0.0F;
    bool is_finite_ = true;
    std::vector<std::vector<Candidate>> labels_;  // by the place of their duration
    std::vector<Candidate> admitted_;
};

}  // namespace arcbeam::transducer::beam
