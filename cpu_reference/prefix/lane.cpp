#include "prefix/lane.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace arcbeam::prefix {

namespace {

constexpr std::size_t kFewestSlots = 1024;

std::uint64_t mixed(std::uint64_t key) {
    key *= 0x9e3779b97f4a7c15U;
    return key ^ (key >> 32U);
}

std::uint64_t hash_of(std::uint32_t history, std::uint32_t part, std::uint32_t last) {
    return mixed(mixed(static_cast<std::uint64_t>(history) << 32U | part) ^ last);
}

double log_sum(double a, double b) {
    const double high = std::max(a, b), low = std::min(a, b);
    return high + std::log(1.0 + std::exp(low - high));
}

}  // namespace

void Lane::decode(const Utterance& utterance, const std::atomic<bool>& cancelled, Result& result) {
    request_ = utterance.request;
    begin();
    for (std::size_t frame = 0; frame < utterance.frames; ++frame) {
        if (cancelled.load(std::memory_order_relaxed)) {
            result.outcome = Outcome::kCancelled;
            return;
        }
        step(utterance, frame);
    }
    end(result);
}

void Lane::begin() {
    parts_.begin(*request_);
    const bool has_start = !request_->start.empty();
    std::vector<unsigned char> start(request_->start);
    if (model_.lm != nullptr && !has_start) {
        start.resize(model_.lm->state_size());
        if (request_->boundary) {
            model_.lm->begin_sentence(start.data());
        } else {
            model_.lm->null_context(start.data());
        }
    }
    histories_.begin(model_.lm, &parts_.indices(), start.data());
    said_.assign(1, {0.0, 0});
    ended_.clear();
    beam_.assign(1, {0.0, baseline::Histories::kEmpty, Parts::kNothing, kNone, kNone, {-1, -1}});
    table_.assign(kFewestSlots, kNone);
}

void Lane::step(const Utterance& utterance, std::size_t frame) {
    candidates_.clear();
    std::fill(table_.begin(), table_.end(), kNone);
    const auto now = static_cast<std::int32_t>(frame);
    for (std::int64_t i = utterance.offsets[frame]; i < utterance.offsets[frame + 1]; ++i) {
        const std::uint32_t column = utterance.columns[i];
        const Symbol& symbol = model_.symbols[column];
        for (const Hypothesis& from : beam_) {
            Candidate next{from, {-1, -1}, false, 0, 0, 0.0};
            next.to.acoustic += utterance.log_probs[i];
            next.to.last = symbol.number;
            const bool breaks =
                symbol.kind == Kind::kStart || (parts_.ends(from.part) && symbol.kind == Kind::kInside);
            if (symbol.kind == Kind::kBlank) {
                // The word and its frames stay.
            } else if (from.last == symbol.number) {
                next.to.frames.end = now + 1;
            } else if (breaks || symbol.kind == Kind::kSpace) {
                next.closes = !parts_.text(from.part).empty();
                next.closed = from.frames;
                next.to.history = next.closes ? say(from.history, from.part) : from.history;
                next.to.part = breaks ? parts_.fresh(column) : Parts::kNothing;
                next.to.frames = breaks ? Frames{now, now + 1} : Frames{-1, -1};
            } else {
                next.to.part = parts_.extended(from.part, column);
                next.to.frames = {from.frames.start < 0 ? now : from.frames.start, now + 1};
            }
            add(next);
        }
    }
    for (Candidate& candidate : candidates_) {
        candidate.total = total(candidate.to);
    }
    keep_best();
    beam_.clear();
    for (const std::uint32_t i : order_) {
        Candidate& kept = candidates_[i];
        if (kept.closes) {
            ended_.push_back({kept.to.ended, kept.closed});
            kept.to.ended = static_cast<std::uint32_t>(ended_.size() - 1);
        }
        beam_.push_back(kept.to);
    }
    if (request_->prune_history) {
        forget_twins();
    }
}

// Candidates for the same hypothesis are one, with the sum of their probabilities and the times of the last one.
void Lane::add(const Candidate& candidate) {
    if (table_.size() < 2 * (candidates_.size() + 1)) {
        grow();
    }
    const Hypothesis& to = candidate.to;
    std::size_t at = hash_of(to.history, to.part, to.last) & (table_.size() - 1);
    for (; table_[at] != kNone; at = (at + 1) & (table_.size() - 1)) {
        Candidate& found = candidates_[table_[at]];
        if (found.to.history == to.history && found.to.part == to.part && found.to.last == to.last) {
            const double sum = log_sum(found.to.acoustic, to.acoustic);
            found = candidate;
            found.to.acoustic = sum;
            return;
        }
    }
    table_[at] = static_cast<std::uint32_t>(candidates_.size());
    candidates_.push_back(candidate);
}

void Lane::grow() {
    table_.assign(table_.size() * 2, kNone);
    for (std::uint32_t i = 0; i < candidates_.size(); ++i) {
        const Hypothesis& to = candidates_[i].to;
        std::size_t at = hash_of(to.history, to.part, to.last) & (table_.size() - 1);
        while (table_[at] != kNone) {
            at = (at + 1) & (table_.size() - 1);
        }
        table_[at] = i;
    }
}

// Puts the best candidates into `order_`, best first; of equal ones the earlier comes first.
void Lane::keep_best() {
    double most = -std::numeric_limits<double>::infinity();
    for (const Candidate& candidate : candidates_) {
        most = std::max(most, candidate.total);
    }
    const double least = most + request_->beam_prune;
    order_.clear();
    for (std::uint32_t i = 0; i < candidates_.size(); ++i) {
        if (candidates_[i].total >= least) {
            order_.push_back(i);
        }
    }
    const auto precedes = [this](std::uint32_t a, std::uint32_t b) {
        const double x = candidates_[a].total, y = candidates_[b].total;
        return x > y || (!(x < y) && a < b);
    };
    if (order_.size() > request_->beam_width) {
        std::nth_element(order_.begin(), order_.begin() + (request_->beam_width - 1), order_.end(), precedes);
        order_.resize(request_->beam_width);
    }
    std::sort(order_.begin(), order_.end(), precedes);
}

// Of hypotheses that only differ in words that the language model no longer sees, the best stays.
void Lane::forget_twins() {
    std::fill(table_.begin(), table_.end(), kNone);
    std::size_t kept = 0;
    for (const Hypothesis& hypothesis : beam_) {
        std::size_t at = hash_of_twin(hypothesis) & (table_.size() - 1);
        while (table_[at] != kNone && !are_twins(beam_[table_[at]], hypothesis)) {
            at = (at + 1) & (table_.size() - 1);
        }
        if (table_[at] == kNone) {
            table_[at] = static_cast<std::uint32_t>(kept);
            beam_[kept++] = hypothesis;
        }
    }
    beam_.resize(kept);
}

bool Lane::are_twins(const Hypothesis& a, const Hypothesis& b) const {
    if (a.part != b.part || a.last != b.last) {
        return false;
    }
    std::uint32_t x = a.history, y = b.history;
    const unsigned seen = model_.lm == nullptr ? 1 : std::max(2U, model_.lm->order()) - 1;
    for (unsigned i = 0; i < seen && x != y; ++i) {
        if (x == baseline::Histories::kEmpty || y == baseline::Histories::kEmpty ||
            histories_.label(x) != histories_.label(y)) {
            return false;
        }
        x = histories_.parent(x);
        y = histories_.parent(y);
    }
    return true;
}

std::uint64_t Lane::hash_of_twin(const Hypothesis& hypothesis) const {
    const std::uint32_t history = hypothesis.history;
    return hash_of(history == baseline::Histories::kEmpty ? kNone : histories_.label(history), hypothesis.part,
                   hypothesis.last);
}

// The history after the part has become a word.
std::uint32_t Lane::say(std::uint32_t history, std::uint32_t part) {
    const std::uint32_t word = parts_.word(part);
    const auto [next, lm] = histories_.extend(history, word);
    if (next == said_.size()) {
        const Said before = said_[history];
        said_.push_back({before.lm + word_score(lm, word, 0.0), before.hotwords + (parts_.is_hot(word) ? 1 : 0)});
    }
    return next;
}

double Lane::word_score(float lm, std::uint32_t word, double end) const {
    if (model_.lm == nullptr) {
        return 0.0;
    }
    const double log10 = static_cast<double>(lm) + (parts_.is_unknown(word) ? request_->unknown : 0.0) + end;
    return request_->alpha * log10 * request_->to_natural + request_->beta;
}

double Lane::total(const Hypothesis& hypothesis) const {
    const Said& said = said_[hypothesis.history];
    const double words = said.lm + request_->hotword_weight * said.hotwords;
    const double part = parts_.score(hypothesis.part);
    // The order of the sums is that of pyctcdecode, whose scores are to be the same.
    return model_.lm == nullptr ? hypothesis.acoustic + words + part : hypothesis.acoustic + (words + part);
}

void Lane::end(Result& result) {
    candidates_.clear();
    std::fill(table_.begin(), table_.end(), kNone);
    for (const Hypothesis& from : beam_) {
        Candidate last{from, from.frames, !parts_.text(from.part).empty(), from.history, from.part, 0.0};
        last.to.history = last.closes ? say(from.history, from.part) : from.history;
        last.to.part = Parts::kNothing;
        last.to.last = kNone;
        add(last);
    }
    for (Candidate& candidate : candidates_) {
        candidate.total = final_total(candidate);
    }
    keep_best();
    order_.resize(std::min<std::size_t>(order_.size(), request_->nbest));
    for (const std::uint32_t i : order_) {
        result.answers.push_back(answer(candidates_[i]));
    }
}

// The last word is scored together with the end of the sentence. After a space there is none, and pyctcdecode
// scores an empty one, which no language model has.
double Lane::final_total(const Candidate& candidate) {
    const std::uint32_t word = parts_.word(candidate.word);
    const auto [after, lm] = histories_.extend(candidate.source, word);
    if (after == said_.size()) {
        said_.push_back({0.0, 0});  // nothing follows it
    }
    const bool ends = model_.lm != nullptr && request_->boundary;
    const double end = ends ? static_cast<double>(histories_.finish(after)) : 0.0;
    const double words = said_[candidate.source].lm + word_score(lm, word, end);
    return candidate.to.acoustic + (words + request_->hotword_weight * said_[candidate.to.history].hotwords);
}

Answer Lane::answer(const Candidate& candidate) {
    Answer found{"", {}, candidate.to.acoustic, candidate.total, {}};
    if (candidate.closes) {
        found.frames.push_back(candidate.closed);
    }
    for (std::uint32_t at = candidate.to.ended; at != kNone; at = ended_[at].before) {
        found.frames.push_back(ended_[at].frames);
    }
    std::reverse(found.frames.begin(), found.frames.end());
    std::vector<std::uint32_t> words;
    for (std::uint32_t at = candidate.to.history; at != baseline::Histories::kEmpty; at = histories_.parent(at)) {
        words.push_back(histories_.label(at));
    }
    for (auto word = words.rbegin(); word != words.rend(); ++word) {
        found.text += (found.text.empty() ? "" : " ") + parts_.text(*word);
    }
    if (model_.lm != nullptr) {
        const unsigned char* state =
            histories_.state(histories_.extend(candidate.source, parts_.word(candidate.word)).history);
        found.state.assign(state, state + model_.lm->state_size());
    }
    return found;
}

}  // namespace arcbeam::prefix
