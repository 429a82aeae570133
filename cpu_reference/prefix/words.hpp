// Sorted words: those of a vocabulary, and the hotwords of a request.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace arcbeam::prefix {

// Code points of UTF-8.
inline std::uint32_t letters_of(const std::string& text) {
    return static_cast<std::uint32_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) >> 6U) != 2; }));
}

class SortedWords {
  public:
    SortedWords() = default;
    // In the order of their bytes.
    explicit SortedWords(std::vector<std::string> words) : words_(std::move(words)) {}

    [[nodiscard]] bool empty() const { return words_.empty(); }

    struct Found {
        bool is_word;
        bool begins_word;
    };

    // Whether the text is a word, and whether a word begins with it.
    [[nodiscard]] Found find(const std::string& text) const {
        const auto at = from(text);
        return {at != words_.end() && *at == text, at != words_.end() && begins(*at, text)};
    }

    // Letters of the shortest word that begins with the text; 0 if none does.
    [[nodiscard]] std::uint32_t shortest(const std::string& text) const {
        std::uint32_t least = std::numeric_limits<std::uint32_t>::max();
        auto at = from(text);
        for (; at != words_.end() && begins(*at, text); ++at) {
            least = std::min(least, letters_of(*at));
        }
        return least == std::numeric_limits<std::uint32_t>::max() ? 0 : least;
    }

  private:
    using Place = std::vector<std::string>::const_iterator;

    [[nodiscard]] Place from(const std::string& text) const {
        return std::lower_bound(words_.begin(), words_.end(), text);
    }

    static bool begins(const std::string& word, const std::string& text) {
        return word.compare(0, text.size(), text) == 0;
    }

    std::vector<std::string> words_;
};

}  // namespace arcbeam::prefix
