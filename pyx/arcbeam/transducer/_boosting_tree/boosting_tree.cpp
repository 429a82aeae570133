#include "arcbeam/transducer/_boosting_tree/boosting_tree.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace arcbeam::transducer {

namespace {

// A state of the trie. State 0 is the root.
struct Node {
    std::uint32_t parent = 0;
    std::uint32_t token = 0;
    std::uint32_t depth = 0;
    bool is_boosted = false;  // a phrase with a score of at least 0 passes
    bool is_end = false;      // and ends here
    double share = 0.0;       // the largest score of its last token
    double charge = 0.0;      // of suppressed phrases that end here
    double total = 0.0;       // what the tokens since the root have got
    float weight = 0.0F;      // of the arc to it
    std::uint32_t fail = 0;
};

class Builder {
  public:
    Builder(const Phrases& phrases, const TreeOptions& options) : phrases_(phrases), options_(options) {}

    BoostingTree build() {
        grow();
        number();
        lay_out();
        for (std::uint32_t i = 1; i < nodes_.size(); ++i) {
            score(i);
        }
        return std::move(tree_);
    }

  private:
    [[nodiscard]] std::size_t begin_of(std::size_t phrase) const {
        return phrase == 0 ? 0 : phrases_.ends[phrase - 1];
    }

    // The trie. Of sorted phrases, each shares with the one before all that it shares with any before.
    void grow() {
        std::vector<std::size_t> order(phrases_.count);
        std::iota(order.begin(), order.end(), std::size_t{0});
        const auto tokens_before = [this](std::size_t a, std::size_t b) {
            return std::lexicographical_compare(phrases_.tokens + begin_of(a), phrases_.tokens + phrases_.ends[a],
                                                phrases_.tokens + begin_of(b), phrases_.tokens + phrases_.ends[b]);
        };
        std::sort(order.begin(), order.end(), tokens_before);
        nodes_.emplace_back();
        std::vector<std::uint32_t> path{0};
        for (const std::size_t phrase : order) {
            const std::uint32_t* const tokens = phrases_.tokens + begin_of(phrase);
            const std::size_t length = phrases_.ends[phrase] - begin_of(phrase);
            std::size_t shared = 0;
            while (shared < length && shared + 1 < path.size() &&
                   nodes_[path[shared + 1]].token == tokens[shared]) {
                ++shared;
            }
            path.resize(shared + 1);
            for (std::size_t i = shared; i < length; ++i) {
                Node node;
                node.parent = path.back();
                node.token = tokens[i];
                node.depth = static_cast<std::uint32_t>(i) + 1U;
                path.push_back(static_cast<std::uint32_t>(nodes_.size()));
                nodes_.push_back(node);
            }
            give(phrases_.scores[phrase], path);
        }
    }

    void give(double context_score, const std::vector<std::uint32_t>& path) {
        if (context_score < 0.0) {
            nodes_[path.back()].charge += context_score;
            return;
        }
        for (std::size_t depth = 1; depth < path.size(); ++depth) {
            Node& node = nodes_[path[depth]];
            const double share =
                depth == 1 ? context_score : context_score * options_.depth_scaling + options_.logs[depth];
            node.share = node.is_boosted ? std::max(node.share, share) : share;
            node.is_boosted = true;
        }
        nodes_[path.back()].is_end = true;
    }

    // Renumbers the states by depth. Within one they are sorted already.
    void number() {
        std::vector<std::uint32_t> order(nodes_.size());
        std::iota(order.begin(), order.end(), 0U);
        std::stable_sort(order.begin(), order.end(),
                         [this](std::uint32_t a, std::uint32_t b) { return nodes_[a].depth < nodes_[b].depth; });
        std::vector<std::uint32_t> number_of(nodes_.size());
        std::vector<Node> sorted;
        sorted.reserve(nodes_.size());
        for (const std::uint32_t old : order) {
            number_of[old] = static_cast<std::uint32_t>(sorted.size());
            sorted.push_back(nodes_[old]);
            sorted.back().parent = number_of[sorted.back().parent];
        }
        nodes_ = std::move(sorted);
    }

    // All arcs but their weights.
    void lay_out() {
        const std::uint32_t tokens = options_.num_tokens;
        tree_.first_arcs.assign(nodes_.size() + 1, 0);
        tree_.backoffs.assign(nodes_.size(), TokenArc{0, 0.0F});
        tree_.arc_tokens.resize(tokens);
        std::iota(tree_.arc_tokens.begin(), tree_.arc_tokens.end(), 0U);
        tree_.arcs.assign(tokens, TokenArc{0, static_cast<float>(options_.unk_score)});
        arc_of_.assign(nodes_.size(), 0);
        std::uint32_t from = 0;
        for (std::uint32_t i = 1; i < nodes_.size(); ++i) {
            const Node& node = nodes_[i];
            if (node.parent == 0) {
                arc_of_[i] = node.token;
                tree_.arcs[node.token].next_state = i;
                continue;
            }
            while (from < node.parent) {
                tree_.first_arcs[++from] = static_cast<std::uint32_t>(tree_.arcs.size());
            }
            arc_of_[i] = static_cast<std::uint32_t>(tree_.arcs.size());
            tree_.arc_tokens.push_back(node.token);
            tree_.arcs.push_back(TokenArc{i, 0.0F});
        }
        while (from < nodes_.size()) {
            tree_.first_arcs[++from] = static_cast<std::uint32_t>(tree_.arcs.size());
        }
    }

    // The weights of a state, after those of all shorter ones.
    void score(std::uint32_t i) {
        Node& node = nodes_[i];
        const TokenAutomaton view{tree_.first_arcs.data(),
                                  tree_.arc_tokens.data(),
                                  tree_.arcs.data(),
                                  tree_.backoffs.data(),
                                  static_cast<std::uint32_t>(nodes_.size()),
                                  options_.num_tokens};
        TokenStep without{static_cast<float>(options_.unk_score), 0};
        if (node.parent != 0) {  // the step that the token would take without this state
            const TokenArc back = tree_.backoffs[node.parent];
            without = token_step(view, back.next_state, node.token);
            without.score = token_back_off(back.weight, without.score);
        }
        node.fail = without.next_state;
        float backoff = 0.0F;
        if (node.is_boosted) {
            node.total = nodes_[node.parent].total + node.share;
            node.weight = static_cast<float>(node.share + node.charge);
            backoff = node.is_end ? 0.0F : static_cast<float>(nodes_[node.fail].total - node.total);
        } else {
            node.total = nodes_[node.fail].total;
            node.weight = static_cast<float>(static_cast<double>(without.score) + node.charge);
        }
        tree_.arcs[arc_of_[i]].weight = node.weight;
        tree_.backoffs[i] = TokenArc{node.fail, backoff};
    }

    const Phrases& phrases_;
    const TreeOptions& options_;
    std::vector<Node> nodes_;
    std::vector<std::uint32_t> arc_of_;
    BoostingTree tree_;
};

}  // namespace

BoostingTree build_boosting_tree(const Phrases& phrases, const TreeOptions& options) {
    return Builder(phrases, options).build();
}

}  // namespace arcbeam::transducer
