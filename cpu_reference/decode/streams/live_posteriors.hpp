// Posteriors of the words of a partial result: the share of each in the probability of the tokens that are alive
// (law 10 of docs/design/rules.md).
//
// in   a saved search, the arcs that are settled, the boost; how many words of the result each token's words begin
//      with
// out  [words] in [0, 1], never rising from one word to the next
// rule a token weighs exp(-scale * (its cost - the smallest)), its boost's refund included (law 9). A word has the
//      weight of the tokens whose words begin with all words up to it, over the weight of all tokens. Both sums
//      take tokens in the order of the saved search, so the second is at least 1, and no sum of some tokens
//      exceeds that of more.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "decode/streams/saved_search.hpp"
#include "decode/tokens.hpp"
#include "graph/open_graph.hpp"
#include "lattice/scaled.hpp"
#include "shared/boost.hpp"

namespace arcbeam::twin {

inline std::vector<std::uint32_t> labels_along(const OpenGraph& graph, const std::uint32_t* arcs,
                                               std::size_t count) {
    std::vector<std::uint32_t> labels;
    for (std::size_t i = 0; i < count; ++i) {
        if (graph.words[arcs[i]] != kNoWord) {
            labels.push_back(graph.words[arcs[i]]);
        }
    }
    return labels;
}

inline std::uint32_t boost_state_after(const BoostView& boost, const std::vector<std::uint32_t>& labels) {
    std::uint32_t state = kNoPhrase;
    for (const std::uint32_t label : labels) {
        state = boost_step(boost, state, label).next_state;
    }
    return state;
}

// The labels that the unsettled paths of a search write. Paths part at entries of the log, and most entries write
// nothing; so a path is known by the last entry on it that does, or kNoSource.
class LiveLabels {
  public:
    LiveLabels(const OpenGraph& graph, const SavedSearch& saved) {
        before_.reserve(saved.log.size());
        labels_.reserve(saved.log.size());
        for (std::uint32_t i = 0; i < saved.log.size(); ++i) {
            const LogEntry& entry = saved.log[i];
            before_.push_back(entry.source == kNoSource ? kNoSource : last_writer(entry.source));
            labels_.push_back(entry.arc == kNoArc ? kNoWord : graph.words[entry.arc]);
        }
    }

    [[nodiscard]] std::uint32_t last_writer(std::uint32_t entry) const {
        return labels_[entry] == kNoWord ? before_[entry] : entry;
    }

    // Appends the labels up to an entry that writes one.
    void append(std::uint32_t writer, std::vector<std::uint32_t>& to) const {
        const std::size_t begin = to.size();
        for (; writer != kNoSource; writer = before_[writer]) {
            to.push_back(labels_[writer]);
        }
        std::reverse(to.begin() + static_cast<std::ptrdiff_t>(begin), to.end());
    }

    // The states of a boost after each entry, if `settled` is the one before them.
    [[nodiscard]] std::vector<std::uint32_t> boost_states(const BoostView& boost, std::uint32_t settled) const {
        std::vector<std::uint32_t> states(labels_.size(), settled);
        for (std::size_t i = 0; i < labels_.size(); ++i) {
            if (before_[i] != kNoSource) {
                states[i] = states[before_[i]];
            }
            if (labels_[i] != kNoWord) {
                states[i] = boost_step(boost, states[i], labels_[i]).next_state;
            }
        }
        return states;
    }

  private:
    std::vector<std::uint32_t> before_;  // [log]: the last entry before each one that writes a label, or kNoSource
    std::vector<std::uint32_t> labels_;  // [log]: kNoWord where an entry writes none
};

// What each token weighs. `boost_states` are those after the entries of the log.
inline std::vector<double> live_weights(const SavedSearch& saved, const BoostView& boost,
                                        const std::vector<std::uint32_t>& boost_states, double scale) {
    std::vector<double> weights;
    for (std::size_t i = 0; i < saved.tokens.size(); ++i) {
        const float refund = boost_refund(boost, boost_states[saved.entries[i]]);
        weights.push_back(static_cast<double>(boost_cost(saved.tokens[i].cost, refund)));
    }
    const double smallest = *std::min_element(weights.begin(), weights.end());
    for (double& one : weights) {
        one = lattice::exp_of_minus(scale * (one - smallest));
    }
    return weights;
}

// `in_common`: [tokens] how many of the words a token's words begin with.
inline std::vector<double> live_posteriors(const std::vector<double>& weights,
                                           const std::vector<std::size_t>& in_common, std::size_t words) {
    double all = 0.0;
    std::vector<double> shares(words, 0.0);
    for (std::size_t i = 0; i < weights.size(); ++i) {
        all += weights[i];
        for (std::size_t word = 0; word < in_common[i]; ++word) {
            shares[word] += weights[i];
        }
    }
    for (double& share : shares) {
        share /= all;
    }
    return shares;
}

}  // namespace arcbeam::twin
