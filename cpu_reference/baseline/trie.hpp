// The lexicon as a prefix trie in one flat array.
//
// Nodes are numbered breadth first, children of a node by column: so a node's children lie side by side, parents
// come before children, and the numbers depend on the lexicon alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace arcbeam::baseline {

enum class Smearing : std::uint8_t { kNone, kMax, kLogAdd };

// 16 bytes: four to a cache line. A node's children end where those of the next node begin; so do its labels.
struct TrieNode {
    std::uint32_t first_child;
    std::uint32_t first_label;
    float ahead;  // look-ahead score: the best score of the words below, or the sum of their scores; 0 without
                  // smearing
    std::uint16_t column;  // that leads here from the parent
    std::uint8_t has_children;
    std::uint8_t has_labels;
};

// Spelling i is columns[offsets[i]] to columns[offsets[i + 1]]; it writes `labels[i]`, which scores `scores[i]`.
struct Spellings {
    const std::uint16_t* columns;
    const std::uint32_t* offsets;
    const std::uint32_t* labels;
    const float* scores;
    std::size_t count;
};

class Trie {
  public:
    Trie() = default;
    Trie(const Spellings& spellings, Smearing smearing);

    [[nodiscard]] const TrieNode& operator[](std::size_t node) const { return nodes_[node]; }
    [[nodiscard]] std::size_t size() const { return nodes_.empty() ? 0 : nodes_.size() - 1; }
    [[nodiscard]] const std::uint32_t* labels() const { return labels_.data(); }
    [[nodiscard]] std::uint32_t children(std::uint32_t node) const {
        return nodes_[node + 1].first_child - nodes_[node].first_child;
    }
    // The child that a column leads to, or 0.
    [[nodiscard]] std::uint32_t child(std::uint32_t node, std::uint16_t column) const;

  private:
    void smear(const Spellings& spellings, const std::vector<std::uint32_t>& spelling_of_label, bool add);

    std::vector<TrieNode> nodes_;  // and one more node, where the last node's children and labels end
    std::vector<std::uint32_t> labels_;
};

}  // namespace arcbeam::baseline
