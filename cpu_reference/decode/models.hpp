// What words add to the cost of a path, as the stages of a search with histories use it. The classes below are the
// graph's language model with a large one, which is an automaton of arcbeam's or KenLM's; boosted_models.hpp adds a
// boost. Each lane has its own.
//
//   History, Addend         a token's history; what a word adds, with the `next` history
//   begin(collect_above)    starts another utterance; up to this many log entries (8 bytes) collecting is not worth
//                           it
//   start(), start(lm_context)   the history at the beginning of a sentence; of one that follows a context
//   keep(history)                the addend of an arc without a word
//   add(history, word)           the addend of a word
//   rescored(cost, addend)  a path's cost with it; a free function
//   end(cost, history)      a path's cost with what the end of a sentence adds
//   unfinished(cost, history)  the same for a path that ends where no sentence does
//   precedes(a, b)          the order of histories, the last tie-break
//   mixed(seed, history)    a hash that begins with `seed`; a free function
//   collect(histories, of)  frees what no history `of` these needs; returns whether it has renumbered them
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "decode/buffer.hpp"
#include "kenlm/kenlm.hpp"
#include "kenlm/states.hpp"
#include "shared/natural_log.hpp"
#include "shared/rescoring.hpp"

namespace arcbeam::twin {

// What the large model sees of the sentences before: some words, which follow the beginning of a sentence or
// nothing. The model of the graph begins anew with each sentence, because the graph does.
struct LmContext {
    std::vector<std::uint32_t> words;  // of the graph
    bool after_start = true;
};

inline float rescored(float cost, const Deviation& deviation) { return rescore_cost(cost, deviation.cost); }

inline std::uint32_t mixed(std::uint32_t seed, const History& history) {
    return (seed ^ history.large) * 0x85ebca6bU ^ history.small;
}

class NoModels {
  public:
    struct View {};
    struct History {
        bool operator==(const History&) const { return true; }
    };
    struct Addend {
        History next;
    };

    explicit NoModels(const View&) {}

    void begin(std::uint32_t) {}
    [[nodiscard]] static History start() { return {}; }
    [[nodiscard]] static History start(const LmContext&) { return {}; }
    [[nodiscard]] static Addend keep(const History& history) { return {history}; }
    [[nodiscard]] static Addend add(const History& history, std::uint32_t) { return {history}; }
    [[nodiscard]] static float end(float cost, const History&) { return cost; }
    [[nodiscard]] static float unfinished(float cost, const History&) { return cost; }
    [[nodiscard]] static bool precedes(const History&, const History&) { return false; }
    template <typename Held, typename Of>
    static bool collect(Buffer<Held>&, Of) {
        return false;
    }
};

inline float rescored(float cost, const NoModels::Addend&) { return cost; }
inline std::uint32_t mixed(std::uint32_t seed, const NoModels::History&) { return seed; }

class AutomatonModels {
  public:
    using View = RescoringView;
    using History = arcbeam::History;
    using Addend = Deviation;

    explicit AutomatonModels(const View& view) : view_(view) {}

    void begin(std::uint32_t) {}
    [[nodiscard]] History start() const { return start_history(view_); }
    [[nodiscard]] History start(const LmContext& lm_context) const {
        History history = start();
        history.large = lm_context.after_start ? history.large : kLmEmptyHistory;
        for (const std::uint32_t word : lm_context.words) {
            history.large = deviate(view_, history, word).next.large;
        }
        return history;
    }
    [[nodiscard]] static Addend keep(const History& history) { return {0.0F, history}; }
    [[nodiscard]] Addend add(const History& history, std::uint32_t word) const {
        return deviate(view_, history, word);
    }
    [[nodiscard]] float end(float cost, const History& history) const {
        return rescore_cost(cost, end_deviation(history));
    }
    [[nodiscard]] static float unfinished(float cost, const History&) { return cost; }
    [[nodiscard]] float end_deviation(const History& history) const {
        return arcbeam::end_deviation(view_, history);
    }
    [[nodiscard]] static bool precedes(const History& a, const History& b) { return a < b; }
    template <typename Held, typename Of>
    static bool collect(Buffer<Held>&, Of) {
        return false;
    }

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
    using History = arcbeam::History;
    using Addend = Deviation;

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

    [[nodiscard]] History start(const LmContext& lm_context) {
        alignas(8) unsigned char state[KenLm::kLargestState];
        alignas(8) unsigned char next[KenLm::kLargestState];
        lm_context.after_start ? view_.lm->begin_sentence(state) : view_.lm->null_context(state);
        for (const std::uint32_t word : lm_context.words) {
            view_.lm->score(state, view_.rescoring.large_labels[word] & ~kKeepsSmallCost, next);
            std::copy(next, next + view_.lm->state_size(), state);
        }
        return {states_.number(state), view_.rescoring.small.start};
    }

    [[nodiscard]] static Addend keep(const History& history) { return {0.0F, history}; }

    [[nodiscard]] Addend add(const History& history, std::uint32_t word) {
        const RescoringView& view = view_.rescoring;
        const std::uint32_t label = view.large_labels[word];
        alignas(8) unsigned char next[KenLm::kLargestState];
        const float large = large_cost(history.large, label & ~kKeepsSmallCost, next);
        const LmStep small = lm_step(view.small, history.small, view.small_labels[word]);
        const float cost = (label & kKeepsSmallCost) != 0U ? 0.0F : deviation_cost(view, large, small.cost);
        return {cost, {states_.number(next), small.next_state}};
    }

    [[nodiscard]] float end(float cost, const History& history) const {
        return rescore_cost(cost, end_deviation(history));
    }

    [[nodiscard]] static float unfinished(float cost, const History&) { return cost; }

    [[nodiscard]] float end_deviation(const History& history) const {
        const RescoringView& view = view_.rescoring;
        alignas(8) unsigned char next[KenLm::kLargestState];
        return deviation_cost(view, large_cost(history.large, view_.lm->end_sentence(), next),
                              lm_step(view.small, history.small, view.small.num_labels).cost);
    }

    [[nodiscard]] bool precedes(const History& a, const History& b) const {
        return a.large == b.large ? a.small < b.small : states_.precedes(a.large, b.large);
    }

    // KenLM's state of a history.
    [[nodiscard]] const void* state(const History& history) const { return states_[history.large]; }

    template <typename Held, typename Of>
    bool collect(Buffer<Held>& histories, Of of) {
        if (states_.size() <= collect_above_) {
            return false;
        }
        states_.begin_collection();
        for (Held& held : histories) {
            History& history = of(held);
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
