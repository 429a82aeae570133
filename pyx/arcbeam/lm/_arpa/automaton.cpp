#include "arcbeam/lm/_arpa/automaton.hpp"

#include <cmath>

#include "arcbeam/lm/_arpa/histories.hpp"
#include "shared/natural_log.hpp"

namespace arcbeam::arpa {

namespace {

class Builder {
  public:
    Builder(const Reader& reader, const AutomatonOptions& options)
        : reader_(reader),
          trie_(reader.trie()),
          options_(options),
          histories_(reader),
          states_(trie_.order() + 1) {}

    Automaton build() {
        number_states();
        Automaton result;
        const Place start = histories_.landing({1, reader_.sentence_start()}).place;
        result.start = state(start);
        result.offsets.reserve(num_states_ + 1);
        result.finals.reserve(num_states_);
        add_state(result, {0, 0});
        for (std::uint32_t order = 1; order < trie_.order(); ++order)
            for (std::uint32_t i = 0; i < trie_.level(order).size(); ++i)
                if (states_[order][i] != kNone) add_state(result, {order, i});
        result.offsets.push_back(static_cast<std::uint32_t>(result.targets.size()));
        return result;
    }

  private:
    void number_states() {
        num_states_ = 1;
        for (std::uint32_t order = 1; order < trie_.order(); ++order) {
            const std::uint32_t size = trie_.level(order).size();
            states_[order].assign(size, kNone);
            for (std::uint32_t i = 0; i < size; ++i)
                if (histories_.is_state({order, i})) states_[order][i] = num_states_++;
        }
    }

    std::uint32_t state(Place at) const { return at.order == 0 ? 0 : states_[at.order][at.position]; }

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
        const Landing shorter = histories_.landing(histories_.suffix(from));
        add_arc(result, shorter.place, options_.backoff_label,
                cost(histories_.backoff(from) + shorter.backoff, 0.0));
    }

    void add_state(Automaton& result, Place from) const {
        result.offsets.push_back(static_cast<std::uint32_t>(result.targets.size()));
        const std::uint32_t end = reader_.sentence_end();
        bool ends = false;
        double end_weight = 0.0;
        if (from.order > 0 && options_.backoff_label == 0) add_backoff(result, from);
        const auto add_word = [&](std::uint32_t word, Place ngram) {
            const double probability = histories_.probability(ngram);
            if (word == end) {
                ends = true;
                end_weight = probability;
            } else if (word != reader_.sentence_start()) {
                const Landing after = histories_.landing(ngram);
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
        } else {  // the shorter history has its final cost already, because states are numbered by order
            const Landing shorter = histories_.landing(histories_.suffix(from));
            result.finals.push_back(result.finals[state(shorter.place)] +
                                    cost(histories_.backoff(from) + shorter.backoff, 0.0));
        }
    }

    const Reader& reader_;
    const Trie& trie_;
    const AutomatonOptions options_;
    const Histories histories_;
    std::vector<std::vector<std::uint32_t>> states_;  // by order and position; kNone where no state is
    std::uint32_t num_states_ = 1;
};

}  // namespace

Automaton make_automaton(const Reader& reader, const AutomatonOptions& options) {
    return Builder(reader, options).build();
}

}  // namespace arcbeam::arpa
