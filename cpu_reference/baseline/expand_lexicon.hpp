// The candidates of one frame with a lexicon: each hypothesis stays, reads the blank, or follows a token in the
// trie, where it may complete a word.
//
// Candidates that cost nothing to score come first. Words, which the language model scores, come last: by
// then the bound turns most of them away before the model scores them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "baseline/candidates.hpp"
#include "baseline/emissions.hpp"
#include "baseline/histories.hpp"
#include "baseline/options.hpp"
#include "baseline/trie.hpp"

namespace arcbeam::baseline {

class LexiconExpander {
  public:
    LexiconExpander(const Trie& trie, const SearchOptions& options) : trie_(trie), options_(options) {}

    void expand(const std::vector<Hypothesis>& beam, const Emissions& emissions, Histories& histories,
                Candidates& candidates) {
        for (std::uint32_t i = 0; i < beam.size(); ++i) {
            stay(beam[i], i, emissions, candidates);
        }
        words_.clear();
        sort_root(emissions);
        for (std::uint32_t i = 0; i < beam.size(); ++i) {
            prefetch_children(beam, i);
            if (beam[i].node == kRoot) {
                follow_from_root(beam[i], i, emissions, histories, candidates);
            } else {
                follow(beam[i], i, emissions, histories, candidates);
            }
        }
        candidates.sharpen();
        for (std::size_t i = 0; i < words_.size(); ++i) {
            if (i + kAhead < words_.size()) {
                const Word& later = words_[i + kAhead];
                if (trie_[later.node].has_labels && later.most >= candidates.bound()) {
                    histories.prefetch(beam[later.source].history, trie_.labels()[trie_[later.node].first_label]);
                }
            }
            complete(beam[words_[i].source], words_[i], emissions, histories, candidates);
        }
    }

    // Completes the words that only lack the separator at their end, at the end of an utterance.
    template <typename Add>
    void complete_at_end(const Hypothesis& from, Histories& histories, Add add) const {
        const bool may_end = from.node != kRoot && options_.separator != kNoToken;
        const std::uint32_t child = may_end ? trie_.child(from.node, options_.separator) : kRoot;
        for (std::uint32_t i = trie_[child].first_label; child != kRoot && i < trie_[child + 1].first_label; ++i) {
            const std::uint32_t label = trie_.labels()[i];
            const auto [history, score] = histories.extend(from.history, label);
            add(label, history, from.score + ahead(score - trie_[from.node].ahead) + options_.word_score);
        }
    }

  private:
    static constexpr std::size_t kAhead = 8;  // how far ahead of the current work memory is prefetched

    struct Word {
        std::uint32_t source;
        std::uint32_t node;
        double most;  // no label there scores more
    };

    struct RootChild {
        double most;
        std::uint32_t node;
    };

    [[nodiscard]] double ahead(float score) const { return options_.lm_weight * static_cast<double>(score); }

    [[nodiscard]] double read(double score, float emission, std::uint16_t token) const {
        score += static_cast<double>(emission);
        return token == options_.silence ? score + options_.sil_score : score;
    }

    // The trie is larger than the caches, so its nodes are prefetched before they are needed.
    void prefetch_children(const std::vector<Hypothesis>& beam, std::size_t at) const {
        if (at + 2 * kAhead < beam.size()) {
            __builtin_prefetch(&trie_[beam[at + 2 * kAhead].node]);
        }
        if (at + kAhead < beam.size()) {
            __builtin_prefetch(&trie_[trie_[beam[at + kAhead].node].first_child]);
        }
    }

    void stay(const Hypothesis& from, std::uint32_t source, const Emissions& emissions,
              Candidates& candidates) const {
        const auto add = [&](std::uint16_t token) {
            candidates.add({read(from.score, emissions[token], token), from.history, from.node, source, kNoLabel, 0,
                            token, false});
        };
        add(options_.blank);
        if (from.node != kRoot) {
            if (from.token != options_.blank) {
                add(from.token);
            }
            return;
        }
        if (options_.silence != kNoToken) {
            add(options_.silence);
        }
        if (options_.repeat_last_token && from.token != options_.blank && from.token != options_.silence &&
            from.token != kNoToken) {
            add(from.token);
        }
    }

    void follow(const Hypothesis& from, std::uint32_t source, const Emissions& emissions,
                const Histories& histories, Candidates& candidates) {
        const std::uint32_t first = trie_[from.node].first_child, last = trie_[from.node + 1].first_child;
        if (last - first <= 4 * emissions.best().size()) {
            for (std::uint32_t child = first; child < last; ++child) {
                visit(from, source, child, emissions, histories, candidates);
            }
            return;
        }
        for (const std::uint16_t token : emissions.best()) {
            if (const std::uint32_t child = trie_.child(from.node, token); child != 0) {
                visit(from, source, child, emissions, histories, candidates);
            }
        }
    }

    // Many hypotheses are at the root, which has many children. These are sorted once for each frame.
    void sort_root(const Emissions& emissions) {
        inner_.clear();
        leaves_.clear();
        const auto emission = emissions.narrowed();
        for (std::uint32_t child = trie_[kRoot].first_child; child < trie_[kRoot + 1].first_child; ++child) {
            const TrieNode& node = trie_[child];
            const double most = read(0.0, emission[node.column], node.column);
            if (!(most >= std::numeric_limits<double>::lowest())) {
                continue;
            }
            if (node.has_children) {
                inner_.push_back({most + ahead(node.ahead), child});
            }
            if (node.has_labels || std::isfinite(options_.unk_score)) {
                leaves_.push_back({most, child});
            }
        }
        const auto better = [](const RootChild& a, const RootChild& b) { return a.most > b.most; };
        std::sort(inner_.begin(), inner_.end(), better);
        std::sort(leaves_.begin(), leaves_.end(), better);
    }

    void follow_from_root(const Hypothesis& from, std::uint32_t source, const Emissions& emissions,
                          const Histories& histories, Candidates& candidates) {
        // This sum is associated differently from the score, so it may differ in its last digits.
        constexpr double kSlack = 1e-6;
        for (const RootChild& child : inner_) {
            if (from.score + child.most + kSlack < candidates.bound()) {
                break;
            }
            advance(from, source, child.node, emissions, candidates);
        }
        const double gain = ahead(histories.most(from.history)) + std::max(options_.word_score, options_.unk_score);
        for (const RootChild& child : leaves_) {
            if (from.score + child.most + gain + kSlack < candidates.bound()) {
                break;
            }
            propose_word(from, source, child.node, emissions, histories, candidates);
        }
    }

    void visit(const Hypothesis& from, std::uint32_t source, std::uint32_t child, const Emissions& emissions,
               const Histories& histories, Candidates& candidates) {
        if (trie_[child].has_children) {
            advance(from, source, child, emissions, candidates);
        }
        propose_word(from, source, child, emissions, histories, candidates);
    }

    // A token may not follow itself without a blank in between.
    [[nodiscard]] bool may_follow(const Hypothesis& from, std::uint16_t token) const { return from.token != token; }

    [[nodiscard]] float ahead_at(std::uint32_t node) const { return node == kRoot ? 0.0F : trie_[node].ahead; }

    void advance(const Hypothesis& from, std::uint32_t source, std::uint32_t child, const Emissions& emissions,
                 Candidates& candidates) const {
        const TrieNode& to = trie_[child];
        if (!may_follow(from, to.column)) {
            return;
        }
        const double score = read(from.score, emissions.narrowed()[to.column], to.column);
        candidates.add({score + ahead(to.ahead - ahead_at(from.node)), from.history, child, source, kNoLabel, 0,
                        to.column, true});
    }

    // Flashlight lets the last token of a word follow itself, except at the root.
    void propose_word(const Hypothesis& from, std::uint32_t source, std::uint32_t child, const Emissions& emissions,
                      const Histories& histories, const Candidates& candidates) {
        const TrieNode& to = trie_[child];
        if (!to.has_labels && std::isinf(options_.unk_score)) {
            return;
        }
        if (!may_follow(from, to.column) && (options_.repeat_last_token || (to.has_labels && from.node == kRoot))) {
            return;
        }
        const double score = read(from.score, emissions.narrowed()[to.column], to.column);
        const double most = score + ahead(histories.most(from.history) - ahead_at(from.node)) +
                            (to.has_labels ? options_.word_score : options_.unk_score);
        if (most >= candidates.bound()) {
            words_.push_back({source, child, most});
        }
    }

    void complete(const Hypothesis& from, const Word& word, const Emissions& emissions, Histories& histories,
                  Candidates& candidates) const {
        if (!(word.most >= candidates.bound())) {
            return;
        }
        const TrieNode& to = trie_[word.node];
        const double score = read(from.score, emissions.narrowed()[to.column], to.column);
        const auto add = [&](std::uint32_t label, double word_score) {
            const auto [history, lm] = histories.extend(from.history, label);
            candidates.add({score + ahead(lm - ahead_at(from.node)) + word_score, history, kRoot, word.source,
                            label, 0, to.column, true});
        };
        for (std::uint32_t i = to.first_label; i < trie_[word.node + 1].first_label; ++i) {
            add(trie_.labels()[i], options_.word_score);
        }
        if (!to.has_labels) {
            add(options_.unknown_label, options_.unk_score);
        }
    }

    const Trie& trie_;
    const SearchOptions& options_;
    std::vector<Word> words_;
    std::vector<RootChild> inner_;   // children of the root that have children, by the score that they add
    std::vector<RootChild> leaves_;  // children that complete a word, by the score of their token
};

}  // namespace arcbeam::baseline
