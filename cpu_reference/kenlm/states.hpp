// The histories of one utterance in a KenLM model: each state is kept once, under a number.
//
// Numbers are assigned as states are first met. They are compared only for equality; precedes() orders states by
// their words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kenlm/kenlm.hpp"

namespace arcbeam {

class KenLmStates {
  public:
    // `ranks[word]` is the place of a word in the order of words, where `word` is the model's number of it.
    void begin(const KenLm& lm, const std::uint32_t* ranks) {
        lm_ = &lm;
        ranks_ = ranks;
        count_ = 0;
        bytes_.clear();
        slots_.assign(kFewest, kNone);
    }

    [[nodiscard]] std::size_t size() const { return count_; }
    [[nodiscard]] const void* operator[](std::uint32_t number) const {
        return bytes_.data() + number * lm_->state_size();
    }

    // The number of a state, whose bytes must not be one of the states kept here; a new state gets the next number.
    std::uint32_t number(const void* state) {
        std::size_t at = place(state);
        for (; slots_[at] != kNone; at = (at + 1) & (slots_.size() - 1)) {
            if (are_equal((*this)[slots_[at]], state)) {
                return slots_[at];
            }
        }
        slots_[at] = add(state);
        if (count_ * std::size_t{2} > slots_.size()) {
            rehash(slots_.size() * 4);
        }
        return count_ - 1;
    }

    // The state with fewer words comes first, then the one with the lower word at the newest place where they
    // differ.
    [[nodiscard]] bool precedes(std::uint32_t a, std::uint32_t b) const {
        const void* const first = (*this)[a];
        const void* const second = (*this)[b];
        const std::size_t length = lm_->length(first);
        if (length != lm_->length(second)) {
            return length < lm_->length(second);
        }
        for (std::size_t i = 0; i < length; ++i) {
            const std::uint32_t x = ranks_[KenLm::word_of(first, i)];
            const std::uint32_t y = ranks_[KenLm::word_of(second, i)];
            if (x != y) {
                return x < y;
            }
        }
        return false;
    }

    // Forgets all states except those for which keep() is called between these two; keep() returns their new
    // numbers.
    void begin_collection() {
        old_.swap(bytes_);
        renumbered_.assign(count_, kNone);
        bytes_.clear();
        count_ = 0;
    }
    std::uint32_t keep(std::uint32_t number) {
        if (renumbered_[number] == kNone) {
            renumbered_[number] = add(old_.data() + number * lm_->state_size());
        }
        return renumbered_[number];
    }
    void end_collection() {
        old_.clear();
        old_.shrink_to_fit();
        rehash(kFewest);
    }

  private:
    static constexpr std::uint32_t kNone = 0xffffffffU;
    static constexpr std::size_t kFewest = 1U << 10;

    std::uint32_t add(const void* state) {
        bytes_.resize(bytes_.size() + lm_->state_size());
        std::memcpy(bytes_.data() + count_ * lm_->state_size(), state, lm_->state_size());
        return count_++;
    }

    [[nodiscard]] bool are_equal(const void* a, const void* b) const {
        return lm_->length(a) == lm_->length(b) && std::memcmp(a, b, 4 * lm_->length(a)) == 0;
    }

    [[nodiscard]] std::size_t place(const void* state) const {
        std::uint64_t mixed = lm_->length(state);
        for (std::size_t i = 0; i < lm_->length(state); ++i) {
            mixed = (mixed ^ KenLm::word_of(state, i)) * 0x9e3779b97f4a7c15U;
            mixed ^= mixed >> 32U;
        }
        return static_cast<std::size_t>(mixed) & (slots_.size() - 1);
    }

    void rehash(std::size_t size) {
        while (count_ * std::size_t{2} > size) {
            size *= 4;
        }
        slots_.assign(size, kNone);
        for (std::uint32_t number = 0; number < count_; ++number) {
            std::size_t at = place((*this)[number]);
            while (slots_[at] != kNone) {
                at = (at + 1) & (slots_.size() - 1);
            }
            slots_[at] = number;
        }
    }

    const KenLm* lm_ = nullptr;
    const std::uint32_t* ranks_ = nullptr;
    std::uint32_t count_ = 0;
    std::vector<unsigned char> bytes_;  // [count][state_size]
    std::vector<unsigned char> old_;
    std::vector<std::uint32_t> renumbered_;
    std::vector<std::uint32_t> slots_;  // open addressing
};

}  // namespace arcbeam
