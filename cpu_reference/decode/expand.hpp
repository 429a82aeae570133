// Stage expand: the emitting arcs of the tokens within the cut-off.
//
// in   tokens[n] with log indices first_log + i, the cut-off (the best token is within it), the frame's acoustic
//      costs, the beam
// out  candidates: every arc whose cost is within the bound of the next frame, and some above it;
//      the bound: best + beam, where best is the exact smallest finite cost over all arcs (+inf where there is
//      none)
// rule cost = ((token cost + acoustic) + arc weight). The bound only falls while arcs are read, so what is above it
//      at any time is above it at the end. Arcs are skipped unread iff ((token cost + acoustic) + the state's
//      smallest weight) is above it: rounding is monotone, so this is exact.
#pragma once

#include <algorithm>
#include <limits>

#include "decode/acoustic.hpp"
#include "decode/tokens.hpp"
#include "shared/graph_view.hpp"

namespace arcbeam::twin {

class Expand {
  public:
    Expand(const GraphView& graph, Acoustic& acoustic, float beam, Buffer<Candidate>& out, Work& work)
        : graph_(graph), acoustic_(acoustic), beam_(beam), out_(out), work_(work) {}

    // Returns the bound of the next frame.
    float operator()(const Buffer<Token>& tokens, std::uint32_t first_log, float cutoff) {
        out_.clear();
        const std::size_t n = tokens.size();
        const std::size_t best = best_token(tokens);
        leave(tokens[best], first_log + static_cast<std::uint32_t>(best));  // a good bound from the first arc on
        for (std::size_t i = 0; i < n; ++i) {
            look_ahead(tokens, i);
            if (tokens[i].cost <= cutoff && i != best) {
                leave(tokens[i], first_log + static_cast<std::uint32_t>(i));
            }
        }
        work_.candidates += out_.size();
        return bound_;
    }

  private:
    // States of more arcs than this are searched by column instead of read through.
    static constexpr std::uint32_t kReadThrough = 32;
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
            const std::uint32_t arc = graph_.states[tokens[i + kArcsAhead].state].first_emitting;
            prefetch(graph_.columns + arc);
            prefetch(graph_.targets + arc);
        }
    }

    void leave(const Token& token, std::uint32_t source) {
        const StateRecord& state = graph_.states[token.state];
        const std::uint32_t begin = state.first_emitting;
        const std::uint32_t end = graph_.arcs_end(token.state);
        ++work_.expanded_tokens;
        work_.leaving_arcs += end - begin;
        if (begin == end || extend(token.cost, acoustic_.smallest(), state.smallest_weight) > bound_) {
            return;
        }
        out_.make_room(end - begin);
        if (end - begin <= kReadThrough) {
            for (std::uint32_t arc = begin; arc < end; ++arc) {
                const float acoustic = acoustic_[graph_.columns[arc]];
                if (extend(token.cost, acoustic, state.smallest_weight) <= bound_) {
                    follow(token, acoustic, arc, source);
                }
            }
            return;
        }
        const std::uint16_t* const columns_end = graph_.columns + end;
        for (std::uint32_t rank = 0; rank < acoustic_.columns(); ++rank) {
            const std::uint32_t column = acoustic_.ranked(rank);
            const float acoustic = acoustic_[column];
            if (extend(token.cost, acoustic, state.smallest_weight) > bound_) {
                break;
            }
            const std::uint16_t* at = std::lower_bound(graph_.columns + begin, columns_end, column);
            for (; at != columns_end && *at == column; ++at) {
                follow(token, acoustic, static_cast<std::uint32_t>(at - graph_.columns), source);
            }
        }
    }

    void follow(const Token& token, float acoustic, std::uint32_t arc, std::uint32_t source) {
        const ArcTarget& target = graph_.targets[arc];
        const float cost = extend(token.cost, acoustic, target.weight);
        ++work_.read_arcs;
        if (!admits(bound_, cost)) {
            return;
        }
        out_.add_unchecked({cost, arc, target.next_state, source});
        if (cost < best_) {
            best_ = cost;
            bound_ = beam_bound(best_, beam_);
        }
    }

    const GraphView& graph_;
    Acoustic& acoustic_;
    const float beam_;
    Buffer<Candidate>& out_;
    Work& work_;
    float best_ = std::numeric_limits<float>::infinity();
    float bound_ = std::numeric_limits<float>::infinity();
};

}  // namespace arcbeam::twin
