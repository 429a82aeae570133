#include "arcbeam/lm/_arpa/trie.hpp"

#include <algorithm>

namespace arcbeam::arpa {

namespace {

bool before(const Ngram& a, const Ngram& b) {
    return a.context != b.context ? a.context < b.context : a.word != b.word ? a.word < b.word : a.line < b.line;
}

std::uint64_t key(std::uint32_t context, std::uint32_t word) {
    return static_cast<std::uint64_t>(context) << 32U | word;
}

}  // namespace

std::uint32_t Trie::find(std::uint32_t order, std::uint32_t context, std::uint32_t word) const {
    const Level& on = levels_[order - 1];
    if (context + 1 >= on.begin.size()) return kNone;
    const auto first = on.words.begin() + on.begin[context];
    const auto last = on.words.begin() + on.begin[context + 1];
    const auto found = std::lower_bound(first, last, word);
    if (found == last || *found != word) return kNone;
    return static_cast<std::uint32_t>(found - on.words.begin());
}

std::pair<std::uint32_t, std::uint32_t> Trie::children(std::uint32_t order, std::uint32_t position) const {
    if (order >= levels_.size()) return {0, 0};
    const Level& next = levels_[order];
    return {next.begin[position], next.begin[position + 1]};
}

std::uint32_t Trie::context(const std::vector<std::uint32_t>& words) {
    std::uint32_t at = words[0];
    for (std::uint32_t order = 2; order <= words.size(); ++order) {
        std::uint32_t next = find(order, at, words[order - 1]);
        if (next == kNone) {
            auto& added = added_[order - 1];
            const auto provisional = static_cast<std::uint32_t>(levels_[order - 1].size() + added.size());
            const auto [entry, is_new] = added.try_emplace(key(at, words[order - 1]), provisional);
            if (is_new) ++num_added_;
            next = entry->second;
        }
        at = next;
    }
    return at;
}

void Trie::build(Level& level, std::vector<Ngram>& ngrams, std::uint32_t num_contexts, bool keep_backoffs) {
    if (!std::is_sorted(ngrams.begin(), ngrams.end(), before)) std::sort(ngrams.begin(), ngrams.end(), before);
    for (std::size_t i = 1; i < ngrams.size(); ++i) {
        const Ngram& ngram = ngrams[i];
        if (ngrams[i - 1].context == ngram.context && ngrams[i - 1].word == ngram.word)
            throw ArpaError(ngram.line, "expected every n-gram once, got one that line " +
                                            std::to_string(ngrams[i - 1].line) + " gives already");
    }
    const std::size_t size = ngrams.size();
    level.begin.assign(static_cast<std::size_t>(num_contexts) + 1, 0);
    level.words.resize(size);
    level.probabilities.resize(size);
    level.backoffs.resize(keep_backoffs ? size : 0);
    for (std::size_t i = 0; i < size; ++i) {
        ++level.begin[ngrams[i].context + 1];
        level.words[i] = ngrams[i].word;
        level.probabilities[i] = ngrams[i].probability;
        if (keep_backoffs) level.backoffs[i] = ngrams[i].backoff;
    }
    for (std::size_t c = 1; c < level.begin.size(); ++c) level.begin[c] += level.begin[c - 1];
}

// Adding n-grams to a level moves the positions after them, which are the contexts of the level above.
void Trie::merge_added(std::vector<Ngram>& ngrams) {
    std::vector<std::uint32_t> moved;  // old position to new one, on the level before
    for (std::uint32_t order = 2; order <= levels_.size(); ++order) {
        Level& level = levels_[order - 1];
        auto& added = added_[order - 1];
        if (added.empty() && moved.empty()) continue;
        // The field `line` carries the old position through the sort.
        std::vector<Ngram> all(level.size() + added.size());
        for (std::uint32_t c = 0; c + 1 < level.begin.size(); ++c)
            for (std::uint32_t i = level.begin[c]; i < level.begin[c + 1]; ++i)
                all[i] = {c, level.words[i], level.probabilities[i], level.backoffs[i], i};
        for (const auto& [packed, position] : added)
            all[position] = {static_cast<std::uint32_t>(packed >> 32U), static_cast<std::uint32_t>(packed),
                             std::numeric_limits<float>::quiet_NaN(), 0.0F, position};
        if (!moved.empty())
            for (Ngram& ngram : all) ngram.context = moved[ngram.context];
        build(level, all, levels_[order - 2].size(), true);
        moved.resize(all.size());
        for (std::uint32_t i = 0; i < all.size(); ++i) moved[all[i].line] = i;
        added.clear();
    }
    if (!moved.empty())
        for (Ngram& ngram : ngrams) ngram.context = moved[ngram.context];
}

void Trie::seal(std::vector<Ngram>& ngrams, bool highest) {
    if (levels_.empty()) {
        Level level;
        level.probabilities.assign(num_words_, kNoProbability);
        level.backoffs.assign(num_words_, 0.0F);
        std::vector<std::uint32_t> lines(num_words_, 0);
        for (const Ngram& ngram : ngrams) {
            if (lines[ngram.word] != 0)
                throw ArpaError(ngram.line, "expected every n-gram once, got one that line " +
                                                std::to_string(lines[ngram.word]) + " gives already");
            lines[ngram.word] = ngram.line;
            level.probabilities[ngram.word] = ngram.probability;
            level.backoffs[ngram.word] = ngram.backoff;
        }
        levels_.push_back(std::move(level));
    } else {
        merge_added(ngrams);
        Level level;
        build(level, ngrams, levels_.back().size(), !highest);
        levels_.push_back(std::move(level));
    }
    added_.emplace_back();
    ngrams = {};
}

}  // namespace arcbeam::arpa
