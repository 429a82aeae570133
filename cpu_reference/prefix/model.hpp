// What the lanes of a prefix search read: the symbols of a model, its language model, and the request of a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kenlm/kenlm.hpp"
#include "prefix/words.hpp"

namespace arcbeam::prefix {

enum class Kind : std::uint8_t {
    kBlank,
    kSpace,   // ends a word, and is no part of one
    kStart,   // begins a word
    kInside,  // continues a word, or begins the first one
};

struct Symbol {
    std::uint32_t number;  // columns with the same label have one number
    Kind kind;
    std::string text;   // that it appends to a word
    std::string fresh;  // with which it begins a word that follows another one
    bool ends;          // a word that it has begun ends with it
};

struct Model {
    std::vector<Symbol> symbols;  // one a column
    const KenLm* lm;              // or null
    SortedWords vocabulary;       // empty: every word of the language model counts as known
};

// The options of one call. Scores are natural logs, those of the language model log10 times `to_natural`.
struct Request {
    double alpha, beta, unknown, to_natural;
    bool boundary;  // the utterance begins and ends a sentence
    std::uint32_t beam_width;
    double beam_prune;  // at most 0
    bool prune_history;
    std::uint32_t nbest;
    SortedWords hotwords;
    double hotword_weight;
    std::vector<unsigned char> start;  // the language model's state; empty: that of the beginning
};

// The tokens of an utterance: those of frame t are at [offsets[t], offsets[t + 1]).
struct Utterance {
    const std::int64_t* offsets;
    const std::uint32_t* columns;
    const double* log_probs;
    std::size_t frames;
    const Request* request;
};

inline std::size_t frames_of(const Utterance& utterance) { return utterance.frames; }

}  // namespace arcbeam::prefix
