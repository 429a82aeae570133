// Maps words to numbers: an open-addressing table over one block of text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace arcbeam::arpa {

constexpr std::uint32_t kNone = 0xffffffffU;

class WordIndex {
  public:
    // Gives `word` the number `id`; false if the word has one already.
    bool add(std::string_view word, std::uint32_t id) {
        if (2 * (entries_.size() + 1) > slots_.size()) grow();
        std::uint32_t& slot = find_slot(word);
        if (slot != kNone) return false;
        slot = static_cast<std::uint32_t>(entries_.size());
        entries_.push_back({text_.size(), static_cast<std::uint32_t>(word.size()), id});
        text_.append(word);
        return true;
    }

    std::uint32_t find(std::string_view word) const {
        if (slots_.empty()) return kNone;
        const std::uint32_t entry = const_cast<WordIndex*>(this)->find_slot(word);
        return entry == kNone ? kNone : entries_[entry].id;
    }

    std::size_t size() const { return entries_.size(); }
    // The words in the order in which they were added.
    std::string_view word(std::size_t i) const {
        return std::string_view(text_).substr(entries_[i].begin, entries_[i].size);
    }

  private:
    struct Entry {
        std::size_t begin;
        std::uint32_t size;
        std::uint32_t id;
    };

    static std::uint64_t hash(std::string_view word) {  // FNV-1a
        std::uint64_t value = 0xcbf29ce484222325ULL;
        for (const char c : word) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
        return value ^ (value >> 29U);
    }

    std::uint32_t& find_slot(std::string_view word) {
        const std::size_t mask = slots_.size() - 1;
        for (std::size_t at = hash(word) & mask;; at = (at + 1) & mask) {
            std::uint32_t& slot = slots_[at];
            if (slot == kNone) return slot;
            const Entry& entry = entries_[slot];
            if (std::string_view(text_).substr(entry.begin, entry.size) == word) return slot;
        }
    }

    void grow() {
        slots_.assign(slots_.empty() ? 64 : 2 * slots_.size(), kNone);
        const std::size_t mask = slots_.size() - 1;
        for (std::uint32_t i = 0; i < entries_.size(); ++i) {
            std::size_t at = hash(std::string_view(text_).substr(entries_[i].begin, entries_[i].size)) & mask;
            while (slots_[at] != kNone) at = (at + 1) & mask;
            slots_[at] = i;
        }
    }

    std::string text_;
    std::vector<Entry> entries_;
    std::vector<std::uint32_t> slots_;  // a power of two of them, at most half full
};

}  // namespace arcbeam::arpa
