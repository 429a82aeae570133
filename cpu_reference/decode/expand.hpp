// Stage expand: the emitting arcs of the tokens within the cut-off. A graph is a GraphView or an OpenGraph.
//
// in   tokens[n] with log indices first_log + i, the cut-off (a token of the best cost is within it), the frame's
//      acoustic costs, the beam, the graph's wide states; `cheap` is memory
// out  candidates: every arc whose cost is within the bound of the next frame, and some above it;
//      the bound: best + beam, where best is the exact smallest finite cost over all arcs (+inf where there is
//      none)
// rule cost = ((token cost + acoustic) + arc weight). The bound only falls while arcs are read, so a cost that is
//      above it at any time is above it at the end. Arcs are skipped unread iff ((token cost + acoustic) + the
//      state's smallest weight) is above the bound: rounding is monotone, so this is exact. In a wide state the
//      same holds for whole levels of columns, and of an arc with its coarse weight.
#pragma once

#include <algorithm>
#include <limits>

#include "decode/acoustic.hpp"
#include "decode/cheap_columns.hpp"
#include "decode/cutoff.hpp"
#include "decode/scan.hpp"
#include "decode/tokens.hpp"
#include "decode/wide_states.hpp"
#include "shared/graph_view.hpp"

namespace arcbeam::twin {

template <typename Graph>
class Expand {
  public:
    Expand(const Graph& graph, const WideStates& wide, const Acoustic& acoustic, float beam, CheapColumns& cheap,
           Buffer<Candidate>& out, Work& work)
        : graph_(graph), wide_(wide), acoustic_(acoustic), beam_(beam), cheap_(cheap), out_(out), work_(work) {}

    // Returns the bound of the next frame.
    float operator()(const Buffer<Token>& tokens, std::uint32_t first_log, const Cutoff& cut) {
        out_.clear();
        const std::size_t n = tokens.size();
        const std::size_t best = best_token(tokens);
        const auto leaves = [&tokens, most = cut.cost, excluded = cut.marks()](std::size_t i) {
            return tokens[i].cost <= most && (excluded == nullptr || excluded[i] == 0);
        };
        if (leaves(best)) {
            leave(tokens[best], first_log + static_cast<std::uint32_t>(best));
            follow_all();
        }
        // The tokens that may reach the best of the next frame leave before the others, whose bound is then nearly
        // final.
        const float early = best_ - acoustic_.smallest();
        for (std::size_t i = 0; i < n; ++i) {
            if (tokens[i].cost <= early && i != best && leaves(i)) {
                leave(tokens[i], first_log + static_cast<std::uint32_t>(i));
            }
        }
        follow_all();
        for (std::size_t i = 0; i < n; ++i) {
            if (i + kStateAhead < n) {
                prefetch(graph_.states + tokens[i + kStateAhead].state);
            }
            if (!(tokens[i].cost <= early) && i != best && leaves(i)) {
                leave(tokens[i], first_log + static_cast<std::uint32_t>(i));
            }
        }
        follow_all();
        work_.candidates += out_.size();
        return bound_;
    }

  private:
    // An arc that the bound does not exclude. It is followed a little later, when its target has come from memory.
    struct Pending {
        float cost;
        float acoustic;
        std::uint32_t arc;
        std::uint32_t source;
    };

    static constexpr std::uint32_t kFewArcs = WideStates::kBlock;  // states with more arcs are scanned in vectors
    static constexpr std::uint32_t kScan = 512;                    // arcs at a time
    static constexpr std::uint32_t kMostPending = 32;
    static constexpr std::size_t kStateAhead = 12;

    static std::size_t best_token(const Buffer<Token>& tokens) {
        return static_cast<std::size_t>(
            std::min_element(tokens.begin(), tokens.end(),
                             [](const Token& a, const Token& b) { return a.cost < b.cost; }) -
            tokens.begin());
    }

    // Inlined by order, as are the other functions so marked: left alone, the compiler stops where it meets many
    // calls.
    [[gnu::always_inline]] void leave(const Token& token, std::uint32_t source) {
        const StateRecord& state = graph_.states[token.state];
        const std::uint32_t begin = state.first_emitting;
        const std::uint32_t end = graph_.arcs_end(token.state);
        ++work_.expanded_tokens;
        work_.leaving_arcs += end - begin;
        if (begin == end || extend(token.cost, acoustic_.smallest(), state.smallest_weight) > bound_) {
            return;
        }
        if (end - begin <= kFewArcs) {
            look_at_few(token.cost, state.smallest_weight, begin, end, source);
            return;
        }
        if (const std::uint64_t* const row = wide_.row(begin); row != nullptr) {
            const std::size_t affordable = cheap_columns().affordable(token.cost, state.smallest_weight, bound_);
            if (affordable != CheapColumns::kAll) {
                look_up(token.cost, state.smallest_weight, begin, row, affordable, source);
                return;
            }
        }
        for (std::uint32_t first = begin; first < end; first += kScan) {
            std::uint32_t found[kScan];
            const std::size_t count = scan(graph_.columns + first, std::min(kScan, end - first), acoustic_.costs(),
                                           token.cost, state.smallest_weight, bound_, found);
            for (std::size_t i = 0; i < count; ++i) {
                const std::uint32_t arc = first + found[i];
                postpone({token.cost, acoustic_[graph_.columns[arc]], arc, source});
            }
        }
    }

    // Without branches, because which arcs are affordable is hard to predict.
    [[gnu::always_inline]] void look_at_few(float cost, float smallest_weight, std::uint32_t begin,
                                            std::uint32_t end, std::uint32_t source) {
        const std::uint16_t* const columns = graph_.columns + begin;
        const float* const acoustic = acoustic_.costs();
        const float bound = bound_;
        prefetch(graph_.targets + begin);
        prefetch(graph_.targets + (end - 1U));
        std::uint32_t count = num_pending_;
        for (std::uint32_t i = 0; i < end - begin; ++i) {
            const float a = acoustic[columns[i]];
            pending_[count] = {cost, a, begin + i, source};
            count += extend(cost, a, smallest_weight) <= bound ? 1U : 0U;
        }
        num_pending_ = count;
        if (num_pending_ >= kMostPending) {
            follow_all();
        }
    }

    // Of a wide state, the arcs of the first `affordable` of the frame's cheap columns.
    void look_up(float cost, float smallest_weight, std::uint32_t begin, const std::uint64_t* row,
                 std::size_t affordable, std::uint32_t source) {
        FoundArc found[kColumnsAtOnce * 2];
        for (std::size_t first = 0; first < affordable; first += kColumnsAtOnce) {
            const std::size_t count = find_arcs(row, wide_.words(), cheap_.columns() + first,
                                                std::min(kColumnsAtOnce, affordable - first), acoustic_.costs(),
                                                cost, smallest_weight, bound_, found);
            for (std::size_t i = 0; i < count; ++i) {
                postpone({cost, found[i].acoustic, begin + found[i].arc, source});
            }
        }
    }

    // Sorted when a frame first needs them.
    const CheapColumns& cheap_columns() {
        if (!is_sorted_) {
            is_sorted_ = true;
            cheap_.sort(acoustic_.costs(), std::min<std::size_t>(acoustic_.size(), wide_.columns()),
                        acoustic_.smallest(), beam_);
        }
        return cheap_;
    }

    void postpone(const Pending& pending) {
        prefetch(graph_.targets + pending.arc);
        pending_[num_pending_++] = pending;
        if (num_pending_ >= kMostPending) {
            follow_all();
        }
    }

    void follow_all() {
        work_.read_arcs += num_pending_;
        out_.make_room(num_pending_);
        for (std::uint32_t i = 0; i < num_pending_; ++i) {
            const Pending& pending = pending_[i];
            const ArcTarget& target = graph_.targets[pending.arc];
            const float cost = extend(pending.cost, pending.acoustic, target.weight);
            if (!admits(bound_, cost)) {
                continue;
            }
            prefetch(graph_.states + target.next_state);
            out_.add_unchecked({cost, pending.arc, target.next_state, pending.source});
            if (cost < best_) {
                best_ = cost;
                bound_ = beam_bound(best_, beam_);
            }
        }
        num_pending_ = 0;
    }

    const Graph& graph_;
    const WideStates& wide_;
    const Acoustic& acoustic_;
    const float beam_;
    CheapColumns& cheap_;
    Buffer<Candidate>& out_;
    Work& work_;
    float best_ = std::numeric_limits<float>::infinity();
    float bound_ = std::numeric_limits<float>::infinity();
    bool is_sorted_ = false;
    std::uint32_t num_pending_ = 0;
    Pending pending_[kMostPending + kFewArcs];
};

}  // namespace arcbeam::twin
