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

// What text depends on besides the labels that follow.
struct TextEnd {
    bool has_words = false;
    bool is_open = false;  // of pieces: whether the next one goes on with the last word
};

// Appends the words of the labels to `text`, a space between them, and before the first if it `follows` another
// word.
std::vector<TextRange> write_words(const WordSource& source, const std::uint32_t* labels, std::size_t count,
                                   std::string& text, bool follows = false);

// Appends the text of a path that goes on from `end`, and leaves there where it ends.
void write_text(const WordSource& source, const PathView& path, TextEnd& end, std::string& text);

// The text of the first arcs of a path, to which arcs are added: what is written of these stays. After it stands
// the text of arcs that may change.
struct KeptText {
    std::size_t arcs = 0;
    std::size_t size = 0;  // bytes that stay
    TextEnd end;           // of these
    bool is_new = true;    // since its owner has last made a str of the whole
    std::string text;
};

// The words of the first arcs of a path that stay whatever follows (law 10). What is stable is not read again: only
// the arcs from the first one on that later words depend on.
class StableWords {
  public:
    std::size_t count = 0;
    std::size_t size = 0;  // of their text, which `text` begins with
    std::string text;
    std::size_t arcs = 0;  // that are read

    // Reads the path, which begins with the arcs that are read.
    void read(const WordSource& source, const PathView& path);

    // The arc from which it is read next.
    [[nodiscard]] std::size_t begin() const { return point_.arc; }

  private:
    PathPoint point_;  // from which the path is read
    bool has_begun_ = false;
    std::size_t passed_labels_ = 0;  // after it, of stable words that were written ahead of tokens
    std::int64_t token_ = 0;         // after it, where the first word that is not passed begins at the earliest
    std::size_t words_ = 0;          // that are passed
    std::size_t words_size_ = 0;     // of their text
};

// A path whose text is requested: arcs that the kept text has not read, and those after them, which may change.
struct ReadPath {
    KeptText* to;
    const WordSource* source;
    PathView settled;
    PathView rest;
};

// Reads all of them; the texts differ.
void read_texts(const std::vector<ReadPath>& paths);

}  // namespace arcbeam::words
