// The n-grams of a back-off language model, one sorted level for each order.
//
// Level 1 is dense: an n-gram's position is its word. On level k > 1 the n-grams (context, word) are sorted; the
// context is a position on level k - 1, and `begin` says where its words start. 12 bytes an n-gram and 4 a context.
#pragma once

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "arcbeam/lm/_arpa/word_index.hpp"

namespace arcbeam::arpa {

constexpr float kNoProbability = -std::numeric_limits<float>::infinity();

// An error of the file; the message says what was expected and what was got.
struct ArpaError : std::runtime_error {
    ArpaError(std::uint64_t line_number, const std::string& message)
        : std::runtime_error(message), line(line_number) {}
    std::uint64_t line;
};

// An n-gram as it was read. log10 of the probability and of the back-off weight.
struct Ngram {
    std::uint32_t context;
    std::uint32_t word;
    float probability;
    float backoff;
    std::uint32_t line;
};

struct Level {
    std::vector<std::uint32_t> begin;  // [contexts + 1], empty on level 1
    std::vector<std::uint32_t> words;  // empty on level 1
    std::vector<float> probabilities;  // NaN: an added n-gram, whose probability follows from backing off
    std::vector<float> backoffs;
    std::uint32_t size() const { return static_cast<std::uint32_t>(probabilities.size()); }
};

class Trie {
  public:
    explicit Trie(std::uint32_t num_words) : num_words_(num_words) {}

    std::uint32_t order() const { return static_cast<std::uint32_t>(levels_.size()); }
    std::uint32_t num_words() const { return num_words_; }
    const Level& level(std::uint32_t order) const { return levels_[order - 1]; }
    std::uint64_t num_added() const { return num_added_; }

    // Position of (context, word) on level `order` > 1, or kNone.
    std::uint32_t find(std::uint32_t order, std::uint32_t context, std::uint32_t word) const;
    // The words that follow an n-gram of level `order`: positions [first, second) on the next level.
    std::pair<std::uint32_t, std::uint32_t> children(std::uint32_t order, std::uint32_t position) const;

    // While reading level order() + 1: the position of the context `words`, which is added if the file lacks it.
    std::uint32_t context(const std::vector<std::uint32_t>& words);
    // Ends the reading of a level: sorts the n-grams and adds them. Throws ArpaError for a duplicate.
    void seal(std::vector<Ngram>& ngrams, bool highest);

  private:
    void build(Level& level, std::vector<Ngram>& ngrams, std::uint32_t num_contexts, bool keep_backoffs);
    void merge_added(std::vector<Ngram>& ngrams);

    std::uint32_t num_words_;
    std::vector<Level> levels_;
    // Contexts that the file lacks, by level: maps (context, word) to a provisional position after the others.
    std::vector<std::unordered_map<std::uint64_t, std::uint32_t>> added_;
    std::uint64_t num_added_ = 0;
};

}  // namespace arcbeam::arpa
