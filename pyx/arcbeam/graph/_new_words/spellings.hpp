// How words are spelled in columns: the ways to cut their text into tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace arcbeam::new_words {

// Word w has the spellings [words[w], words[w + 1]), and spelling s the columns [begins[s], begins[s + 1]).
struct Spelled {
    std::vector<std::size_t> words{0};
    std::vector<std::size_t> begins{0};
    std::vector<std::uint16_t> columns;

    [[nodiscard]] std::size_t size() const { return words.size() - 1U; }
    void end_spelling() { begins.push_back(columns.size()); }
    void end_word() { words.push_back(begins.size() - 1U); }

    // Appends a word of `other` with its spellings.
    void add(const Spelled& other, std::size_t word);
};

// Tokens by their text, which is UTF-8; no byte within a character is the first of another, so they meet at its
// borders.
class Pieces {
  public:
    void add(std::string_view text, std::uint16_t column);

    // Appends a word with at most `most` ways to cut it, those of the fewest tokens first, then by their columns,
    // then by the places of the cuts from the end on. Returns the size of the text if there is any; else what no
    // way gets beyond.
    std::size_t spell(std::string_view text, std::size_t most, Spelled& spelled) const;

  private:
    struct Way;
    struct Place;

    [[nodiscard]] std::uint32_t next(std::uint32_t node, char byte) const;
    [[nodiscard]] std::size_t stuck_at(std::string_view text) const;

    std::unordered_map<std::uint64_t, std::uint32_t> next_;  // node << 8 | byte
    std::vector<std::int32_t> column_of_{-1};                // of each node; -1 where no token ends
};

}  // namespace arcbeam::new_words
