// The n-grams of a KenLM model over a transducer's tokens, and the automaton that they make.
//
// KenLM has no list of n-grams, so they are looked up. It keeps every suffix of an n-gram, and so the words that
// may follow a history are among those that follow its longest proper suffix: they alone are looked up, lengths in
// ascending order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kenlm/kenlm.hpp"
#include "shared/token_automaton.hpp"

namespace arcbeam::transducer {

// The arrays of an automaton, as shared/token_automaton.hpp has them.
struct TokenArrays {
    std::vector<std::uint32_t> first_arcs;
    std::vector<std::uint32_t> arc_tokens;
    std::vector<TokenArc> arcs;
    std::vector<TokenArc> backoffs;
    std::uint32_t start = 0;
};

class TokenNgrams {
  public:
    // `words[i]` is the model's number of `tokens[i]`; tokens ascend. `lm` must outlive this object. Throws
    // std::invalid_argument as soon as there are more than `most` n-grams.
    TokenNgrams(const KenLm& lm, const std::uint32_t* words, const std::uint32_t* tokens, std::size_t count,
                std::size_t most);

    // Finds what follows so many more histories. False once all are done.
    bool read(std::size_t histories);

    // The natural log of the probability of a word that the model lacks, after nothing.
    [[nodiscard]] float unknown_weight() const;

    // Tokens without a word in the model get `missing_weight` and lead to the empty history; the blank gets 0.
    [[nodiscard]] TokenArrays automaton(std::uint32_t num_tokens, std::uint32_t blank, float missing_weight) const;

  private:
    struct Ngram {
        std::uint32_t parent;       // the n-gram without its last word, one level below
        std::uint32_t suffix;       // the n-gram without its first word, one level below
        std::uint32_t word, token;  // the last ones
        float weight, backoff;      // log10
        std::uint32_t length;       // words of the history that follows
        std::uint32_t begin, end;   // the n-grams that go on with a word, one level above
    };
    using Level = std::vector<Ngram>;

    [[nodiscard]] Ngram scored(std::uint32_t parent, std::uint32_t suffix, std::uint32_t word, std::uint32_t token,
                               std::size_t order);
    void see(std::size_t order, const Ngram& history);
    void add(std::size_t order, const Ngram& found);
    [[nodiscard]] std::uint32_t state(const std::vector<std::vector<std::uint32_t>>& states, std::size_t order,
                                      std::uint32_t place) const;

    const KenLm& lm_;
    const std::size_t most_;
    std::size_t count_ = 0;                      // of all n-grams
    std::size_t order_ = 1;                      // of the histories that are being read
    std::size_t place_ = 0;                      // of the next one in its level
    std::vector<Level> levels_;                  // by length; that of 0 is the empty history, the last of 1 is <s>
    std::vector<unsigned char> before_, after_;  // KenLM's states
};

}  // namespace arcbeam::transducer
