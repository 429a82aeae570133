#include "transducer/beam/lane.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace arcbeam::transducer::beam {

void Lane::begin(const Network& network, const Options& options, const Utterance& utterance, Result& result,
                 AlignedFloats& scratch) {
    network_ = &network;
    options_ = &options;
    result_ = &result;
    frames_ = utterance.input.frames;
    offset_ = 0.0;
    fusion_.begin(network, utterance.fusion, options.beam.ilm_scale, options.blank);
    tree_.reset(Fused{utterance.fusion_start});
    buckets_.clear();
    log_.clear();
    live_.clear();
    place_ = {0, 0};
    if (!encoder_.begin(network, utterance.input, result.bad)) {
        result.outcome = Outcome::kBadInput;
        frames_ = 0;
        return;
    }
    buckets_[0].add({PrefixTree::kRoot, 0.0F, 0.0F, kNoLabel, false, {}}, options.beam.sums);
    go_to_next_frame(scratch);
}

void Lane::request(std::vector<Prediction*>& predictions) {
    without_biases_.clear();
    untested_.clear();
    for (const Hypothesis& one : live_) {
        if (row_of(one.node) != nullptr) {
            continue;
        }
        untested_.push_back(one.node);
        if (tree_.tested(one.node) == nullptr) {
            predictions.push_back(tree_.begin_prediction(one.node, *network_, options_->blank));
            if (fusion_.is_active()) {
                without_biases_.push_back(one.node);
            }
        }
    }
}

void Lane::end_by_bad_logits() {
    result_->outcome = Outcome::kNotFinite;
    result_->bad.frame = static_cast<std::uint32_t>(place_.frame);
    frames_ = 0;
}

void Lane::take_biases(std::uint32_t node, const float* logits) {
    if (is_active() && !fusion_.fill(tree_.fused(node), logits, tree_.tested(node)->biases)) {
        end_by_bad_logits();
    }
}

void Lane::take(std::uint32_t node, const float* logits) {
    Row row{};
    row.node = node;
    if (is_active() && !row.read(*network_, *options_, logits, fusion_, &tree_.tested(node)->biases)) {
        end_by_bad_logits();
    }
    rows_.push_back(std::move(row));
}

const Row* Lane::row_of(std::uint32_t node) const {
    const auto found =
        std::find_if(rows_.begin(), rows_.end(), [node](const Row& row) { return row.node == node; });
    return found == rows_.end() ? nullptr : &*found;
}

void Lane::advance(AlignedFloats& scratch) {
    std::vector<const Row*> rows;
    rows.reserve(live_.size());
    for (const Hypothesis& one : live_) {
        rows.push_back(row_of(one.node));
    }
    float passed_over = -INFINITY;
    for (const auto& [frame, bucket] : buckets_) {
        passed_over = std::max(passed_over, bucket.best());
    }
    Bucket deeper;
    for (const Candidate& candidate : expansion_.expand(*options_, live_, rows, passed_over)) {
        add(deeper, live_[candidate.rank], *rows[candidate.rank], candidate);
    }
    live_.clear();
    if (!deeper.hypotheses.empty()) {
        live_ = cut_off(deeper, std::max(expansion_.bound(), overtaken()), options_->beam.max_hypotheses);
    }
    if (live_.empty()) {
        go_to_next_frame(scratch);
        return;
    }
    ++place_.symbols;
    write_labels();
}

float Lane::overtaken() const {
    std::vector<std::pair<std::uint32_t, float>> histories;
    for (const auto& [frame, bucket] : buckets_) {
        for (const Hypothesis& one : bucket.hypotheses) {
            histories.emplace_back(one.node, -one.score);
        }
    }
    std::sort(histories.begin(), histories.end());  // by history, its best score first
    const auto end = std::unique(histories.begin(), histories.end(),
                                 [](const auto& a, const auto& b) { return a.first == b.first; });
    const auto most = static_cast<std::ptrdiff_t>(options_->beam.max_hypotheses);
    if (end - histories.begin() < most) {
        return -INFINITY;
    }
    const auto last = histories.begin() + most - 1;
    std::nth_element(histories.begin(), last, end,
                     [](const auto& a, const auto& b) { return a.second < b.second; });
    return -last->second;
}

void Lane::add(Bucket& deeper, const Hypothesis& source, const Row& row, const Candidate& candidate) {
    const bool writes = candidate.token != options_->blank;
    const std::uint32_t duration = options_->durations.empty() ? 0U : options_->durations[candidate.duration];
    const Place next =
        writes ? after_label(place_, duration, options_->max_symbols) : after_blank(place_, duration);
    const float token = row.token(candidate.token);
    Hypothesis made = source;
    made.score = candidate.score;
    made.path = score_after(source.path, row.scores[candidate.token], row.durations[candidate.duration]);
    if (writes) {
        made.node = tree_.child(source.node, candidate.token, fusion_);
        made.is_written = true;
        made.label = {source.log, candidate.token, place_.frame, duration, token, row.confidence};
    }
    Bucket& bucket = next.frame == place_.frame ? deeper : buckets_[std::min(next.frame, frames_)];
    bucket.add(made, options_->beam.sums);
}

void Lane::go_to_next_frame(AlignedFloats& scratch) {
    const BeamOptions& beam = options_->beam;
    do {
        const auto first = buckets_.begin();
        float best = -INFINITY;
        for (const auto& [frame, bucket] : buckets_) {
            best = std::max(best, bucket.best());
        }
        for (auto& [frame, bucket] : buckets_) {
            bucket.rescale(best);
        }
        offset_ += static_cast<double>(best);
        place_ = {first->first, 0U};
        live_ = cut_off(first->second, -beam.beam, beam.max_hypotheses);
        buckets_.erase(first);
    } while (live_.empty());
    write_labels();
    rows_.clear();
    if (is_active()) {
        encoder_.project(place_.frame, scratch);
    }
    std::vector<std::uint32_t> nodes;
    for (const Hypothesis& one : live_) {
        nodes.push_back(one.node);
    }
    for (const auto& [frame, bucket] : buckets_) {
        for (const Hypothesis& one : bucket.hypotheses) {
            nodes.push_back(one.node);
        }
    }
    tree_.keep(nodes);
}

void Lane::write_labels() {
    for (Hypothesis& one : live_) {
        if (one.is_written) {
            one.log = static_cast<std::uint32_t>(log_.size());
            one.is_written = false;
            log_.push_back(one.label);
        }
    }
}

void Lane::end() {
    if (result_->outcome != Outcome::kDecoded) {
        return;
    }
    const float power = options_->beam.length_power;
    double sum = 0.0;
    for (const Hypothesis& one : live_) {
        sum += static_cast<double>(exp_of(one.score));
    }
    std::vector<std::pair<double, Alternative>> ranked;
    for (const Hypothesis& one : live_) {
        Alternative found = traced(one);
        add_shares(one.node, found);
        found.score = offset_ + static_cast<double>(one.score);
        found.posterior = static_cast<double>(exp_of(one.score)) / sum;
        const double ranks_by = found.score / length_factor(tree_.labels(one.node), power);
        ranked.emplace_back(ranks_by, std::move(found));
    }
    std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    for (auto& [ranks_by, found] : ranked) {
        result_->nbest.push_back(std::move(found));
    }
}

void Lane::add_shares(std::uint32_t node, Alternative& found) const {
    std::vector<const Fused*> labels;
    for (; fusion_.is_active() && node != PrefixTree::kRoot; node = tree_.parent(node)) {
        labels.push_back(&tree_.fused(node));
    }
    for (auto one = labels.rbegin(); one != labels.rend(); ++one) {
        for (std::size_t i = 0; i < kFusionModels; ++i) {
            found.shares[i] += static_cast<double>((*one)->shares[i]);
        }
        found.ilm_share += static_cast<double>((*one)->ilm_share);
    }
}

Alternative Lane::traced(const Hypothesis& hypothesis) const {
    Alternative found;
    for (std::uint32_t at = hypothesis.log; at != kNoLabel; at = log_[at].before) {
        const Label& label = log_[at];
        found.tokens.push_back(label.token);
        found.frames.push_back(label.frame);
        found.log_probs.push_back(label.log_prob);
        if (!options_->durations.empty()) {
            found.durations.push_back(label.duration);
        }
        if (options_->confidence.statistic != Confidence::Statistic::kNone) {
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

}  // namespace arcbeam::transducer::beam
