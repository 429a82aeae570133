// The histories of a model: which n-grams are states, which state follows each n-gram, and what backing off costs.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "arcbeam/lm/_arpa/reader.hpp"

namespace arcbeam::arpa {

// An n-gram anywhere in the trie; order 0 is the empty history.
struct Place {
    std::uint32_t order;
    std::uint32_t position;
};

struct Landing {
    Place place;     // a history that is a state
    double backoff;  // log10 of the back-off weights on the way there
};

class Histories {
  public:
    explicit Histories(const Reader& reader);

    // States are the empty history and every n-gram that another continues; <s> is one because of its back-off
    // weight.
    bool is_state(Place at) const { return at.order == 0 || levels_[at.order].is_state[at.position]; }

    // The longest proper suffix that is an n-gram.
    Place suffix(Place at) const {
        const LevelNotes& notes = levels_[at.order];
        return {notes.suffix_order[at.position], notes.suffix[at.position]};
    }

    double backoff(Place at) const { return static_cast<double>(trie_.level(at.order).backoffs[at.position]); }

    // log10 of an n-gram's probability after its context.
    double probability(Place at) const { return static_cast<double>(levels_[at.order].probabilities[at.position]); }

    // The history after the n-gram `at`.
    Landing landing(Place at) const {
        double weight = 0.0;
        if (at.order == trie_.order() && at.order > 0) at = suffix(at);  // the highest order is no history
        while (!is_state(at)) {
            weight += backoff(at);
            at = suffix(at);
        }
        return {at, weight};
    }

    // log10 of the probability of `word` after the suffix of `history`, which either lists the shorter n-gram or
    // backs off.
    Landing shorter(Place history, std::uint32_t word, bool with_own_backoff) const {
        double weight = with_own_backoff ? backoff(history) : 0.0;
        history = suffix(history);
        Place found = child(history, word);
        while (found.position == kNone) {
            weight += backoff(history);
            history = suffix(history);
            found = child(history, word);
        }
        return {found, weight};
    }

    // The n-gram that follows the history `at` with `word`: a unigram is its own position.
    Place child(Place at, std::uint32_t word) const {
        if (at.order == 0) return {1, word};
        if (at.order >= trie_.order()) return {0, kNone};
        return {at.order + 1, trie_.find(at.order + 1, at.position, word)};
    }

  private:
    struct LevelNotes {
        std::vector<bool> is_state;
        std::vector<float> probabilities;  // as in the trie, with those of added n-grams computed; log10
        std::vector<std::uint8_t> suffix_order;
        std::vector<std::uint32_t> suffix;
    };

    void find_states();
    void follow_suffixes(std::uint32_t order);

    const Reader& reader_;
    const Trie& trie_;
    std::vector<LevelNotes> levels_;  // by order; the one of order 0 is not used
};

}  // namespace arcbeam::arpa
