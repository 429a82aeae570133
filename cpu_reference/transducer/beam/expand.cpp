#include "transducer/beam/expand.hpp"

#include <algorithm>
#include <tuple>

#include "shared/transducer_beam.hpp"

namespace arcbeam::transducer::beam {

bool Row::read(const Network& network, const Options& options, const float* from, const BeamFusion& fusion,
               const Biases* biases) {
    const Kernels& kernels = network.kernels;
    const Rank best = kernels.rank(from, network.tokens);
    if (!best.finite) {
        return false;
    }
    logits.assign(from, from + network.tokens);
    largest = best.largest;
    log_sum = log_of(kernels.exp_sum(from, network.tokens, largest));
    scores.resize(network.tokens);
    for (std::size_t token = 0; token < scores.size(); ++token) {
        scores[token] = log_prob(from[token], largest, log_sum);
    }
    best_score = log_prob(largest, largest, log_sum);
    if (fusion.is_active()) {
        fuse(network, options.blank, fusion, *biases);
    }
    durations.assign(1, 0.0F);
    best_duration = 0.0F;
    if (!options.durations.empty()) {
        const float* of_durations = from + network.tokens;
        const Rank longest = kernels.rank(of_durations, network.durations);
        if (!longest.finite) {
            return false;
        }
        const float sum = log_of(kernels.exp_sum(of_durations, network.durations, longest.largest));
        durations.resize(network.durations);
        for (std::size_t d = 0; d < durations.size(); ++d) {
            durations[d] = log_prob(of_durations[d], longest.largest, sum);
        }
        best_duration = durations[longest.index];
    }
    confidence = 0.0F;
    if (options.confidence.statistic != Confidence::Statistic::kNone) {
        confidence = confidence_in(options.confidence, kernels, from, network.tokens, largest, log_sum);
    }
    return true;
}

void Row::fuse(const Network& network, std::uint32_t blank, const BeamFusion& fusion, const Biases& biases) {
    const float of_blank = blank_score(scores[blank], fusion.weight());
    if (scores.size() > 1) {
        std::vector<float> scratch;
        const LabelSoftmax labels = softmax_of_labels(network, blank, logits.data(), scratch);
        const float of_labels = log_prob_of_labels(labels.largest, labels.log_sum, largest, log_sum);
        for (std::size_t token = 0; token < scores.size(); ++token) {
            scores[token] = label_score(scores[token], fusion.weight(), of_labels, biases.of_tokens[token]);
        }
    }
    scores[blank] = of_blank;
    best_score = network.kernels.rank(scores.data(), scores.size()).largest;
}

const std::vector<Candidate>& Expansion::expand(const Options& options, const std::vector<Hypothesis>& live,
                                                const std::vector<const Row*>& rows, float passed_over) {
    // Rounding is monotone, so the best token with the best duration makes the best candidate.
    float best = passed_over;
    for (std::size_t rank = 0; rank < live.size(); ++rank) {
        const Row& row = *rows[rank];
        best = std::max(best, score_after(live[rank].score, row.best_score, row.best_duration));
    }
    bound_ = best - options.beam.beam;
    is_finite_ = is_number(best);
    const std::size_t durations = std::max<std::size_t>(options.durations.size(), 1);
    labels_.resize(durations);
    admitted_.clear();
    for (std::vector<Candidate>& labels : labels_) {
        labels.clear();
    }
    for (std::uint32_t rank = 0; is_finite_ && rank < live.size(); ++rank) {
        const Row& row = *rows[rank];
        for (std::uint32_t token = 0; token < row.scores.size(); ++token) {
            if (!admits(score_after(live[rank].score, row.scores[token], row.best_duration))) {
                continue;
            }
            for (std::uint32_t d = 0; d < durations; ++d) {
                const float score = score_after(live[rank].score, row.scores[token], row.durations[d]);
                if (admits(score)) {
                    (token == options.blank ? admitted_ : labels_[d]).push_back({score, rank, token, d});
                }
            }
        }
    }
    for (std::vector<Candidate>& labels : labels_) {
        if (labels.size() > options.beam.max_hypotheses) {
            const auto end = labels.begin() + options.beam.max_hypotheses;
            std::nth_element(labels.begin(), end, labels.end(), [](const Candidate& a, const Candidate& b) {
                return std::tie(b.score, a.rank, a.token) < std::tie(a.score, b.rank, b.token);
            });
            labels.erase(end, labels.end());
        }
        admitted_.insert(admitted_.end(), labels.begin(), labels.end());
    }
    std::sort(admitted_.begin(), admitted_.end(), [&options](const Candidate& a, const Candidate& b) {
        const bool a_writes = a.token != options.blank;
        const bool b_writes = b.token != options.blank;
        return std::tie(a.rank, a_writes, a.token, a.duration) < std::tie(b.rank, b_writes, b.token, b.duration);
    });
    return admitted_;
}

}  // namespace arcbeam::transducer::beam
