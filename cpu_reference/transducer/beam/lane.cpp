#include "transducer/beam/lane.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "transducer/beam/chunk_end.hpp"

namespace arcbeam::transducer::beam {

void Lane::begin(const Network& network, const Options& options, const Utterance& utterance, Result& result,
                 AlignedFloats& scratch) {
    network_ = &network;
    options_ = &options;
    result_ = &result;
    frames_ = utterance.input.frames;
    fusion_.begin(network, utterance.fusion, options.beam.ilm_scale, options.blank);
    contexts_.reset(options.beam.merge_context);
    lattice_.reset(utterance.keeps_lattice);
    live_.clear();
    place_ = {0, 0};
    leaves_state_ = utterance.beam_from != nullptr;
    restore(leaves_state_ ? *utterance.beam_from : BeamState::begun(0, utterance.fusion_start));
    if (!encoder_.begin(network, utterance.input, result.bad)) {
        result.outcome = Outcome::kBadInput;
        frames_ = 0;
        return;
    }
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
        }
        if (fusion_.is_active() && tree_.tested(one.node)->biases.of_tokens.empty()) {
            without_biases_.push_back(one.node);
        }
    }
    Work& work = result_->work;
    work.frames += place_.symbols == 0 ? 1 : 0;
    work.live += place_.symbols == 0 ? static_cast<std::int64_t>(live_.size()) : 0;
    work.runs += untested_.empty() ? 0 : 1;
    work.rows += static_cast<std::int64_t>(untested_.size());
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
        add(deeper, *rows[candidate.rank], candidate);
    }
    live_.clear();
    if (!expansion_.is_finite()) {
        end_by_bad_logits();
        return;
    }
    if (!deeper.hypotheses.empty()) {
        ++place_.symbols;
        live_from(deeper, std::max(expansion_.bound(), overtaken()));
    }
    if (live_.empty()) {
        go_to_next_frame(scratch);
        return;
    }
    write_labels(live_);
}

void Lane::live_from(Bucket& bucket, float bound) {
    contexts_.merge(bucket, tree_);
    live_ = cut_off(bucket, bound, options_->beam.max_hypotheses);
    lattice_.add(bucket.arrivals, live_, place_, [this](std::uint32_t node) { return contexts_.of(node, tree_); });
}

float Lane::overtaken() {
    std::vector<std::pair<std::uint32_t, float>> histories;
    for (const auto& [frame, bucket] : buckets_) {
        for (const Hypothesis& one : bucket.hypotheses) {
            histories.emplace_back(contexts_.of(one.node, tree_), -one.score);
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

void Lane::add(Bucket& deeper, const Row& row, const Candidate& candidate) {
    const Hypothesis& source = live_[candidate.rank];
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
        made.label = {source.log, candidate.token, frames_before_ + place_.frame, duration, token, row.confidence};
    }
    Bucket& bucket = next.frame == place_.frame ? deeper : buckets_[next.frame];
    bucket.add(made, options_->beam.sums);
    if (lattice_.is_kept()) {
        const float more = row.durations[candidate.duration];
        bucket.arrivals.push_back({made.node,
                                   {lattice_.live(candidate.rank), 0U, candidate.token, candidate.duration,
                                    step_score(token, more), step_score(row.scores[candidate.token], more)}});
    }
}

void Lane::go_to_next_frame(AlignedFloats& scratch) {
    do {
        const auto first = buckets_.begin();
        if (first->first >= frames_) {
            place_ = {frames_, 0U};
            return;
        }
        float best = -INFINITY;
        for (const auto& [frame, bucket] : buckets_) {
            best = std::max(best, bucket.best());
        }
        for (auto& [frame, bucket] : buckets_) {
            bucket.rescale(best);
        }
        offset_ += static_cast<double>(best);
        place_ = {first->first, 0U};
        if (options_->beam.settle_frames > 0U) {
            settle(frames_before_ + place_.frame);
        }
        live_from(first->second, -options_->beam.beam);
        buckets_.erase(first);
    } while (live_.empty());
    write_labels(live_);
    rows_.clear();
    encoder_.project(place_.frame, scratch);
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
    lattice_.shorten(buckets_);
}

// Drops hypotheses that begin otherwise than the best one does with its labels before so many frames.
void Lane::settle(std::int64_t frame) {
    const Hypothesis* best = nullptr;
    for (const auto& [number, bucket] : buckets_) {
        for (const Hypothesis& one : bucket.hypotheses) {
            best = best == nullptr || one.score > best->score ? &one : best;
        }
    }
    const std::int64_t first = frame - std::int64_t{options_->beam.settle_frames};
    std::uint32_t kept = best->node;
    if (best->is_written && best->label.frame >= first) {
        kept = tree_.parent(kept);
    }
    for (std::uint32_t at = best->log; at != kNoLabel && log_[at].frame >= first; at = log_[at].before) {
        kept = tree_.parent(kept);
    }
    const auto begins_otherwise = [this, kept](const Hypothesis& one) {
        std::uint32_t node = one.node;
        while (node > kept) {
            node = tree_.parent(node);  // which comes before it
        }
        return node != kept;
    };
    for (auto at = buckets_.begin(); at != buckets_.end();) {
        Bucket& bucket = at->second;
        std::vector<Hypothesis>& all = bucket.hypotheses;
        all.erase(std::remove_if(all.begin(), all.end(), begins_otherwise), all.end());
        bucket.places.clear();
        for (std::size_t i = 0; i < all.size(); ++i) {
            bucket.places[all[i].node] = i;
        }
        at = all.empty() && at != buckets_.begin() ? buckets_.erase(at) : std::next(at);
    }
}

void Lane::write_labels(std::vector<Hypothesis>& hypotheses) {
    for (Hypothesis& one : hypotheses) {
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
    if (leaves_state_) {
        leave(result_->beam_state, result_->settled);
    }
    Bucket all;
    for (const auto& [frame, bucket] : buckets_) {
        for (const Hypothesis& one : bucket.hypotheses) {
            all.add(one, options_->beam.sums);
        }
        all.arrivals.insert(all.arrivals.end(), bucket.arrivals.begin(), bucket.arrivals.end());
    }
    const float best = all.best();
    all.rescale(best);
    offset_ += static_cast<double>(best);
    live_from(all, -options_->beam.beam);
    write_labels(live_);
    const ListOptions options{options_->beam.length_power, !options_->durations.empty(),
                              options_->confidence.statistic != Confidence::Statistic::kNone, labels_before_};
    const std::size_t first = list_live(options, offset_, live_, tree_, fusion_.is_active(), log_, result_->nbest);
    result_->state.fusion = tree_.fused(live_[first].node).states;
    result_->lattice = lattice_.take();
}

}  // namespace arcbeam::transducer::beam
