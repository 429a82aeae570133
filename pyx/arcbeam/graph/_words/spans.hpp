// Which frames each output label of a path belongs to.
#pragma once

#include <cstdint>
#include <vector>

#include "arcbeam/graph/_words/views.hpp"

namespace arcbeam::words {

struct Span {
    std::int64_t start;  // frames [start, end)
    std::int64_t end;
};

// The tokens of a path, repeats and blanks taken out, and its labels.
struct PathTokens {
    std::vector<std::uint16_t> columns;
    std::vector<Span> frames;
    std::vector<std::uint32_t> labels;
    std::vector<std::int64_t> labels_at;  // the frame that a label's arc reads, or that follows if it reads none
};

PathTokens path_tokens(const WordSource& source, const PathView& path);

// One span for each label. Labels are matched with the tokens that spell them by the pronunciations; a path of a
// graph without them, or one that they do not explain, falls back on the frames at which its labels are written.
std::vector<Span> label_spans(const WordSource& source, const PathTokens& tokens);

}  // namespace arcbeam::words
