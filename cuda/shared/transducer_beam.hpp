// The arithmetic of beam search in transducers (law 12), written once for both engines.
//
// Scores are natural logs in float32, relative to the best of their frame; every sum is rounded once.
#pragma once

#include <cstdint>

#include "shared/portable.hpp"
#include "shared/token_automaton.hpp"
#include "shared/transducer_math.hpp"

namespace arcbeam::transducer {

// The score of a step: of a token, and of the duration that goes with it (0 for an RNN-T).
ARCBEAM_INLINED float step_score(float token, float duration) { return token + duration; }

// The score of a path with one step more.
ARCBEAM_INLINED float score_after(float score, float token, float duration) {
    return score + step_score(token, duration);
}

// The score of two hypotheses that have become one: log(e^a + e^b), or the larger one.
ARCBEAM_INLINED float merged_score(float a, float b, bool sums) {
    const float high = a < b ? b : a;
    const float low = a < b ? a : b;
    return sums ? high + log_of(1.0F + exp_of(low - high)) : high;
}

// The log-prob of all labels together, ln(1 - p_blank): `largest` and `log_sum` are those of all tokens, the others
// those of the tokens without the blank.
ARCBEAM_INLINED float log_prob_of_labels(float largest_label, float log_sum_of_labels, float largest,
                                         float log_sum) {
    return log_prob(largest_label, largest, log_sum) + log_sum_of_labels;
}

// What the models add to the score of a label, of their shares; and the weight of the blank, of their factors. The
// models are the n-gram model, the boosting tree, the second n-gram model (LODR) and the internal language model,
// which is subtracted; one that is not there has 0.
ARCBEAM_INLINED float without_ilm(float added, float ilm) { return added - ilm; }
ARCBEAM_INLINED float models_added(float ngram_lm, float boosting_tree, float lodr, float ilm) {
    return without_ilm(fused_bias(ngram_lm, boosting_tree) + lodr, ilm);
}

// With models, the scores of a label and of the blank in place of their log-probs.
ARCBEAM_INLINED float label_score(float log_prob, float weight, float log_prob_of_labels, float bias) {
    return (log_prob + weight * log_prob_of_labels) + bias;
}
ARCBEAM_INLINED float blank_score(float log_prob, float weight) { return (1.0F + weight) * log_prob; }

// Hypotheses are ranked by their scores divided by this: (labels + 1)^power.
ARCBEAM_INLINED double length_factor(std::uint32_t labels, float power) {
    return static_cast<double>(exp_of(power * log_of(static_cast<float>(labels) + 1.0F)));
}

}  // namespace arcbeam::transducer
