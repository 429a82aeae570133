// The histories of an utterance: a tree in which equal sequences of labels are one node.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transducer/evaluation.hpp"

namespace arcbeam::transducer::beam {

class PrefixTree {
  public:
    static constexpr std::uint32_t kRoot = 0;

    // Empties the tree but for the root, before any label.
    void reset() {
        for (Node& node : nodes_) {
            give_back(node);
        }
        children_.clear();
        predicted_.clear();
        nodes_.clear();
        nodes_.push_back({kRoot, 0U, nullptr});
    }

    // The node after one label more.
    std::uint32_t child(std::uint32_t node, std::uint32_t token) {
        const auto next = static_cast<std::uint32_t>(nodes_.size());
        const auto [found, is_new] = children_.try_emplace((std::uint64_t{node} << 32U) | token, next);
        if (is_new) {
            nodes_.push_back({node, token, nullptr});
        }
        return found->second;
    }

    [[nodiscard]] const Prediction* prediction(std::uint32_t node) const { return nodes_[node].prediction.get(); }

    // Gives a node without one a prediction that is still to be run, on its last label after its parent's.
    Prediction* begin_prediction(std::uint32_t node, const Network& network, std::uint32_t blank) {
        std::unique_ptr<Prediction> made;
        if (spare_.empty()) {
            made = std::make_unique<Prediction>();
            made->reset(network);
        } else {
            made = std::move(spare_.back());
            spare_.pop_back();
        }
        if (node == kRoot) {
            made->reset(network);
            made->last_token = blank;
        } else {
            const Prediction& before = *nodes_[nodes_[node].parent].prediction;
            copy(before.hidden, made->hidden);
            copy(before.cell, made->cell);
            made->context = before.context;
            made->last_token = nodes_[node].token;
        }
        nodes_[node].prediction = std::move(made);
        predicted_.push_back(node);
        return nodes_[node].prediction.get();
    }

    // Keeps the predictions of these nodes, of their children, and of their parents if they have none of their own;
    // no byte depends on it, since one that is needed later is run again.
    void keep(const std::vector<std::uint32_t>& live) {
        is_kept_.resize(nodes_.size());
        for (const std::uint32_t node : live) {
            is_kept_[nodes_[node].prediction ? node : nodes_[node].parent] = true;
            is_kept_[node] = true;
        }
        std::size_t left = 0;
        for (const std::uint32_t node : predicted_) {
            if (is_kept_[node] || is_kept_[nodes_[node].parent]) {
                predicted_[left++] = node;
            } else {
                give_back(nodes_[node]);
            }
        }
        predicted_.resize(left);
        for (const std::uint32_t node : live) {
            is_kept_[node] = is_kept_[nodes_[node].parent] = false;
        }
    }

  private:
    struct Node {
        std::uint32_t parent;
        std::uint32_t token;
        std::unique_ptr<Prediction> prediction;
    };

    static void copy(const AlignedFloats& from, AlignedFloats& to) {
        std::copy_n(from.data(), from.size(), to.data());
    }

    void give_back(Node& node) {
        if (node.prediction) {
            spare_.push_back(std::move(node.prediction));
        }
    }

    std::vector<Node> nodes_;
    std::unordered_map<std::uint64_t, std::uint32_t> children_;  // found by key, never gone through in order
    std::vector<std::uint32_t> predicted_;
    std::vector<bool> is_kept_;
    std::vector<std::unique_ptr<Prediction>> spare_;
};

}  // namespace arcbeam::transducer::beam
