// The words of a boost list as a graph numbers them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "boost/compile.hpp"

namespace arcbeam::boost {

// The words that some arc of a graph writes, by their text.
class WordIndex {
  public:
    // Symbol i is the bytes [offsets[i], offsets[i + 1]) of `text`, which must outlive the index; `is_written` says
    // of each id below `num_written` whether an arc writes it.
    WordIndex(const std::int64_t* ids, const std::int64_t* offsets, const char* text, std::size_t size,
              const std::uint8_t* is_written, std::size_t num_written);

    // The id of a word, or kNoWord.
    [[nodiscard]] std::uint32_t find(std::string_view word) const;

    // The same for many words, whose waits for memory overlap.
    void find(const std::string_view* words, std::size_t count, std::uint32_t* ids) const;

  private:
    struct Place {
        std::string_view word;
        std::uint32_t id = kNoWord;
        std::uint32_t tag = 0;  // bits of the word's hash
    };

    [[nodiscard]] std::uint32_t find(std::string_view word, std::size_t hash) const;

    std::vector<Place> places_;  // open addressing
    std::size_t mask_ = 0;
};

// Phrases are lines of `text`, their words with one space between them. Marks in `is_known` those of which the
// graph, or else the request (unless null), has every word, and returns them.
Phrases known_phrases(const WordIndex& index, const WordIndex* of_request, std::string_view text,
                      const std::vector<std::int64_t>& scores, std::uint8_t* is_known);

}  // namespace arcbeam::boost
