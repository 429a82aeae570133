#include "boost/compile.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace arcbeam::boost {

namespace {

// Beginnings of phrases, whole phrases included, in the order of their words: a node, then its children.
struct Node {
    std::uint32_t word;
    std::uint32_t parent;
    std::uint32_t end_of_children = 0;  // nodes of the subtree are [node, end_of_children)
    std::uint32_t length = 0;           // words
    std::uint32_t shorter = 0;          // the node of the longest proper suffix that is one
    std::int64_t share = 0;             // the largest that is given here
    std::int64_t completed = 0;         // scores of the phrases that end here, those of suffixes included
    bool begins = false;                // a phrase goes on from here
    std::uint32_t state = 0;            // where it begins one
};

class Compiler {
  public:
    Compiler(const Phrases& phrases, double depth_scaling) : phrases_(phrases), scaling_(depth_scaling) {}

    Automaton operator()() {
        grow();
        find_suffixes();
        return automaton();
    }

  private:
    [[nodiscard]] const std::uint32_t* begin(std::size_t phrase) const {
        return phrases_.words.data() + phrases_.first_word[phrase];
    }
    [[nodiscard]] const std::uint32_t* end(std::size_t phrase) const {
        return phrases_.words.data() + phrases_.first_word[phrase + 1];
    }

    // The nodes of all phrases. Sorted phrases come to a node's children one after another.
    void grow() {
        std::vector<std::size_t> order(phrases_.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
            return std::lexicographical_compare(begin(a), end(a), begin(b), end(b));
        });
        nodes_.push_back({kNoWord, 0});
        nodes_[0].begins = true;
        std::vector<std::uint32_t> path{0};  // from the root to the node of the last phrase
        for (const std::size_t phrase : order) {
            const auto length = static_cast<std::size_t>(end(phrase) - begin(phrase));
            std::size_t shared = 0;
            while (shared < length && shared + 1 < path.size() &&
                   nodes_[path[shared + 1]].word == begin(phrase)[shared]) {
                ++shared;
            }
            path.resize(shared + 1);
            for (std::size_t i = shared; i < length; ++i) {
                nodes_.push_back({begin(phrase)[i], path.back()});
                nodes_.back().length = static_cast<std::uint32_t>(i) + 1U;
                path.push_back(static_cast<std::uint32_t>(nodes_.size()) - 1U);
            }
            credit(phrases_.scores[phrase], path);
        }
        for (std::uint32_t node = static_cast<std::uint32_t>(nodes_.size()); node-- > 0;) {
            nodes_[node].end_of_children = std::max(nodes_[node].end_of_children, node + 1U);
            Node& parent = nodes_[nodes_[node].parent];
            parent.end_of_children = std::max(parent.end_of_children, nodes_[node].end_of_children);
        }
    }

    // A phrase gives shares along its path, and its score at the end.
    void credit(std::int64_t score, const std::vector<std::uint32_t>& path) {
        const std::size_t length = path.size() - 1;
        const double whole = 1.0 + static_cast<double>(length - 1) * scaling_;
        for (std::size_t i = 1; i < length; ++i) {
            Node& node = nodes_[path[i]];
            node.begins = true;
            const double part = 1.0 + static_cast<double>(i - 1) * scaling_;
            const auto share = std::llrint(static_cast<double>(score) * (part / whole));
            node.share = std::max<std::int64_t>(node.share, share);
        }
        nodes_[path[length]].completed = score;
    }

    // The child of a node by a word, or 0.
    [[nodiscard]] std::uint32_t child(std::uint32_t node, std::uint32_t word) const {
        const std::uint32_t* first = children_.data() + first_child_[node];
        const std::uint32_t* last = children_.data() + first_child_[node + 1];
        const std::uint32_t* found = std::lower_bound(
            first, last, word, [this](std::uint32_t a, std::uint32_t w) { return nodes_[a].word < w; });
        return found != last && nodes_[*found].word == word ? *found : 0U;
    }

    // Suffixes, and what is taken over from them, the short nodes before the long ones.
    void find_suffixes() {
        const auto count = static_cast<std::uint32_t>(nodes_.size());
        first_child_.assign(count + std::size_t{1}, 0);
        for (std::uint32_t node = 0; node < count; ++node) {
            for (std::uint32_t at = node + 1U; at < nodes_[node].end_of_children; at = nodes_[at].end_of_children) {
                children_.push_back(at);
            }
            first_child_[node + 1] = static_cast<std::uint32_t>(children_.size());
        }
        std::vector<std::uint32_t> order(count);
        std::iota(order.begin(), order.end(), 0U);
        std::stable_sort(order.begin(), order.end(),
                         [this](std::uint32_t a, std::uint32_t b) { return nodes_[a].length < nodes_[b].length; });
        for (const std::uint32_t at : order) {
            Node& node = nodes_[at];
            if (node.length > 1) {
                std::uint32_t from = nodes_[node.parent].shorter;
                while ((node.shorter = child(from, node.word)) == 0U && from != 0U) {
                    from = nodes_[from].shorter;
                }
            }
            if (at != 0) {
                node.completed += nodes_[node.shorter].completed;
                node.share = std::max(node.share, nodes_[node.shorter].share);
            }
        }
    }

    // The longest suffix of a node, or the node itself, that begins a phrase.
    [[nodiscard]] std::uint32_t beginning(std::uint32_t node) const {
        while (!nodes_[node].begins) {
            node = nodes_[node].shorter;
        }
        return node;
    }

    Automaton automaton() {
        Automaton made;
        for (Node& node : nodes_) {
            if (node.begins) {
                node.state = static_cast<std::uint32_t>(made.states.size());
                made.states.push_back({0.0F, 0U});
            }
        }
        std::size_t places = 2;
        while (places < 2 * nodes_.size()) {
            places *= 2;
        }
        made.arcs.assign(places, BoostArc{0U, kNoWord, 0U, 0.0F});
        const auto mask = static_cast<std::uint32_t>(places - 1);
        std::int64_t largest = 0;
        for (std::uint32_t at = 0; at < nodes_.size(); ++at) {
            const Node& node = nodes_[at];
            const Node& next = nodes_[beginning(at)];
            if (node.begins) {
                largest = std::max(largest, node.share);
                const std::uint32_t fallback = at == 0 ? 0U : nodes_[beginning(node.shorter)].state;
                made.states[node.state] = {as_cost(node.share), fallback};
            }
            if (at != 0) {
                const std::uint32_t from = nodes_[node.parent].state;
                const std::int64_t cost = 0 - next.share - node.completed;
                largest = std::max(largest, std::abs(cost));
                std::uint32_t place = boost_home(from, node.word, mask);
                while (made.arcs[place].word != kNoWord) {
                    place = (place + 1U) & mask;
                }
                made.arcs[place] = {from, node.word, next.state, as_cost(cost)};
            }
        }
        made.largest = static_cast<double>(largest) / kUnit;
        return made;
    }

    static float as_cost(std::int64_t units) { return static_cast<float>(static_cast<double>(units) / kUnit); }

    const Phrases& phrases_;
    const double scaling_;
    std::vector<Node> nodes_;
    std::vector<std::uint32_t> children_;     // of node 0, of node 1, ...: by word
    std::vector<std::uint32_t> first_child_;  // [nodes + 1]
};

}  // namespace

Automaton compile(const Phrases& phrases, double depth_scaling) { return Compiler(phrases, depth_scaling)(); }

}  // namespace arcbeam::boost
