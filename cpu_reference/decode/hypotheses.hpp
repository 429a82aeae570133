// The frontier of a search with histories: one winner for each (graph state, history), and the best n of a state.
//
// Among candidates for one key the smallest (cost, arc id, source history) wins. The hypotheses of a state are
// ordered by (cost, history). `cut` keeps the first n of them, after the list is complete and before its epsilon
// arcs are followed. The models order histories (models.hpp).
#pragma once

#include <algorithm>
#include <cstdint>

#include "decode/models.hpp"
#include "decode/recombine.hpp"
#include "decode/slot_table.hpp"

namespace arcbeam::twin {

// The histories of the tokens that candidates leave: tokens of the last frame, or of this one.
template <typename History>
struct SourceHistories {
    const Buffer<History>& last;
    std::uint32_t first_log_last;
    std::uint32_t first_log;  // of this frame

    [[nodiscard]] const History& operator()(std::uint32_t source, const Buffer<History>& current) const {
        return source >= first_log ? current[source - first_log] : last[source - first_log_last];
    }
};

// `Models` is one of the classes of models.hpp.
template <typename Models>
class Hypotheses {
  public:
    using History = typename Models::History;

    static constexpr std::uint32_t kNone = 0xffffffffU;

    void begin_frame(std::size_t expected) {
        keys_.begin_frame(expected);
        lists_.begin_frame(expected);
        frontier_.clear();
        histories_.clear();
        next_.clear();
        dead_.clear();
        heads_.clear();
        has_moved_ = false;
    }

    struct Added {
        std::uint32_t slot;
        std::uint32_t list;  // of the state, if it had no hypothesis yet
        bool is_new_state;
    };

    Added add(const Models& models, const Candidate& candidate, const History& history,
              const SourceHistories<History>& sources) {
        bool added;
        const std::uint32_t slot = keys_.find_or_add({candidate.state, history}, added);
        if (!added) {
            Candidate& winner = frontier_[slot];
            if (wins(candidate.cost, candidate.arc, winner) ||
                (candidate.cost == winner.cost && candidate.arc == winner.arc &&
                 models.precedes(sources(candidate.source, histories_), sources(winner.source, histories_)))) {
                winner = candidate;
            }
            return {slot, kNone, false};
        }
        frontier_.add(candidate);
        histories_.add(history);
        dead_.add(0);
        bool is_new_state;
        const std::uint32_t list = lists_.find_or_add({candidate.state}, is_new_state);
        if (is_new_state) {
            heads_.add({kNone, 0});
        }
        next_.add(heads_[list].first);
        heads_[list] = {slot, heads_[list].count + 1};
        return {slot, list, is_new_state};
    }

    // Keeps the best n of a list; 0 for no limit.
    void cut(const Models& models, std::uint32_t list, std::uint32_t n) {
        if (n == 0 || heads_[list].count <= n) {
            return;
        }
        order_.clear();
        for (std::uint32_t slot = heads_[list].first; slot != kNone; slot = next_[slot]) {
            order_.add(slot);
        }
        std::nth_element(order_.begin(), order_.begin() + n, order_.end(),
                         [&](std::uint32_t a, std::uint32_t b) { return precedes(models, a, b); });
        heads_[list] = {kNone, 0};
        for (std::uint32_t i = 0; i < order_.size(); ++i) {
            if (i < n) {
                next_[order_[i]] = heads_[list].first;
                heads_[list] = {order_[i], heads_[list].count + 1};
            } else {
                dead_[order_[i]] = 1;
                any_dead_ = true;
            }
        }
    }

    // Removes the cut hypotheses. Sources within the frame, whose log entries begin at first_log, move with theirs.
    void compact(std::uint32_t first_log) {
        if (!any_dead_) {
            return;
        }
        any_dead_ = false;
        has_moved_ = true;
        std::uint32_t count = 0;
        for (std::uint32_t& dead : dead_) {  // first a mark, then the new slot
            const std::uint32_t kept = dead == 0 ? 1U : 0U;
            dead = kept != 0 ? count : kNone;
            count += kept;
        }
        for (std::uint32_t slot = 0; slot < frontier_.size(); ++slot) {
            if (dead_[slot] == kNone) {
                continue;
            }
            Candidate moved = frontier_[slot];
            if (moved.source != kNoSource && moved.source >= first_log) {
                moved.source = first_log + dead_[moved.source - first_log];
            }
            histories_[dead_[slot]] = histories_[slot];
            frontier_[dead_[slot]] = moved;
        }
        frontier_.resize(count);
        histories_.resize(count);
    }

    // Where a slot is after `compact`; kNone if its hypothesis was cut.
    [[nodiscard]] std::uint32_t place(std::uint32_t slot) const { return has_moved_ ? dead_[slot] : slot; }

    [[nodiscard]] std::uint32_t first(std::uint32_t list) const { return heads_[list].first; }
    [[nodiscard]] std::uint32_t next(std::uint32_t slot) const { return next_[slot]; }
    [[nodiscard]] std::uint32_t num_lists() const { return static_cast<std::uint32_t>(heads_.size()); }
    [[nodiscard]] std::uint32_t state(std::uint32_t list) const { return frontier_[heads_[list].first].state; }
    [[nodiscard]] const Frontier& frontier() const { return frontier_; }
    [[nodiscard]] const Buffer<History>& histories() const { return histories_; }

  private:
    struct Key {
        std::uint32_t state;
        History history;
        bool operator==(const Key& other) const { return state == other.state && history == other.history; }
        [[nodiscard]] std::uint32_t hash() const { return mixed(state * 0x9e3779b1U, history) * 0xc2b2ae35U; }
    };
    struct Head {
        std::uint32_t first;
        std::uint32_t count;
    };

    [[nodiscard]] bool precedes(const Models& models, std::uint32_t a, std::uint32_t b) const {
        return frontier_[a].cost < frontier_[b].cost ||
               (frontier_[a].cost == frontier_[b].cost && models.precedes(histories_[a], histories_[b]));
    }

    SlotTable<Key> keys_;
    SlotTable<StateKey> lists_;
    Frontier frontier_;
    Buffer<History> histories_;
    Buffer<std::uint32_t> next_;  // [slots]: the next hypothesis of the same state
    Buffer<std::uint32_t> dead_;  // [slots]
    Buffer<Head> heads_;          // [lists]
    Buffer<std::uint32_t> order_;
    bool any_dead_ = false;
    bool has_moved_ = false;
};

}  // namespace arcbeam::twin
