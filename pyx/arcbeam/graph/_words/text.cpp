#include "arcbeam/graph/_words/text.hpp"

#include <algorithm>

namespace arcbeam::words {

void Symbols::append(std::uint32_t label, std::string& to) const {
    if (ids == nullptr) {
        to += std::to_string(label);
        return;
    }
    // Ids mostly run from 0 on without a gap.
    std::int64_t at = label;
    if (at >= size || ids[at] != static_cast<std::int64_t>(label)) {
        at = std::lower_bound(ids, ids + size, static_cast<std::int64_t>(label)) - ids;
    }
    if (at < size && ids[at] == static_cast<std::int64_t>(label)) {
        to.append(text + offsets[at], static_cast<std::size_t>(offsets[at + 1] - offsets[at]));
    } else {
        to += '<' + std::to_string(label) + '>';
    }
}

std::vector<TextRange> write_words(const WordSource& source, const std::uint32_t* labels, std::size_t count,
                                   std::string& text) {
    std::vector<TextRange> found;
    bool is_open = false;
    std::string piece;
    for (std::size_t i = 0; i < count; ++i) {
        piece.clear();
        source.symbols_of(labels[i]).append(labels[i], piece);
        std::size_t skipped = 0;
        if (source.pieces) {
            // A piece that starts with the separator opens a word; a piece that is only the separator just ends
            // one.
            if (source.has_separator && piece.compare(0, source.separator.size(), source.separator) == 0) {
                is_open = false;
                skipped = source.separator.size();
            }
            if (skipped == piece.size()) {
                continue;
            }
        }
        if (!source.pieces || !is_open) {
            if (!found.empty()) {
                text += ' ';
            }
            found.push_back({text.size(), text.size(), i, i});
        }
        text.append(piece, skipped, std::string::npos);
        found.back().end = text.size();
        found.back().last = i;
        is_open = true;
    }
    return found;
}

void write_text(const WordSource& source, const PathView& path, std::string& text) {
    std::vector<std::uint32_t> labels;
    for (std::size_t i = 0; i < path.size; ++i) {
        __builtin_prefetch(source.graph.words + path.arc_ahead(i));
        const std::uint32_t word = source.graph.words[path.arcs[i]];
        if (word != kNoWord) {
            labels.push_back(word);
        }
    }
    write_words(source, labels.data(), labels.size(), text);
}

}  // namespace arcbeam::words
