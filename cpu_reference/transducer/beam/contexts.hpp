// Contexts of histories: those that count as one where hypotheses are merged although their older labels differ.
//
// in    how many labels have to be equal; 0: each history is its own context
// out   the number of a history's context, the same for histories with the same last labels and states of automata;
//       a history with fewer labels is alone
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transducer/beam/bucket.hpp"
#include "transducer/beam/prefix_tree.hpp"

namespace arcbeam::transducer::beam {

class Contexts {
  public:
    void reset(std::uint32_t labels) {
        labels_ = labels;
        of_nodes_.clear();
        numbers_.clear();
    }

    std::uint32_t of(std::uint32_t node, const PrefixTree& tree) {
        if (labels_ == 0) {
            return node;
        }
        if (node >= of_nodes_.size()) {
            of_nodes_.resize(node + std::size_t{1}, kUnknown);
        }
        if (of_nodes_[node] == kUnknown) {
            of_nodes_[node] = find(node, tree);
        }
        return of_nodes_[node];
    }

    // Of the hypotheses with one context the strongest stays as it is, the first of equals.
    void merge(Bucket& bucket, const PrefixTree& tree) {
        if (labels_ == 0) {
            return;
        }
        std::vector<Hypothesis>& all = bucket.hypotheses;
        std::unordered_map<std::uint32_t, std::size_t> strongest;
        for (std::size_t i = 0; i < all.size(); ++i) {
            const auto [found, is_new] = strongest.try_emplace(of(all[i].node, tree), i);
            if (!is_new && all[i].score > all[found->second].score) {
                found->second = i;
            }
        }
        std::size_t left = 0;
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (strongest[of(all[i].node, tree)] == i) {
                all[left++] = all[i];
            }
        }
        all.resize(left);
    }

  private:
    static constexpr std::uint32_t kUnknown = 0xffffffffU;

    std::uint32_t find(std::uint32_t node, const PrefixTree& tree) {
        const FusionStates& states = tree.fused(node).states;
        std::vector<std::uint32_t> key(states.of, states.of + kFusionModels);
        for (std::uint32_t i = 0; i < labels_ && node != PrefixTree::kRoot; ++i) {
            key.push_back(tree.token(node));
            node = tree.parent(node);
        }
        return numbers_.try_emplace(std::move(key), static_cast<std::uint32_t>(numbers_.size())).first->second;
    }

    std::uint32_t labels_ = 0;
    std::vector<std::uint32_t> of_nodes_;                          // kUnknown until it is needed
    std::map<std::vector<std::uint32_t>, std::uint32_t> numbers_;  // by states and labels, the last one first
};

}  // namespace arcbeam::transducer::beam
