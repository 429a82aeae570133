// The histories of an utterance: a tree in which equal sequences of labels are one node.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transducer/beam/fusion.hpp"
#include "transducer/evaluation.hpp"
#include "transducer/labels.hpp"

namespace arcbeam::transducer::beam {

// What is kept of a history that has been tested.
struct Tested {
    Prediction prediction;
    Biases biases;
};

class PrefixTree {
  public:
    static constexpr std::uint32_t kRoot = 0;

    // Empties the tree but for the root, whose labels have got these shares.
    void reset(const Fused& at_root, const Shares& shares) {
        for (Node& node : nodes_) {
            give_back(node);
        }
        children_.clear();
        predicted_.clear();
        nodes_.clear();
        nodes_.push_back({kRoot, 0U, at_root, nullptr});
        shares_ = shares;
    }

    // The next node, of a history that is not there yet.
    void add(std::uint32_t parent, std::uint32_t token, const Fused& fused) {
        children_.emplace(key_of(parent, token), static_cast<std::uint32_t>(nodes_.size()));
        nodes_.push_back({parent, token, fused, nullptr});
    }

    // The node after one label more of a history that has been tested.
    std::uint32_t child(std::uint32_t node, std::uint32_t token, const BeamFusion& fusion) {
        const auto next = static_cast<std::uint32_t>(nodes_.size());
        const auto [found, is_new] = children_.try_emplace(key_of(node, token), next);
        if (is_new) {
            const Node& from = nodes_[node];
            const Fused fused = fusion.is_active() ? fusion.after(from.fused, from.tested->biases, token) : Fused{};
            nodes_.push_back({node, token, fused, nullptr});
        }
        return found->second;
    }

    [[nodiscard]] std::size_t size() const { return nodes_.size(); }
    [[nodiscard]] const Shares& shares() const { return shares_; }  // of the root
    [[nodiscard]] const std::vector<std::uint32_t>& predicted() const { return predicted_; }
    [[nodiscard]] std::uint32_t parent(std::uint32_t node) const { return nodes_[node].parent; }
    [[nodiscard]] std::uint32_t token(std::uint32_t node) const { return nodes_[node].token; }
    [[nodiscard]] const Fused& fused(std::uint32_t node) const { return nodes_[node].fused; }
    [[nodiscard]] const Tested* tested(std::uint32_t node) const { return nodes_[node].tested.get(); }
    [[nodiscard]] Tested* tested(std::uint32_t node) { return nodes_[node].tested.get(); }

    // Gives a node without one a prediction that is still to be run, on its last label after its parent's.
    Prediction* begin_prediction(std::uint32_t node, const Network& network, std::uint32_t blank) {
        Prediction& prediction = *put_prediction(node, network);
        if (node == kRoot) {
            prediction.reset(network);
            prediction.last_token = blank;
        } else {
            const Prediction& before = nodes_[nodes_[node].parent].tested->prediction;
            copy(before.hidden, prediction.hidden);
            copy(before.cell, prediction.cell);
            prediction.context = before.context;
            prediction.last_token = nodes_[node].token;
        }
        return &prediction;
    }

    // Room for the prediction of a node without one.
    Prediction* put_prediction(std::uint32_t node, const Network& network) {
        std::unique_ptr<Tested>& made = nodes_[node].tested;
        if (spare_.empty()) {
            made = std::make_unique<Tested>();
            made->prediction.reset(network);
        } else {
            made = std::move(spare_.back());
            spare_.pop_back();
            made->biases.of_tokens.clear();
        }
        predicted_.push_back(node);
        return &made->prediction;
    }

    // Keeps what has been tested of these nodes, of their children, and of their parents if they have none of their
    // own; no byte depends on it, since one that is needed later is run again.
    void keep(const std::vector<std::uint32_t>& live) {
        is_kept_.resize(nodes_.size());
        for (const std::uint32_t node : live) {
            is_kept_[nodes_[node].tested ? node : nodes_[node].parent] = true;
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
        Fused fused;
        std::unique_ptr<Tested> tested;
    };

    static std::uint64_t key_of(std::uint32_t node, std::uint32_t token) {
        return (std::uint64_t{node} << 32U) | token;
    }

    static void copy(const AlignedFloats& from, AlignedFloats& to) {
        std::copy_n(from.data(), from.size(), to.data());
    }

    void give_back(Node& node) {
        if (node.tested) {
            spare_.push_back(std::move(node.tested));
        }
    }

    std::vector<Node> nodes_;
    Shares shares_{};
    std::unordered_map<std::uint64_t, std::uint32_t> children_;  // found by key, never gone through in order
    std::vector<std::uint32_t> predicted_;
    std::vector<bool> is_kept_;
    std::vector<std::unique_ptr<Tested>> spare_;
};

}  // namespace arcbeam::transducer::beam
