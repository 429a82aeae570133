// Word sequences, each the end of another: a word and the sequence that follows it. Equal sequences have one
// number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace arcbeam::lattice {

class Suffixes {
  public:
    static constexpr std::uint32_t kEmpty = 0;  // the sequence without words

    void clear() {
        nodes_.assign(1, {0, 0, 0, 0});
        slots_.assign(kFewestSlots, kEmpty);
        stamp_ = 0;
    }

    [[nodiscard]] std::uint32_t word(std::uint32_t suffix) const { return nodes_[suffix].word; }
    [[nodiscard]] std::uint32_t rest(std::uint32_t suffix) const { return nodes_[suffix].rest; }
    [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(nodes_.size()); }

    [[nodiscard]] std::size_t bytes() const {
        return nodes_.capacity() * sizeof(Node) + slots_.capacity() * sizeof(std::uint32_t);
    }

    // The word before a sequence; kEmpty where nobody has added that.
    [[nodiscard]] std::uint32_t find(std::uint32_t word, std::uint32_t rest) const {
        return slots_[slot_of(word, rest)];
    }

    std::uint32_t add(std::uint32_t word, std::uint32_t rest) {
        const std::size_t slot = slot_of(word, rest);
        if (slots_[slot] != kEmpty) {
            return slots_[slot];
        }
        const std::uint32_t added = size();
        nodes_.push_back({word, rest, 0, 0});
        slots_[slot] = added;
        if (nodes_.size() * 2U > slots_.size()) {
            grow();
        }
        return added;
    }

    // Lexicographic by word ids; a sequence precedes what it begins. `steps` counts the compared words.
    [[nodiscard]] bool precedes(std::uint32_t a, std::uint32_t b, std::uint64_t& steps) const {
        for (; a != b && a != kEmpty && b != kEmpty; a = rest(a), b = rest(b), ++steps) {
            if (word(a) != word(b)) {
                return word(a) < word(b);
            }
        }
        return a == kEmpty && b != kEmpty;
    }

    // A map from sequences to places, which begin() empties.
    void begin() { ++stamp_; }
    [[nodiscard]] bool has_place(std::uint32_t suffix) const { return nodes_[suffix].stamp == stamp_; }
    [[nodiscard]] std::uint32_t place(std::uint32_t suffix) const { return nodes_[suffix].place; }
    void set_place(std::uint32_t suffix, std::size_t place) {
        nodes_[suffix].stamp = stamp_;
        nodes_[suffix].place = static_cast<std::uint32_t>(place);
    }

  private:
    static constexpr std::size_t kFewestSlots = 1024;

    struct Node {
        std::uint32_t word;
        std::uint32_t rest;
        std::uint32_t stamp;
        std::uint32_t place;
    };

    [[nodiscard]] std::size_t slot_of(std::uint32_t word, std::uint32_t rest) const {
        const std::uint64_t mixed = (static_cast<std::uint64_t>(rest) << 32U | word) * 0x9e3779b97f4a7c15U;
        std::size_t slot = (mixed ^ (mixed >> 32U)) & (slots_.size() - 1U);
        while (slots_[slot] != kEmpty && (nodes_[slots_[slot]].word != word || nodes_[slots_[slot]].rest != rest)) {
            slot = (slot + 1U) & (slots_.size() - 1U);
        }
        return slot;
    }

    void grow() {
        slots_.assign(slots_.size() * 2U, kEmpty);
        for (std::uint32_t node = 1; node < size(); ++node) {
            slots_[slot_of(nodes_[node].word, nodes_[node].rest)] = node;
        }
    }

    std::vector<Node> nodes_;           // [sequences]
    std::vector<std::uint32_t> slots_;  // a power of two, open addressing
    std::uint32_t stamp_ = 0;
};

}  // namespace arcbeam::lattice
