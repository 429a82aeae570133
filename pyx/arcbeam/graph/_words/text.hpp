// The words of a path as text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arcbeam/graph/_words/spans.hpp"

namespace arcbeam::words {

// A word: text [begin, end) of the buffer, and the labels [first, last] that it is made of.
struct TextRange {
    std::size_t begin;
    std::size_t end;
    std::size_t first;
    std::size_t last;
};

// Appends the words of the labels to `text`, a space between them.
std::vector<TextRange> write_words(const WordSource& source, const std::uint32_t* labels, std::size_t count,
                                   std::string& text);

// The text of a path.
void write_text(const WordSource& source, const PathView& path, std::string& text);

}  // namespace arcbeam::words
