// The boost lists of a batch, compiled side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "arcbeam/ctc/boost/_boost/words.hpp"
#include "boost/compile.hpp"

namespace arcbeam::boost {

// A list, and what comes of it.
struct PhraseList {
    std::string_view text;  // phrases as lines, as known_phrases() takes them
    std::vector<std::int64_t> scores;
    double depth_scaling = 1.0;
    const WordIndex* of_request = nullptr;
    std::vector<std::uint8_t> is_known;
    Automaton made;
};

// Compiles the lists, on at most so many threads; each is compiled by one of them. Returns false if memory ran out.
bool compile_all(const WordIndex& index, std::vector<PhraseList>& lists, std::size_t threads);

}  // namespace arcbeam::boost
