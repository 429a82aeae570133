#include "arcbeam/graph/_new_words/tree.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace arcbeam::new_words {

namespace {

constexpr std::uint32_t kExit = 0xFFFFFFFFU;
constexpr std::uint32_t kSeveral = 0xFFFFFFFFU;
constexpr std::uint16_t kEpsilon = 0xFFFFU;

struct Spelling {
    const std::uint16_t* begin;
    const std::uint16_t* end;
    std::uint32_t word;

    [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(end - begin); }
    bool operator<(const Spelling& other) const {
        const auto differs = std::mismatch(begin, end, other.begin, other.end);
        if (differs.first == end || differs.second == other.end) {
            return size() != other.size() ? size() < other.size() : word < other.word;
        }
        return *differs.first < *differs.second;
    }
};

// Sorted by their columns, so that those that begin alike stand together.
std::vector<Spelling> sorted_spellings(const Spelled& spelled, std::uint32_t first_word) {
    std::vector<Spelling> found;
    found.reserve(spelled.begins.size() - 1U);
    for (std::size_t word = 0; word < spelled.size(); ++word) {
        for (std::size_t s = spelled.words[word]; s < spelled.words[word + 1U]; ++s) {
            const std::uint16_t* const columns = spelled.columns.data();
            found.push_back({columns + spelled.begins[s], columns + spelled.begins[s + 1U],
                             first_word + static_cast<std::uint32_t>(word)});
        }
    }
    std::sort(found.begin(), found.end());
    return found;
}

}  // namespace

// Of each node: nodes are numbered in the order of their states, the root is 0.
struct Tree::Nodes {
    std::vector<std::uint16_t> column{kEpsilon};
    std::vector<std::uint32_t> word{0};  // that passes through; kSeveral if there are more
    std::vector<std::uint32_t> parent{0};
    std::vector<std::uint32_t> subtree_end;  // the first node after its subtree
    std::vector<std::uint32_t> state;
    std::vector<std::size_t> endings{0};  // node n has the words [endings[n], endings[n + 1])
    std::vector<std::uint32_t> words;     // that end in nodes

    explicit Nodes(const std::vector<Spelling>& spellings) {
        std::vector<std::uint32_t> path{0};  // of the spelling before
        const Spelling* before = nullptr;
        for (const Spelling& one : spellings) {
            const std::size_t common =
                before == nullptr
                    ? 0U
                    : static_cast<std::size_t>(std::mismatch(one.begin, one.end, before->begin, before->end).first -
                                               one.begin);
            path.resize(common + 1U);
            for (std::size_t at = common; at < one.size(); ++at) {
                add(one.begin[at], path.back());
                path.push_back(static_cast<std::uint32_t>(size() - 1U));
            }
            for (std::size_t at = 1; at < path.size(); ++at) {
                std::uint32_t& passing = word[path[at]];
                passing = passing == 0U || passing == one.word ? one.word : kSeveral;
            }
            if (before == nullptr || common < one.size() || before->size() != one.size() ||
                before->word != one.word) {
                words.push_back(one.word);
            }
            before = &one;
        }
        endings.push_back(words.size());
        find_ends();
    }

    [[nodiscard]] std::size_t size() const { return column.size(); }
    [[nodiscard]] bool is_leaf(std::uint32_t node) const { return subtree_end[node] == node + 1U; }

    // Numbers the states; those of blanks come after their tokens'.
    void number(const Rules& rules) {
        state.resize(size());
        std::uint32_t next = 0;
        for (std::uint32_t node = 0; node < size(); ++node) {
            state[node] = next;
            next += has_blanks(node, rules) ? 2U : 1U;
        }
    }

    [[nodiscard]] bool has_blanks(std::uint32_t node, const Rules& rules) const {
        return node != 0U && rules.has_blank && !is_leaf(node);
    }

  private:
    void add(std::uint16_t of, std::uint32_t from) {
        column.push_back(of);
        word.push_back(0U);
        parent.push_back(from);
        endings.push_back(words.size());
    }

    void find_ends() {
        subtree_end.resize(size());
        std::iota(subtree_end.begin(), subtree_end.end(), 1U);
        for (std::size_t node = size(); node-- > 1;) {
            subtree_end[parent[node]] = std::max(subtree_end[parent[node]], subtree_end[node]);
        }
    }
};

Tree::Tree(const Spelled& spelled, std::uint32_t first_word, const Rules& rules) {
    Nodes nodes(sorted_spellings(spelled, first_word));
    nodes.number(rules);
    for (std::uint32_t node = 0; node < nodes.size(); ++node) {
        add_arcs(nodes, node, rules);
    }
}

void Tree::add_arcs(const Nodes& nodes, std::uint32_t node, const Rules& rules) {
    const bool is_root = node == 0U, has_blanks = nodes.has_blanks(node, rules);
    const bool is_shared = is_root || nodes.word[node] == kSeveral;  // so that no word has been written before
    const std::uint32_t state = nodes.state[node];
    const auto enter_children = [&](bool even_repeats) {
        for (std::uint32_t child = node + 1U; child < nodes.subtree_end[node]; child = nodes.subtree_end[child]) {
            if (even_repeats || nodes.column[child] != nodes.column[node]) {
                const bool is_first = is_shared && nodes.word[child] != kSeveral;
                arcs_.push_back({nodes.state[child], is_first ? nodes.word[child] : 0U, nodes.column[child]});
            }
        }
    };
    const std::size_t begin = arcs_.size();
    if (!is_root) {
        for (std::size_t at = nodes.endings[node]; at < nodes.endings[node + 1U]; ++at) {
            arcs_.push_back({kExit, is_shared ? nodes.words[at] : 0U, kEpsilon});
        }
        if (rules.loops) {
            arcs_.push_back({state, 0U, nodes.column[node]});
        }
    }
    enter_children(is_root || !rules.repeats_need_blank);
    if (has_blanks) {
        arcs_.push_back({state + 1U, 0U, rules.blank});
    }
    end_state(begin);
    if (has_blanks) {
        const std::size_t begin_of_blanks = arcs_.size();
        arcs_.push_back({state + 1U, 0U, rules.blank});
        enter_children(true);
        end_state(begin_of_blanks);
    }
}

void Tree::end_state(std::size_t begin) {
    const auto first = arcs_.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto emitting = std::find_if(first, arcs_.end(), [](const Arc& arc) { return arc.column != kEpsilon; });
    for (auto at = emitting; at != arcs_.end(); ++at) {  // few, and all but two of them in order
        std::rotate(
            std::upper_bound(emitting, at, *at, [](const Arc& a, const Arc& b) { return a.column < b.column; }), at,
            at + 1);
    }
    epsilons_.push_back(static_cast<std::size_t>(emitting - first));
    ends_.push_back(arcs_.size());
}

void Tree::write(const Copy& copy, const Columns& to) const {
    std::size_t begin = 0;
    for (std::size_t state = 0; state < states(); ++state) {
        const bool emits = begin + epsilons_[state] < ends_[state];
        to.states[state] = {copy.first_arc + static_cast<std::uint32_t>(begin),
                            copy.first_arc + static_cast<std::uint32_t>(begin + epsilons_[state]),
                            emits ? 0.0F : std::numeric_limits<float>::infinity(), state == 0 ? copy.depth : 0U};
        begin = ends_[state];
    }
    for (std::size_t arc = 0; arc < arcs(); ++arc) {
        const std::uint32_t next = arcs_[arc].next_state;
        to.targets[arc] = {next == kExit ? copy.exit : copy.first_state + next, 0.0F};
        to.columns[arc] = arcs_[arc].column;
        to.words[arc] = arcs_[arc].word;
    }
}

}  // namespace arcbeam::new_words
