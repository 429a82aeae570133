#include "boost/compile.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace arcbeam::boost {

namespace {

// Beginnings of phrases, whole phrases included, in the order of their words: a node, then its children.
struct Node {
    std::uint32_t word;
    std::uint32_t parent;
    std::uint32_t length;        // words
    std::uint32_t shorter = 0;   // the node of the longest proper suffix that is one
    std::int64_t share = 0;      // the largest that is given here
    std::int64_t completed = 0;  // scores of the phrases that end here, those of suffixes included
    std::uint32_t state = 0;     // where it begins a phrase
    bool begins = false;         // a phrase goes on from here: the node has children
};

class Compiler {
  public:
    Compiler(const Phrases& phrases, double depth_scaling) : phrases_(phrases), scaling_(depth_scaling) {}

    Automaton operator()() {
        grow();
        enter();
        find_suffixes();
        finish();
        return std::move(made_);
    }

  private:
    [[nodiscard]] const std::uint32_t* begin(std::size_t phrase) const {
        return phrases_.words.data() + phrases_.first_word[phrase];
    }
    [[nodiscard]] const std::uint32_t* end(std::size_t phrase) const {
        return phrases_.words.data() + phrases_.first_word[phrase + 1];
    }

    // The phrases by their words. Nearly all comparisons end with the first two, which one number holds.
    [[nodiscard]] std::vector<std::size_t> sorted() const {
        struct Item {
            std::uint64_t first_two;
            std::size_t phrase;
        };
        std::vector<Item> items(phrases_.size());
        for (std::size_t phrase = 0; phrase < items.size(); ++phrase) {
            const std::uint32_t* words = begin(phrase);
            const std::uint32_t second = words + 1 < end(phrase) ? words[1] : kNoWord;
            items[phrase] = {std::uint64_t{words[0]} << 32U | second, phrase};
        }
        std::sort(items.begin(), items.end(), [this](const Item& a, const Item& b) {
            return a.first_two != b.first_two ? a.first_two < b.first_two
                                              : std::lexicographical_compare(begin(a.phrase), end(a.phrase),
                                                                             begin(b.phrase), end(b.phrase));
        });
        std::vector<std::size_t> order(items.size());
        std::transform(items.begin(), items.end(), order.begin(), [](const Item& item) { return item.phrase; });
        return order;
    }

    // The nodes of all phrases. Sorted phrases come to a node's children one after another.
    void grow() {
        nodes_.reserve(phrases_.words.size() + 1);
        nodes_.push_back({kNoWord, 0, 0});
        nodes_[0].begins = true;
        std::vector<std::uint32_t> path{0};  // from the root to the node of the last phrase
        for (const std::size_t phrase : sorted()) {
            const auto length = static_cast<std::size_t>(end(phrase) - begin(phrase));
            std::size_t shared = 0;
            while (shared < length && shared + 1 < path.size() &&
                   nodes_[path[shared + 1]].word == begin(phrase)[shared]) {
                ++shared;
            }
            path.resize(shared + 1);
            for (std::size_t i = shared; i < length; ++i) {
                nodes_.push_back({begin(phrase)[i], path.back(), static_cast<std::uint32_t>(i) + 1U});
                path.push_back(static_cast<std::uint32_t>(nodes_.size()) - 1U);
            }
            credit(phrases_.scores[phrase], path);
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

    // Numbers the states, and enters all nodes but the root into the table of arcs: `next_state` is the node itself
    // until finish().
    void enter() {
        for (Node& node : nodes_) {
            if (node.begins) {
                node.state = static_cast<std::uint32_t>(made_.states.size());
                made_.states.push_back({0.0F, 0U});
            }
        }
        std::size_t places = 2;
        while (places < 2 * nodes_.size()) {
            places *= 2;
        }
        made_.arcs.assign(places, BoostArc{0U, kNoWord, 0U, 0.0F});
        for (std::uint32_t at = 1; at < nodes_.size(); ++at) {
            const std::uint32_t from = nodes_[nodes_[at].parent].state;
            arc(from, nodes_[at].word) = {from, nodes_[at].word, at, 0.0F};
        }
    }

    // The arc of a state by a word, or the empty place where it would be.
    BoostArc& arc(std::uint32_t state, std::uint32_t word) {
        const auto mask = static_cast<std::uint32_t>(made_.arcs.size() - 1);
        std::uint32_t place = boost_home(state, word, mask);
        while (made_.arcs[place].word != kNoWord &&
               (made_.arcs[place].word != word || made_.arcs[place].state != state)) {
            place = (place + 1U) & mask;
        }
        return made_.arcs[place];
    }

    // The child of a node by a word, or 0.
    std::uint32_t child(std::uint32_t node, std::uint32_t word) {
        return nodes_[node].begins ? arc(nodes_[node].state, word).next_state : 0U;
    }

    // The nodes, the short ones before the long ones.
    [[nodiscard]] std::vector<std::uint32_t> by_length() const {
        std::vector<std::uint32_t> first;  // of each length
        for (const Node& node : nodes_) {
            first.resize(std::max<std::size_t>(first.size(), node.length + std::size_t{2}));
            ++first[node.length + 1];
        }
        std::partial_sum(first.begin(), first.end(), first.begin());
        std::vector<std::uint32_t> order(nodes_.size());
        for (std::uint32_t at = 0; at < nodes_.size(); ++at) {
            order[first[nodes_[at].length]++] = at;
        }
        return order;
    }

    // Suffixes, and what is taken over from them.
    void find_suffixes() {
        for (const std::uint32_t at : by_length()) {
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
    [[nodiscard]] const Node& beginning(std::uint32_t node) const {
        while (!nodes_[node].begins) {
            node = nodes_[node].shorter;
        }
        return nodes_[node];
    }

    // States and arcs as they are read.
    void finish() {
        std::int64_t largest = 0;
        for (const Node& node : nodes_) {
            if (node.begins) {
                largest = std::max(largest, node.share);
                made_.states[node.state] = {as_cost(node.share), beginning(node.shorter).state};
            }
        }
        for (BoostArc& one : made_.arcs) {
            if (one.word != kNoWord) {
                const Node& next = beginning(one.next_state);
                const std::int64_t cost = 0 - next.share - nodes_[one.next_state].completed;
                largest = std::max(largest, std::abs(cost));
                one.next_state = next.state;
                one.cost = as_cost(cost);
            }
        }
        made_.largest = static_cast<double>(largest) / kUnit;
    }

    static float as_cost(std::int64_t units) { return static_cast<float>(static_cast<double>(units) / kUnit); }

    const Phrases& phrases_;
    const double scaling_;
    std::vector<Node> nodes_;
    Automaton made_;
};

}  // namespace

Automaton compile(const Phrases& phrases, double depth_scaling) { return Compiler(phrases, depth_scaling)(); }

}  // namespace arcbeam::boost
