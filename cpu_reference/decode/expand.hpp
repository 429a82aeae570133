// Stage expand: the emitting arcs of the tokens within the cut-off. A graph is a GraphView or an OpenGraph.
//
// in   tokens[n] with log indices first_log + i, the cut-off (a token of the best cost is within it), the frame's
//      acoustic costs, the beam
// out  candidates: every arc whose cost is within the bound of the next frame, and some above it;
//      the bound: best + beam, where best is the exact smallest finite cost over all arcs (+inf where there is
//      none)
// rule cost = ((token cost + acoustic) + arc weight). The bound only falls while arcs are read, so a cost that is
//      above it at any time is above it at the end. Arcs are skipped unread iff ((token cost + acoustic) + the
//      state's smallest weight) is above the bound: rounding is monotone, so this is exact.
#pragma once

#include <algorithm>
#include <limits>

#include "decode/acoustic.hpp"
#include "decode/cutoff.hpp"
#include "decode/scan.hpp"
#include "decode/tokens.hpp"
#include "shared/graph_view.hpp"

namespace arcbeam::twin {

template <typename Graph>
class Expand {
  public:
    Expand(const Graph& graph, const Acoustic& acoustic, float beam, Buffer<Candidate>& out, Work& work)
        : graph_(graph), acoustic_(acoustic), beam_(beam), out_(out), work_(work) {}

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
            follow_all();  // gives a good bound before the other tokens leave
        }
        for (std::size_t i = 0; i < n; ++i) {
            look_ahead(tokens, i);
            if (leaves(i) && i != best) {
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

    static constexpr std::uint32_t kFewArcs = 16;  // states with more arcs are scanned in vectors
    static constexpr std::uint32_t kScan = 512;    // arcs at a time
    static constexpr std::uint32_t kMostPending = 32;
    static constexpr std::size_t kArcsAhead = 4;
    static constexpr std::size_t kStateAhead = 12;

    static std::size_t best_token(const Buffer<Token>& tokens) {
        return static_cast<std::size_t>(
            std::min_element(tokens.begin(), tokens.end(),
                             [](const Token& a, const Token& b) { return a.cost < b.cost; }) -
            tokens.begin());
    }

    void look_ahead(const Buffer<Token>& tokens, std::size_t i) const {
        if (i + kStateAhead < tokens.size()) {
            prefetch(graph_.states + tokens[i + kStateAhead].state);
        }
        if (i + kArcsAhead < tokens.size()) {
            prefetch(graph_.columns + graph_.states[tokens[i + kArcsAhead].state].first_emitting);
        }
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
            for (std::uint32_t arc = begin; arc < end; ++arc) {
                const float acoustic = acoustic_[graph_.columns[arc]];
                if (extend(token.cost, acoustic, state.smallest_weight) <= bound_) {
                    postpone({token.cost, acoustic, arc, source});
                }
            }
            return;
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

    void postpone(const Pending& pending) {
        prefetch(graph_.targets + pending.arc);
        pending_[num_pending_++] = pending;
        if (num_pending_ == kMostPending) {
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
    const Acoustic& acoustic_;
    const float beam_;
    Buffer<Candidate>& out_;
    Work& work_;
    float best_ = std::numeric_limits<float>::infinity();
    float bound_ = std::numeric_limits<float>::infinity();
    std::uint32_t num_pending_ = 0;
    Pending pending_[kMostPending];
};

}  // namespace arcbeam::twin
