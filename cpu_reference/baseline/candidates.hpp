// The candidates of one frame: merged, bounded while they come in, and cut to the beam.
//
// Two candidates are one hypothesis if they agree in history, trie node and token. The better one stays; with
// log_add the scores of both are summed. The result does not depend on the order in which candidates come in:
// hypotheses of equal score are ordered by content, namely by history (Histories::compare), then node, then token.
// Candidates of equal score for one hypothesis are ordered by the content of the hypotheses they leave.
//
// A candidate that cannot survive may be turned away early. It cannot if it scores below the best so far minus the
// threshold, or (where scores are not summed) below `beam_size` distinct hypotheses that are already in.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "baseline/histories.hpp"
#include "baseline/options.hpp"

namespace arcbeam::baseline {

// A survivor of the last frame.
struct Hypothesis {
    double score;
    std::uint32_t history;
    std::uint32_t node;
    std::uint32_t log;  // its entry in the log
    std::uint16_t token;
};

struct Candidate {
    double score;
    std::uint32_t history;
    std::uint32_t node;
    std::uint32_t source;  // position in the beam of the hypothesis that it leaves
    std::uint32_t label;
    std::uint32_t next;  // with log_add: another candidate for the same hypothesis
    std::uint16_t token;
    bool advances;  // along the trie; otherwise it stays
};

template <typename T>
int compare_content(const Histories& histories, const T& a, const T& b) {
    if (a.history != b.history) {
        return histories.compare(a.history, b.history);
    }
    if (a.node != b.node) {
        return a.node < b.node ? -1 : 1;
    }
    return a.token == b.token ? 0 : (a.token < b.token ? -1 : 1);
}

class Candidates {
  public:
    void begin(const SearchOptions& options, const std::vector<Hypothesis>& sources, const Histories& histories) {
        beam_size_ = options.beam_size;
        threshold_ = options.beam_threshold;
        log_add_ = options.log_add;
        sources_ = &sources;
        histories_ = &histories;
        best_ = -std::numeric_limits<double>::infinity();
        bound_ = std::numeric_limits<double>::lowest();  // -inf means never
        refresh_at_ = 2 * beam_size_;
        forget_slots();
        merged_.clear();
        waiting_.clear();
    }

    // No candidate below this bound survives.
    [[nodiscard]] double bound() const { return bound_; }

    // Sharpens the bound before candidates whose scoring is expensive.
    void sharpen() {
        if (!log_add_ && merged_.size() > beam_size_) {
            raise_bound();
        }
    }

    void add(const Candidate& candidate) {
        if (!(candidate.score >= bound_)) {
            return;
        }
        if (candidate.score > best_) {
            best_ = candidate.score;
            bound_ = std::max(bound_, best_ - threshold_);
        }
        if (log_add_) {
            waiting_.push_back(candidate);
            return;
        }
        Candidate* found = find_or_insert(candidate);
        if (found != nullptr && wins(candidate, *found)) {
            *found = candidate;
        }
        if (merged_.size() >= refresh_at_) {
            raise_bound();
        }
    }

    // Puts the candidates that stay into `into`: at most beam_size of them, in no particular order.
    void finish(std::vector<Candidate>& into) {
        into.clear();
        if (log_add_) {
            merge_and_sum();
        }
        for (const Candidate& candidate : merged_) {
            if (candidate.score >= bound_) {
                into.push_back(candidate);
            }
        }
        if (into.size() > beam_size_) {
            cut(into);
        }
    }

    // Orders hypotheses: by score, then by content.
    [[nodiscard]] bool precedes(const Candidate& a, const Candidate& b) const {
        return a.score > b.score || (!(a.score < b.score) && compare_content(*histories_, a, b) < 0);
    }

  private:
    static constexpr std::uint32_t kEnd = 0xffffffffU;

    struct Slot {
        std::uint32_t tag;
        std::uint32_t number;
    };

    // Whether a candidate wins over another one for the same hypothesis.
    [[nodiscard]] bool wins(const Candidate& a, const Candidate& over) const {
        return a.score > over.score ||
               (!(a.score < over.score) &&
                compare_content(*histories_, (*sources_)[a.source], (*sources_)[over.source]) < 0);
    }

    // Merged candidates are numbered on from frame to frame, so that the table need not be cleared: a slot whose
    // number is from before the frame is free.
    void forget_slots() {
        first_ += static_cast<std::uint32_t>(merged_.size());
        if (first_ > (1U << 31)) {
            std::fill(table_.begin(), table_.end(), Slot{0, 0});
            first_ = 1;
        }
    }

    static std::uint64_t hash(const Candidate& c) {
        std::uint64_t key = (static_cast<std::uint64_t>(c.history) << 32U | c.node) * 0x9e3779b97f4a7c15U;
        key = (key ^ (key >> 32U) ^ c.token) * 0xd6e8feb86659fd93U;
        return key ^ (key >> 32U);
    }

    // The candidate that was merged for the same hypothesis before. Null if there is none; then this one has been
    // inserted.
    Candidate* find_or_insert(const Candidate& candidate) {
        if (table_.size() < 4 * (merged_.size() + 1)) {
            grow();
        }
        const std::uint64_t key = hash(candidate);
        const auto tag = static_cast<std::uint32_t>(key >> 32U);
        const std::size_t mask = table_.size() - 1;
        std::size_t at = key & mask;
        for (; table_[at].number >= first_; at = (at + 1) & mask) {
            Candidate& found = merged_[table_[at].number - first_];
            if (table_[at].tag == tag && found.history == candidate.history && found.node == candidate.node &&
                found.token == candidate.token) {
                return &found;
            }
        }
        table_[at] = {tag, first_ + static_cast<std::uint32_t>(merged_.size())};
        merged_.push_back(candidate);
        return nullptr;
    }

    void grow() {
        table_.assign(std::max<std::size_t>(1024, 2 * table_.size()), Slot{0, 0});
        first_ = 1;
        const std::size_t mask = table_.size() - 1;
        for (std::uint32_t i = 0; i < merged_.size(); ++i) {
            const std::uint64_t key = hash(merged_[i]);
            std::size_t at = key & mask;
            while (table_[at].number != 0) {
                at = (at + 1) & mask;
            }
            table_[at] = {static_cast<std::uint32_t>(key >> 32U), first_ + i};
        }
    }

    void raise_bound() {
        scores_.clear();
        for (const Candidate& candidate : merged_) {
            if (candidate.score >= bound_) {
                scores_.push_back(candidate.score);
            }
        }
        if (scores_.size() > beam_size_) {
            bound_ = std::max(bound_, last_kept());
        }
        refresh_at_ = merged_.size() + std::max<std::size_t>(beam_size_, 64);
    }

    // The beam_size-th largest of `scores_`.
    double last_kept() {
        const auto last = scores_.begin() + static_cast<std::ptrdiff_t>(beam_size_) - 1;
        std::nth_element(scores_.begin(), last, scores_.end(), std::greater<double>());
        return *last;
    }

    void cut(std::vector<Candidate>& into) {
        scores_.clear();
        for (const Candidate& candidate : into) {
            scores_.push_back(candidate.score);
        }
        const double last = last_kept();
        const auto above =
            std::partition(into.begin(), into.end(), [&](const Candidate& c) { return c.score > last; });
        const auto equal = std::partition(above, into.end(), [&](const Candidate& c) { return !(c.score < last); });
        const auto end = into.begin() + static_cast<std::ptrdiff_t>(beam_size_);
        if (equal > end) {
            std::nth_element(above, end, equal,
                             [this](const Candidate& a, const Candidate& b) { return precedes(a, b); });
        }
        into.erase(end, into.end());
    }

    // Sums the scores of the candidates for one hypothesis, the largest first.
    void merge_and_sum() {
        for (std::uint32_t i = 0; i < waiting_.size(); ++i) {
            waiting_[i].next = kEnd;
            if (!(waiting_[i].score >= bound_)) {
                continue;
            }
            if (Candidate* found = find_or_insert(waiting_[i]); found != nullptr) {
                waiting_[i].next = found->next;
                found->next = i;
            }
        }
        for (Candidate& merged : merged_) {
            if (merged.next == kEnd) {
                continue;
            }
            Candidate winner = merged;
            scores_.assign(1, merged.score);
            for (std::uint32_t i = merged.next; i != kEnd; i = waiting_[i].next) {
                scores_.push_back(waiting_[i].score);
                if (wins(waiting_[i], winner)) {
                    winner = waiting_[i];
                }
            }
            std::sort(scores_.begin(), scores_.end(), std::greater<double>());
            double sum = scores_[0];
            for (std::size_t i = 1; i < scores_.size(); ++i) {
                const double low = std::min(sum, scores_[i]), high = std::max(sum, scores_[i]);
                sum = high + std::log1p(std::exp(low - high));
            }
            merged = winner;
            merged.score = sum;
        }
    }

    std::size_t beam_size_ = 0;
    double threshold_ = 0.0;
    bool log_add_ = false;
    const std::vector<Hypothesis>* sources_ = nullptr;
    const Histories* histories_ = nullptr;
    std::vector<Candidate> merged_;   // one for each hypothesis
    std::vector<Candidate> waiting_;  // with log_add: all, until the bound is known
    std::vector<double> scores_;
    std::vector<Slot> table_;
    std::uint32_t first_ = 1;  // number of the frame's first merged candidate
    std::size_t refresh_at_ = 0;
    double best_ = 0.0;
    double bound_ = 0.0;
};

}  // namespace arcbeam::baseline
