// Which frames each output label of a path belongs to.
#pragma once

#include <cstdint>
#include <vector>

#include "arcbeam/graph/_words/views.hpp"
#include "graph/label_reader.hpp"

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
    std::vector<std::int64_t> tokens_before;  // the tokens read before a label's arc
    std::vector<std::int64_t> tokens_with;    // and with the one that its arc reads, if any

    void drop_labels(std::size_t count);  // the first ones
};

// Where the reading of a path is: the next arc, and what its meaning depends on.
struct PathPoint {
    std::size_t arc = 0;
    std::uint32_t state = 0;
    std::uint16_t before = kEpsilonColumn;  // the column that was read last
    std::int64_t frame = 0;
};

PathPoint path_begin(const WordSource& source);

PathTokens path_tokens(const WordSource& source, const PathView& path, const PathPoint& from);

inline PathTokens path_tokens(const WordSource& source, const PathView& path) {
    return path_tokens(source, path, path_begin(source));
}

// How many labels and tokens were passed on the way to a point.
struct Passed {
    std::size_t labels;
    std::int64_t tokens;
};

// Goes on to the arc that writes the label with this number, or to the one that reads the token with this number,
// whichever comes first; both count from the point.
Passed advance(const WordSource& source, const PathView& path, std::size_t label, std::int64_t token,
               PathPoint& point);

// One span for each label, word by word from the first (law 10): the frames of the tokens that spell it.
//
// A word is *closed* by the arc that writes the next word, or by the end of the path. Its spelling is one that is
// read by then; only if none is, the first that is complete later. So whatever follows cannot change the span.
//
// 1. A spelling follows the word before, but for separators. Of several it is the longest after which the next
//    word begins; if there is none, the longest. The last word of a path that ends too early may lack its last
//    tokens.
// 2. Otherwise, as after a word without a spelling, it is the occurrence that had begun when the label was
//    written, the last of them; if there is none, the first after.
// 3. A word that is not found so spans the frames from the one that writes it to the last token before the next
//    word. That is the rule for all words if the graph has no pronunciations.
std::vector<Span> label_spans(const WordSource& source, const PathTokens& tokens);

// How many labels, from the first, are closed and keep their spans whatever arcs follow the path. The words after
// them can be found without what lies before label `next`, which follows a settled one, and token `next_token`.
struct SettledLabels {
    std::size_t count;
    std::size_t next;
    std::int64_t next_token;
};

// `first_token` is where the first label's word begins at the earliest.
SettledLabels settled_labels(const WordSource& source, const PathTokens& tokens, std::int64_t first_token);

// Reads labels with their spans; the source must outlive it.
class SpanReader final : public LabelReader {
  public:
    SpanReader() = default;
    explicit SpanReader(const WordSource& source) : source_(&source) {}

    void read(const std::uint32_t* arcs, std::size_t count, PathLabels& to) const override;

  private:
    const WordSource* source_ = nullptr;
};

}  // namespace arcbeam::words
