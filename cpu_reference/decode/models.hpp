// The two language models of a search that rescores, as its stages use them: the graph's model, and a large one,
// which is an automaton of arcbeam's or KenLM's. Each lane has its own.
//
//   begin(collect_above)    starts another utterance; up to this many log entries (8 bytes) collecting is not worth
//   it start()                 the history at the beginning of a sentence deviate(history, word)  what a word adds
//   to a path's cost, and the next history end_deviation(history)  what the end of a sentence adds precedes(a, b)
//   the order of histories, the last tie-break collect(histories)      frees what none of these histories needs;
//   says whether it has renumbered them
#pragma once

#include <algorithm>
#include <cstdint>

#include "decode/buffer.hpp"
#include "kenlm/kenlm.hpp"
#include "kenlm/states.hpp"
#include "shared/natural_log.hpp"
#include "shared/rescoring.hpp"

namespace arcbeam::twin {

class AutomatonModels {
  public:
    using View = RescoringView;

    explicit AutomatonModels(const View& view) : view_(view) {}

    void begin(std::uint32_t) {}
    [[nodiscard]] History start() const { return start_history(view_); }
    [[nodiscard]] Deviation deviate(const History& history, std::uint32_t word) const {
        return arcbeam::deviate(view_, history, word);
    }
    [[nodiscard]] float end_deviation(const History& history) const {
        return arcbeam::end_deviation(view_, history);
    }
    [[nodiscard]] static bool precedes(const History& a, const History& b) { return a < b; }
    static bool collect(Buffer<History>&) { return false; }

  private:
    View view_;
};

struct KenLmView {
    const KenLm* lm;
    const std::uint32_t* ranks;  // by the number of a word in lm; see KenLmStates
    RescoringView rescoring;     // large_labels are word numbers of lm, and there is no large model
};

// The large state of a history is a number of KenLmStates.
class KenLmModels {
  public:
    using View = KenLmView;

    explicit KenLmModels(const View& view) : view_(view) {}

    void begin(std::uint32_t collect_above) {
        states_.begin(*view_.lm, view_.ranks);
        least_ = collect_above_ = collect_above / kLogEntriesAState;
    }

    [[nodiscard]] History start() {
        alignas(8) unsigned char state[KenLm::kLargestState];
        view_.lm->begin_sentence(state);
        return {states_.number(state), view_.rescoring.small.start};
    }

    [[nodiscard]] Deviation deviate(const History& history, std::uint32_t word) {
        const RescoringView& view = view_.rescoring;
        const std::uint32_t label = view.large_labels[word];
        alignas(8) unsigned char next[KenLm::kLargestState];
        const float large = large_cost(history.large, label & ~kKeepsSmallCost, next);
        const LmStep small = lm_step(view.small, history.small, view.small_labels[word]);
        const float cost = (label & kKeepsSmallCost) != 0U ? 0.0F : deviation_cost(view, large, small.cost);
        return {cost, {states_.number(next), small.next_state}};
    }

    [[nodiscard]] float end_deviation(const History& history) const {
        const RescoringView& view = view_.rescoring;
        alignas(8) unsigned char next[KenLm::kLargestState];
        return deviation_cost(view, large_cost(history.large, view_.lm->end_sentence(), next),
                              lm_step(view.small, history.small, view.small.num_labels).cost);
    }

    [[nodiscard]] bool precedes(const History& a, const History& b) const {
        return a.large == b.large ? a.small < b.small : states_.precedes(a.large, b.large);
    }

    bool collect(Buffer<History>& histories) {
        if (states_.size() <= collect_above_) {
            return false;
        }
        states_.begin_collection();
        for (History& history : histories) {
            history.large = states_.keep(history.large);
        }
        states_.end_collection();
        collect_above_ = std::max(least_, states_.size() * 2);
        return true;
    }

  private:
    static constexpr std::uint32_t kLogEntriesAState = 8;

    float large_cost(std::uint32_t state, std::uint32_t word, void* next) const {
        return natural_cost(static_cast<double>(view_.lm->score(states_[state], word, next)));
    }

    View view_;
    KenLmStates states_;
    std::size_t least_ = 0;          // states
    std::size_t collect_above_ = 0;  // states
};

}  // namespace arcbeam::twin
