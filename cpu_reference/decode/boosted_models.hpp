// Models (models.hpp) with a boost of the utterance's own (law 9): histories and addends of both.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "decode/models.hpp"
#include "graph/open_graph.hpp"
#include "shared/boost.hpp"

namespace arcbeam::twin {

template <typename Models>
class BoostedModels {
  public:
    using View = typename Models::View;

    struct History {
        typename Models::History lm;
        std::uint32_t boost;
        bool operator==(const History& other) const { return lm == other.lm && boost == other.boost; }
    };
    struct Addend {
        typename Models::Addend lm;
        float boost;
        History next;
    };

    explicit BoostedModels(const View& view) : models_(view) {}

    // The boost of the next utterance, which must outlive it; all words from `first_new_word` on are new ones.
    void boost_with(const BoostView& boost, std::uint32_t first_new_word = OpenGraph::kNoNewWord) {
        boost_ = boost;
        first_new_word_ = first_new_word;
    }

    // The word that the models look up: for a new one the unknown word, which has the id of the first.
    [[nodiscard]] std::uint32_t known_word(std::uint32_t word) const { return std::min(word, first_new_word_); }

    void begin(std::uint32_t collect_above) { models_.begin(collect_above); }
    [[nodiscard]] History start() { return {models_.start(), kNoPhrase}; }
    [[nodiscard]] History start(const LmContext& lm_context) { return {models_.start(lm_context), kNoPhrase}; }
    [[nodiscard]] static Addend keep(const History& history) { return {Models::keep(history.lm), 0.0F, history}; }
    [[nodiscard]] Addend add(const History& history, std::uint32_t word) {
        return boosted(history, word, models_.add(history.lm, known_word(word)));
    }
    // The addend of a word, given that of the models.
    [[nodiscard]] Addend boosted(const History& history, std::uint32_t word,
                                 const typename Models::Addend& lm) const {
        const BoostStep step = boost_step(boost_, history.boost, word);
        return {lm, step.cost, {lm.next, step.next_state}};
    }
    [[nodiscard]] float end(float cost, const History& history) const {
        return unfinished(models_.end(cost, history.lm), history);
    }
    [[nodiscard]] float unfinished(float cost, const History& history) const {
        return boost_cost(cost, boost_refund(boost_, history.boost));
    }
    [[nodiscard]] bool precedes(const History& a, const History& b) const {
        return a.lm == b.lm ? a.boost < b.boost : models_.precedes(a.lm, b.lm);
    }
    template <typename Held, typename Of>
    bool collect(Buffer<Held>& histories, Of of) {
        return models_.collect(histories, [&of](Held& held) -> auto& { return of(held).lm; });
    }

    [[nodiscard]] Models& models() { return models_; }

    friend float rescored(float cost, const Addend& addend) {
        return boost_cost(rescored(cost, addend.lm), addend.boost);
    }
    friend std::uint32_t mixed(std::uint32_t seed, const History& history) {
        return mixed(seed, history.lm) * 0x27d4eb2fU ^ history.boost;
    }

  private:
    Models models_;
    BoostView boost_{nullptr, nullptr, 0U};
    std::uint32_t first_new_word_ = OpenGraph::kNoNewWord;
};

// What a boost added along a path, its refund included: sums of it are exact.
inline double path_boost(const OpenGraph& graph, const BoostView& boost, const std::uint32_t* arcs, std::size_t n) {
    double cost = 0.0;
    std::uint32_t state = kNoPhrase;
    for (std::size_t i = 0; i < n; ++i) {
        if (graph.words[arcs[i]] != kNoWord) {
            const BoostStep step = boost_step(boost, state, graph.words[arcs[i]]);
            cost += static_cast<double>(step.cost);
            state = step.next_state;
        }
    }
    return cost + static_cast<double>(boost_refund(boost, state));
}

}  // namespace arcbeam::twin
