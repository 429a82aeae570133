// The word histories of one utterance: the labels that a hypothesis has written, and the language model's state
// after them.
//
// A history is a label after another history, so two hypotheses have written the same labels exactly if their
// histories have the same number. Numbers are assigned as histories are first met. They are compared only for
// equality; compare() orders histories by their labels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "baseline/options.hpp"
#include "kenlm/kenlm.hpp"

namespace arcbeam::baseline {

class Histories {
  public:
    static constexpr std::uint32_t kEmpty = 0;

    // `words[label]` is the model's index of a label; a vector may grow. Without a model every word scores 0.
    // `start` is the model's state after the empty history; null: that of the beginning of a sentence.
    void begin(const KenLm* lm, const std::vector<std::uint32_t>* words, const void* start = nullptr) {
        lm_ = lm;
        words_ = words;
        stride_ = lm == nullptr ? 0 : (lm->state_size() + 7) / 8 * 8;
        entries_.clear();
        states_.clear();
        slots_.assign(1U << 12, Slot{});
        entries_.push_back({kEmpty, kNoLabel, 0, 0.0F, 0.0F});
        if (lm_ != nullptr) {
            states_.resize(stride_);
            if (start == nullptr) {
                lm_->begin_sentence(states_.data());
            } else {
                std::memcpy(states_.data(), start, lm_->state_size());
            }
            entries_[kEmpty].most = lm_->most(states_.data());
        }
    }

    struct Extension {
        std::uint32_t history;
        float score;
    };

    // The history that results when `label` follows `from`, and the label's score there.
    Extension extend(std::uint32_t from, std::uint32_t label) {
        std::size_t at = place(from, label);
        for (; slots_[at].history != 0; at = (at + 1) & (slots_.size() - 1)) {
            if (slots_[at].parent == from && slots_[at].label == label) {
                return {slots_[at].history, slots_[at].score};
            }
        }
        const auto made = static_cast<std::uint32_t>(entries_.size());
        Entry entry{from, label, entries_[from].words + 1, 0.0F, 0.0F};
        if (lm_ != nullptr) {
            states_.resize(states_.size() + stride_);
            entry.score = lm_->score(state(from), (*words_)[label], state(made));
            entry.most = lm_->most(state(made));
        }
        entries_.push_back(entry);
        slots_[at] = {from, label, made, entry.score};
        if (entries_.size() * 2 > slots_.size()) {
            rehash(slots_.size() * 4);
        }
        return {made, entry.score};
    }

    // Prefetches the memory that extend() will read first.
    void prefetch(std::uint32_t from, std::uint32_t label) const {
        __builtin_prefetch(&slots_[place(from, label)]);
    }

    // No label scores more than this after the history.
    [[nodiscard]] float most(std::uint32_t history) const { return entries_[history].most; }

    // Score of the sentence's end.
    float finish(std::uint32_t history) {
        if (lm_ == nullptr) {
            return 0.0F;
        }
        ended_.resize(stride_);
        return lm_->score(state(history), lm_->end_sentence(), ended_.data());
    }

    [[nodiscard]] std::uint32_t parent(std::uint32_t history) const { return entries_[history].parent; }
    [[nodiscard]] std::uint32_t label(std::uint32_t history) const { return entries_[history].label; }
    [[nodiscard]] unsigned char* state(std::size_t history) { return states_.data() + history * stride_; }

    // Histories with fewer labels come first, then the one with the smaller label at the last place at which they
    // differ. Returns -1, 0 or 1.
    [[nodiscard]] int compare(std::uint32_t a, std::uint32_t b) const {
        if (entries_[a].words != entries_[b].words) {
            return entries_[a].words < entries_[b].words ? -1 : 1;
        }
        for (; a != b; a = entries_[a].parent, b = entries_[b].parent) {
            if (entries_[a].label != entries_[b].label) {
                return entries_[a].label < entries_[b].label ? -1 : 1;
            }
        }
        return 0;
    }

    [[nodiscard]] std::size_t size() const { return entries_.size(); }

    // Forgets all histories that are neither in use nor the beginning of one that is. `mark` gets a function that
    // it must call for each history in use; `renumber` gets a function that returns a history's new number.
    template <typename Mark, typename Renumber>
    void collect(Mark mark, Renumber renumber) {
        renumbered_.assign(entries_.size(), 0);
        mark([this](std::uint32_t history) { renumbered_[history] = 1; });
        for (std::size_t i = entries_.size(); --i > 0;) {
            renumbered_[entries_[i].parent] |= renumbered_[i];
        }
        std::size_t kept = 1;
        renumbered_[kEmpty] = kEmpty;
        for (std::size_t i = 1; i < entries_.size(); ++i) {
            if (renumbered_[i] == 0) {
                continue;
            }
            entries_[kept] = entries_[i];
            entries_[kept].parent = renumbered_[entries_[i].parent];
            if (stride_ != 0) {
                std::memcpy(state(kept), state(i), stride_);
            }
            renumbered_[i] = static_cast<std::uint32_t>(kept++);
        }
        entries_.resize(kept);
        states_.resize(kept * stride_);
        rehash(slots_.size());
        renumber([this](std::uint32_t history) { return renumbered_[history]; });
    }

  private:
    struct Entry {
        std::uint32_t parent, label, words;
        float score, most;
    };

    // A copy of the values that extend() compares, all in one place of memory. History 0 extends none, and marks a
    // free slot.
    struct Slot {
        std::uint32_t parent, label, history;
        float score;
    };

    // The highest bits of the product depend on all bits of the key.
    [[nodiscard]] std::size_t place(std::uint32_t from, std::uint32_t label) const {
        return static_cast<std::size_t>((static_cast<std::uint64_t>(from) << 32U | label) * 0x9e3779b97f4a7c15U >>
                                        32U) &
               (slots_.size() - 1);
    }

    void rehash(std::size_t size) {
        slots_.assign(size, Slot{});
        for (std::uint32_t i = 1; i < entries_.size(); ++i) {
            std::size_t at = place(entries_[i].parent, entries_[i].label);
            while (slots_[at].history != 0) {
                at = (at + 1) & (slots_.size() - 1);
            }
            slots_[at] = {entries_[i].parent, entries_[i].label, i, entries_[i].score};
        }
    }

    const KenLm* lm_ = nullptr;
    const std::vector<std::uint32_t>* words_ = nullptr;
    std::size_t stride_ = 0;  // bytes of a state
    std::vector<Entry> entries_;
    std::vector<unsigned char> states_;
    std::vector<unsigned char> ended_;
    std::vector<Slot> slots_;  // open addressing
    std::vector<std::uint32_t> renumbered_;
};

}  // namespace arcbeam::baseline
