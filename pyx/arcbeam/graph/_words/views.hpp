// The data from which a path's words are read: the graph, its symbols and its pronunciations, owned elsewhere.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "graph/open_graph.hpp"

namespace arcbeam::words {

// Symbols by ascending id; symbol i is text [offsets[i], offsets[i + 1]). Without ids, labels have no symbols.
struct Symbols {
    const std::int64_t* ids = nullptr;
    const std::int64_t* offsets = nullptr;
    const char* text = nullptr;
    std::int64_t size = 0;
    bool is_dense = false;  // ids are the numbers from 0 on, as they mostly are, and need not be read

    // The symbol of a label; if it has none, the label in angle brackets, or bare if there are no symbols at all.
    void append(std::uint32_t label, std::string& to) const;

    // Fetch what `append` will read: where the symbol is, and then, once that has come, the symbol.
    void fetch_place(std::uint32_t label) const {
        if (label < size) {
            __builtin_prefetch(offsets + label);
        }
    }
    void fetch(std::uint32_t label) const {
        if (label < size) {
            __builtin_prefetch(text + offsets[label]);
        }
    }
};

// Pronunciations sorted by word: number i belongs to word words[i] and has columns [offsets[row[i]], offsets[row[i]
// + 1]).
struct Spellings {
    const std::uint32_t* words = nullptr;
    const std::int64_t* rows = nullptr;
    const std::uint32_t* offsets = nullptr;
    const std::uint16_t* columns = nullptr;
    std::size_t size = 0;

    // The number of a word's first pronunciation, or where it would be. Most words have one, and ids have few gaps.
    [[nodiscard]] std::size_t first_of(std::uint32_t word) const {
        const std::size_t likely = size > 0 ? word - words[0] : 0U;
        if (likely < size && words[likely] == word && (likely == 0 || words[likely - 1] != word)) {
            return likely;
        }
        return static_cast<std::size_t>(std::lower_bound(words, words + size, word) - words);
    }
};

struct PathView {
    const std::uint32_t* arcs;
    std::size_t size;

    // The arc that is needed soon after the one at i, for a prefetch: arcs are scattered over a graph that no cache
    // holds.
    std::uint32_t arc_ahead(std::size_t i) const { return arcs[i + 16U < size ? i + 16U : i]; }
};

struct WordSource {
    OpenGraph graph;
    // A bit for each of the graph's arcs: whether it writes a word. Arcs are scattered over a graph that no cache
    // holds, and few of them do.
    const std::uint8_t* word_marks = nullptr;
    std::uint32_t marked_arcs = 0;
    Symbols symbols;
    Spellings spellings;
    Symbols new_symbols;  // those of a request's new words
    Spellings new_spellings;
    std::int32_t blank = -1;             // column, or -1
    std::int32_t separator_column = -1;  // of spelled words, or -1
    bool pieces = false;                 // labels are pieces, which make words
    bool has_separator = false;
    std::string separator;  // what a piece that opens a word starts with

    // False: the arc writes no word.
    [[nodiscard]] bool may_write(std::uint32_t arc) const {
        return arc >= marked_arcs || (word_marks[arc / 8U] >> arc % 8U & 1U) != 0U;
    }
    [[nodiscard]] const Symbols& symbols_of(std::uint32_t label) const {
        return label < graph.first_word ? symbols : new_symbols;
    }
    [[nodiscard]] const Spellings& spellings_of(std::uint32_t label) const {
        return label < graph.first_word ? spellings : new_spellings;
    }
};

}  // namespace arcbeam::words
