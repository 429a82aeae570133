#include "baseline/trie.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace arcbeam::baseline {

namespace {

// Sum of two probabilities given as logarithms; differences beyond 1e-17 change nothing.
double add_logs(double a, double b) {
    if (a < b) {
        std::swap(a, b);
    }
    return b - a < -39.14 ? a : a + std::log1p(std::exp(b - a));
}

// The spellings below a node: those in sorted order from `begin` to `end`.
struct Range {
    std::size_t begin, end;
};

}  // namespace

Trie::Trie(const Spellings& spellings, Smearing smearing) {
    const auto word = [&](std::uint32_t i, std::size_t at) { return spellings.columns[spellings.offsets[i] + at]; };
    const auto length = [&](std::uint32_t i) { return spellings.offsets[i + 1] - spellings.offsets[i]; };
    std::vector<std::uint32_t> sorted(spellings.count);
    std::iota(sorted.begin(), sorted.end(), 0U);
    std::stable_sort(sorted.begin(), sorted.end(), [&](std::uint32_t a, std::uint32_t b) {
        return std::lexicographical_compare(
            spellings.columns + spellings.offsets[a], spellings.columns + spellings.offsets[a + 1],
            spellings.columns + spellings.offsets[b], spellings.columns + spellings.offsets[b + 1]);
    });

    std::vector<Range> below{{0, sorted.size()}};
    std::vector<std::size_t> depth{0};
    std::vector<std::uint32_t> spelling_of_label;
    nodes_.push_back({});
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
        auto [at, end] = below[node];
        const std::size_t reads = depth[node];
        nodes_[node].first_child = static_cast<std::uint32_t>(nodes_.size());
        nodes_[node].first_label = static_cast<std::uint32_t>(labels_.size());
        for (; at < end && length(sorted[at]) == reads; ++at) {
            labels_.push_back(spellings.labels[sorted[at]]);
            spelling_of_label.push_back(sorted[at]);
        }
        nodes_[node].has_labels = nodes_[node].first_label < labels_.size();
        nodes_[node].has_children = at < end;
        while (at < end) {
            const std::uint16_t column = word(sorted[at], reads);
            const std::size_t begin = at;
            while (at < end && word(sorted[at], reads) == column) {
                ++at;
            }
            nodes_.push_back({0, 0, 0.0F, column, 0, 0});
            below.push_back({begin, at});
            depth.push_back(reads + 1);
        }
    }
    nodes_.push_back(
        {static_cast<std::uint32_t>(nodes_.size()), static_cast<std::uint32_t>(labels_.size()), 0.0F, 0, 0, 0});
    if (smearing != Smearing::kNone) {
        smear(spellings, spelling_of_label, smearing == Smearing::kLogAdd);
    }
}

// Words that share a node are summed in either mode, as Flashlight does.
void Trie::smear(const Spellings& spellings, const std::vector<std::uint32_t>& spelling_of_label, bool add) {
    for (std::size_t node = size(); node-- > 0;) {
        float ahead = -std::numeric_limits<float>::infinity();
        const auto include = [&](float score, bool sum) {
            if (ahead == -std::numeric_limits<float>::infinity()) {
                ahead = score;
            } else {
                ahead = sum ? static_cast<float>(add_logs(static_cast<double>(ahead), static_cast<double>(score)))
                            : std::max(ahead, score);
            }
        };
        for (std::uint32_t i = nodes_[node].first_label; i < nodes_[node + 1].first_label; ++i) {
            include(spellings.scores[spelling_of_label[i]], true);
        }
        for (std::uint32_t i = nodes_[node].first_child; i < nodes_[node + 1].first_child; ++i) {
            include(nodes_[i].ahead, add);
        }
        nodes_[node].ahead = ahead;
    }
}

std::uint32_t Trie::child(std::uint32_t node, std::uint16_t column) const {
    const auto first = nodes_.begin() + nodes_[node].first_child;
    const auto last = nodes_.begin() + nodes_[node + 1].first_child;
    const auto found = std::lower_bound(first, last, column,
                                        [](const TrieNode& child, std::uint16_t c) { return child.column < c; });
    return found != last && found->column == column ? static_cast<std::uint32_t>(found - nodes_.begin()) : 0;
}

}  // namespace arcbeam::baseline
