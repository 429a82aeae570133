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

// One span for each label. The pronunciations match labels with the tokens that spell them. If the graph has no
// pronunciations, or they do not explain a path, the frames at which its labels are written are used instead.
std::vector<Span> label_spans(const WordSource& source, const PathTokens& tokens);

}  // namespace arcbeam::words
