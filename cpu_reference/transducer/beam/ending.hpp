// The end of a beam search: the n-best list of the hypotheses that are live then, on either engine.
//
// in    for each, in their rank, its score and the last label of its strongest path in the log
// out   a list by score / length_factor, of equals in their rank
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "shared/transducer_beam.hpp"
#include "transducer/labels.hpp"

namespace arcbeam::transducer::beam {

constexpr std::uint32_t kNothingBefore = 0xffffffffU;

// What the list has.
struct ListOptions {
    float length_power;
    bool has_durations;
    bool has_confidences;
    std::uint32_t labels_before = 0;  // that all paths have before those in the log
};

struct Ended {
    float score;        // relative to the offset
    std::uint32_t log;  // the place of its last label
    Shares shares;
};

// Writes the labels of a path that ends before place `end`.
template <class Log>
void trace(const ListOptions& options, std::uint32_t last, const Log* log, std::size_t end, NBest& list) {
    for (std::uint32_t at = last; at != kNothingBefore; at = log[at].before) {
        const Log& label = log[at];
        --end;
        list.tokens[end] = label.token;
        list.frames[end] = label.frame;
        list.log_probs[end] = label.log_prob;
        if (options.has_durations) {
            list.durations[end] = label.duration;
        }
        if (options.has_confidences) {
            list.confidences[end] = label.confidence;
        }
    }
}

// The place of the best one among them.
template <class Log>
std::size_t list_ended(const ListOptions& options, double offset, const std::vector<Ended>& ended, const Log* log,
                       NBest& list) {
    double sum = 0.0;
    std::vector<std::uint32_t> labels(ended.size());
    std::vector<double> ranks_by(ended.size());
    for (std::size_t i = 0; i < ended.size(); ++i) {
        sum += static_cast<double>(exp_of(ended[i].score));
        for (std::uint32_t at = ended[i].log; at != kNothingBefore; at = log[at].before) {
            ++labels[i];
        }
        const double score = offset + static_cast<double>(ended[i].score);
        ranks_by[i] = score / length_factor(options.labels_before + labels[i], options.length_power);
    }
    std::vector<std::size_t> order(ended.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return ranks_by[a] > ranks_by[b]; });
    const std::size_t all = std::accumulate(labels.begin(), labels.end(), std::size_t{0});
    list = NBest{};
    list.tokens.resize(all);
    list.frames.resize(all);
    list.log_probs.resize(all);
    list.durations.resize(options.has_durations ? all : 0);
    list.confidences.resize(options.has_confidences ? all : 0);
    std::size_t end = 0;
    for (const std::size_t i : order) {
        end += labels[i];
        trace(options, ended[i].log, log, end, list);
        list.ends.push_back(end);
        list.scores.push_back(offset + static_cast<double>(ended[i].score));
        list.posteriors.push_back(static_cast<double>(exp_of(ended[i].score)) / sum);
        list.shares.push_back(ended[i].shares);
    }
    return order.front();
}

}  // namespace arcbeam::transducer::beam
