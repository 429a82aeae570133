// Checks for the endpoint of a stream's sentence (shared/endpoint.hpp) frame by frame. A check depends on the
// frames of the sentence alone, wherever its chunks end.
#pragma once

#include <algorithm>
#include <cstdint>

#include "decode/backtrack.hpp"
#include "decode/prune.hpp"
#include "shared/cost.hpp"
#include "shared/endpoint.hpp"
#include "shared/graph_view.hpp"

namespace arcbeam::twin {

// In place of an EndpointWatch where sentences do not end by themselves.
struct NoWatch {
    [[nodiscard]] static bool has_fired() { return false; }
    [[nodiscard]] static bool counts_frames() { return false; }
    template <typename Graph, typename Ends>
    static bool ends_at(const Graph&, const Ends&, const Buffer<Token>&, const TokenLog&, std::uint32_t, bool) {
        return false;
    }
};

class EndpointWatch {
  public:
    explicit EndpointWatch(const EndpointRules& rules) : rules_(rules) {}

    // The number of the rule that has ended the sentence, or kNoEndpoint.
    [[nodiscard]] std::uint32_t fired() const { return fired_; }
    [[nodiscard]] bool has_fired() const { return fired_ != kNoEndpoint; }

    // Whether frames count although the search has died.
    [[nodiscard]] bool counts_frames() const { return rules_.num_rules != 0U; }

    // Adds a frame to the sentence; returns whether it ends there. Frames after that must not be given. `settled`:
    // the entry of the log that all paths share, if the arcs to it have not left the log.
    template <typename Graph, typename Ends>
    bool ends_at(const Graph& graph, const Ends& ends, const Buffer<Token>& tokens, const TokenLog& log,
                 std::uint32_t settled, bool alive) {
        if (!counts_frames()) {
            return false;
        }
        ++frames_;
        dead_frames_ += alive ? 0U : 1U;
        if (frames_ % rules_.every != 0U) {
            return false;
        }
        const End best = best_end(ends, tokens, false);
        const std::uint64_t silence =
            dead_frames_ + trailing_silence(graph, tokens.size() - best.token, log, settled);
        fired_ = rule_that_holds(rules_, frames_, silence, alive ? -kInfiniteCost : kInfiniteCost);
        if (alive && has_fired() && needs_end_cost(rules_.rules[fired_ - 1U])) {
            const float relative = relative_cost(smallest_end(ends, tokens), best.cost);
            fired_ = rule_that_holds(rules_, frames_, silence, relative);
        }
        return has_fired();
    }

    // Frames of silence at the end of the settled arcs.
    [[nodiscard]] std::uint64_t settled_silence() const { return settled_silence_; }

    // All paths share these arcs, too.
    template <typename Graph>
    void settle(const Graph& graph, const std::uint32_t* arcs, std::size_t count) {
        for (std::size_t i = 0; i < count && counts_frames(); ++i) {
            const std::uint16_t column = graph.columns[arcs[i]];
            if (column != kEpsilonColumn) {
                settled_silence_ = reads_silence(rules_, column) ? settled_silence_ + 1U : 0U;
            }
        }
    }

    // Goes on with a sentence of so many frames, after `settle` with all its settled arcs.
    void resume(std::uint64_t frames, std::uint64_t dead_frames, std::uint32_t fired) {
        frames_ = frames;
        dead_frames_ = dead_frames;
        fired_ = fired;
    }

  private:
    // Frames of silence at the end of the path to the token that is `from_end` entries before the end of the log.
    template <typename Graph>
    [[nodiscard]] std::uint64_t trailing_silence(const Graph& graph, std::size_t from_end, const TokenLog& log,
                                                 std::uint32_t settled) const {
        std::uint64_t silence = 0;
        for (std::uint32_t at = log.size() - static_cast<std::uint32_t>(from_end);
             log[at].arc != kNoArc && at != settled; at = log[at].source) {
            const std::uint16_t column = graph.columns[log[at].arc];
            if (column == kEpsilonColumn) {
                continue;
            }
            if (!reads_silence(rules_, column)) {
                return silence;
            }
            ++silence;
        }
        return silence + settled_silence_;
    }

    template <typename Ends>
    static float smallest_end(const Ends& ends, const Buffer<Token>& tokens) {
        float smallest = kInfiniteCost;
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            smallest = std::min(smallest, ends.cost(i));
        }
        return smallest;
    }

    EndpointRules rules_{};
    std::uint64_t frames_ = 0;           // of the sentence
    std::uint64_t dead_frames_ = 0;      // of these, since the search died
    std::uint64_t settled_silence_ = 0;  // frames of silence at the end of what is settled
    std::uint32_t fired_ = kNoEndpoint;
};

}  // namespace arcbeam::twin
