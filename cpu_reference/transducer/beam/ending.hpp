// The end of a beam search: the n-best list of the hypotheses that are live then, on either engine.
//
// in    for each, in their rank, its score and the last label of its strongest path in the log
// out   alternatives by score / length_factor, of equals in their rank
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "shared/transducer_beam.hpp"
#include "transducer/labels.hpp"

namespace arcbeam::transducer::beam {

// What the list has.
struct ListOptions {
    float length_power;
    bool has_durations;
    bool has_confidences;
};

struct Ended {
    float score;        // relative to the offset
    std::uint32_t log;  // the place of its last label; 0xffffffff for none
};

template <class Log>
Alternative traced(const ListOptions& options, std::uint32_t last, const Log* log) {
    Alternative found;
    for (std::uint32_t at = last; at != 0xffffffffU; at = log[at].before) {
        const Log& label = log[at];
        found.tokens.push_back(label.token);
        found.frames.push_back(label.frame);
        found.log_probs.push_back(label.log_prob);
        if (options.has_durations) {
            found.durations.push_back(label.duration);
        }
        if (options.has_confidences) {
            found.confidences.push_back(label.confidence);
        }
    }
    std::reverse(found.tokens.begin(), found.tokens.end());
    std::reverse(found.frames.begin(), found.frames.end());
    std::reverse(found.log_probs.begin(), found.log_probs.end());
    std::reverse(found.durations.begin(), found.durations.end());
    std::reverse(found.confidences.begin(), found.confidences.end());
    return found;
}

template <class Log>
void list_alternatives(const ListOptions& options, double offset, const std::vector<Ended>& ended, const Log* log,
                       std::vector<Alternative>& list) {
    double sum = 0.0;
    for (const Ended& one : ended) {
        sum += static_cast<double>(exp_of(one.score));
    }
    std::vector<std::pair<double, Alternative>> ranked;
    for (const Ended& one : ended) {
        Alternative found = traced(options, one.log, log);
        found.score = offset + static_cast<double>(one.score);
        found.posterior = static_cast<double>(exp_of(one.score)) / sum;
        const auto labels = static_cast<std::uint32_t>(found.tokens.size());
        const double ranks_by = found.score / length_factor(labels, options.length_power);
        ranked.emplace_back(ranks_by, std::move(found));
    }
    std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    list.clear();
    for (auto& [ranks_by, found] : ranked) {
        list.push_back(std::move(found));
    }
}

}  // namespace arcbeam::transducer::beam
