#include "arpa/automaton.hpp"

#include <cmath>

namespace arcbeam::arpa {

namespace {

constexpr double kLn10 = 2.302585092994045684;

// An n-gram anywhere in the trie; order 0 is the empty history.
struct Place {
    std::uint32_t order;
    std::uint32_t position;
};

class Builder {
  public:
    Builder(const Reader& reader, const AutomatonOptions& options)
        : reader_(reader), trie_(reader.trie()), options_(options), levels_(trie_.order() + 1) {}

    Automaton build() {
        number_states();
        for (std::uint32_t order = 1; order <= trie_.order(); ++order) follow_suffixes(order);
        Automaton result;
        const Place start = landing({1, reader_.sentence_start()}).place;
        result.start = state(start);
        result.offsets.reserve(num_states_ + 1);
        result.finals.reserve(num_states_);
        add_state(result, {0, 0});
        for (std::uint32_t order = 1; order < trie_.order(); ++order)
            for (std::uint32_t i = 0; i < trie_.level(order).size(); ++i)
                if (levels_[order].states[i] != kNone) add_state(result, {order, i});
        result.offsets.push_back(static_cast<std::uint32_t>(result.targets.size()));
        return result;
    }

  private:
    struct LevelNotes {
        std::vector<std::uint32_t> states;       // kNone where nothing continues the n-gram
        std::vector<float> probabilities;        // as in the trie, those of added n-grams worked out; log10
        std::vector<std::uint8_t> suffix_order;  // the longest proper suffix that is an n-gram
        std::vector<std::uint32_t> suffix;
    };
    struct Landing {
        Place place;     // a history with a state
        double backoff;  // log10 of the back-off weights on the way there
    };

    void number_states() {
        num_states_ = 1;
        for (std::uint32_t order = 1; order < trie_.order(); ++order) {
            const std::uint32_t size = trie_.level(order).size();
            levels_[order].states.assign(size, kNone);
            for (std::uint32_t i = 0; i < size; ++i) {
                const auto [first, last] = trie_.children(order, i);
                // <s> is kept as the start even if nothing continues it, for its back-off weight.
                const bool is_start = order == 1 && i == reader_.sentence_start();
                if (first != last || is_start) levels_[order].states[i] = num_states_++;
            }
        }
    }

    std::uint32_t state(Place at) const { return at.order == 0 ? 0 : levels_[at.order].states[at.position]; }

    Place suffix(Place at) const {
        const LevelNotes& notes = levels_[at.order];
        return {notes.suffix_order[at.position], notes.suffix[at.position]};
    }

    double backoff(Place at) const { return static_cast<double>(trie_.level(at.order).backoffs[at.position]); }

    // The n-gram that follows the history `at` with `word`: a unigram is its own position.
    Place child(Place at, std::uint32_t word) const {
        if (at.order == 0) return {1, word};
        if (at.order >= trie_.order()) return {0, kNone};
        return {at.order + 1, trie_.find(at.order + 1, at.position, word)};
    }

    // Suffixes and, for added n-grams, probabilities of one level; the levels below are done.
    void follow_suffixes(std::uint32_t order) {
        const Level& level = trie_.level(order);
        LevelNotes& notes = levels_[order];
        notes.probabilities = level.probabilities;
        notes.suffix_order.assign(level.size(), 0);
        notes.suffix.assign(level.size(), 0);
        if (order == 1) return;
        for (std::uint32_t context = 0; context + 1 < level.begin.size(); ++context) {
            for (std::uint32_t i = level.begin[context]; i < level.begin[context + 1]; ++i) {
                Place history{order - 1, context};
                double weight = 0.0;
                Place shorter{0, kNone};
                while (shorter.position == kNone) {
                    weight += backoff(history);
                    history = suffix(history);
                    shorter = child(history, level.words[i]);
                }
                notes.suffix_order[i] = static_cast<std::uint8_t>(shorter.order);
                notes.suffix[i] = shorter.position;
                if (std::isnan(level.probabilities[i]))
                    notes.probabilities[i] = static_cast<float>(
                        weight + static_cast<double>(levels_[shorter.order].probabilities[shorter.position]));
            }
        }
    }

    // Where one is after the n-gram `at` has been said.
    Landing landing(Place at) const {
        double weight = 0.0;
        if (at.order == trie_.order() && at.order > 0) at = suffix(at);  // the highest order is no history
        while (at.order > 0 && levels_[at.order].states[at.position] == kNone) {
            weight += backoff(at);
            at = suffix(at);
        }
        return {at, weight};
    }

    float cost(double log10_weight, double extra) const {
        return static_cast<float>(-kLn10 * options_.scale * log10_weight + extra);
    }

    void add_arc(Automaton& result, Place target, std::uint32_t label, float arc_cost) const {
        if (!std::isfinite(arc_cost)) return;
        result.targets.push_back(state(target));
        result.labels.push_back(label);
        result.costs.push_back(arc_cost);
    }

    void add_backoff(Automaton& result, Place from) const {
        const Landing shorter = landing(suffix(from));
        add_arc(result, shorter.place, options_.backoff_label, cost(backoff(from) + shorter.backoff, 0.0));
    }

    void add_state(Automaton& result, Place from) const {
        result.offsets.push_back(static_cast<std::uint32_t>(result.targets.size()));
        const std::uint32_t end = reader_.sentence_end();
        bool ends = false;
        double end_weight = 0.0;
        if (from.order > 0 && options_.backoff_label == 0) add_backoff(result, from);
        const auto add_word = [&](std::uint32_t word, Place ngram) {
            const double probability = static_cast<double>(levels_[ngram.order].probabilities[ngram.position]);
            if (word == end) {
                ends = true;
                end_weight = probability;
            } else if (word != reader_.sentence_start()) {
                const Landing after = landing(ngram);
                add_arc(result, after.place, word, cost(probability + after.backoff, options_.word_cost));
            }
        };
        if (from.order == 0) {
            for (std::uint32_t word = 1; word < trie_.num_words(); ++word) add_word(word, {1, word});
        } else {
            const auto [first, last] = trie_.children(from.order, from.position);
            const Level& next = trie_.level(from.order + 1);
            for (std::uint32_t i = first; i < last; ++i) add_word(next.words[i], {from.order + 1, i});
        }
        if (from.order > 0 && options_.backoff_label != 0) add_backoff(result, from);
        if (!reader_.tally().has_end) {
            result.finals.push_back(0.0F);
        } else if (ends) {
            result.finals.push_back(cost(end_weight, 0.0));
        } else {  // the shorter history has its final cost already: states are numbered by order
            const Landing shorter = landing(suffix(from));
            result.finals.push_back(result.finals[state(shorter.place)] +
                                    cost(backoff(from) + shorter.backoff, 0.0));
        }
    }

    const Reader& reader_;
    const Trie& trie_;
    const AutomatonOptions options_;
    std::vector<LevelNotes> levels_;  // by order; the one of order 0 is not used
    std::uint32_t num_states_ = 1;
};

}  // namespace

Automaton make_automaton(const Reader& reader, const AutomatonOptions& options) {
    return Builder(reader, options).build();
}

}  // namespace arcbeam::arpa
