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
};

PathTokens path_tokens(const WordSource& source, const PathView& path);

// One span for each label, word by word from the first (law 10): the frames of the tokens that spell it.
//
// A word is *closed* by the arc that writes the next word, or by the end of the path. Its spelling is one that is
// read by then; only if none is, the first that is complete later. So whatever follows cannot change the span.
//
// 1. A spelling follows the word before, but for separators. Of several it is the longest behind which the next
// word
//    begins; if there is none, the longest. The last word of a path that ends too early may lack its last tokens.
// 2. Otherwise, as behind a word without a spelling, it is the occurrence that had begun when the label was
// written,
//    the last of them; if there is none, the first after.
// 3. A word that is not found so spans the frames from the one that writes it to the last token before the next
// word.
//    That is the rule for all words if the graph has no pronunciations.
std::vector<Span> label_spans(const WordSource& source, const PathTokens& tokens);

// How many labels, from the first, are closed and keep their spans whatever arcs follow the path.
std::size_t settled_labels(const WordSource& source, const PathTokens& tokens);

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
