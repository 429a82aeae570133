#include "arcbeam/transducer/_token_ngrams/token_ngrams.hpp"

#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

#include "shared/natural_log.hpp"

namespace arcbeam::transducer {

namespace {

constexpr std::uint32_t kNoState = 0xffffffffU;
constexpr std::uint32_t kNoToken = 0xffffffffU;

float natural_weight(float log10_weight) {
    return -natural_cost(static_cast<double>(log10_weight)) + 0.0F;  // no -0
}

}  // namespace

TokenNgrams::TokenNgrams(const KenLm& lm, const std::uint32_t* words, const std::uint32_t* tokens,
                         std::size_t count, std::size_t most)
    : lm_(lm), most_(most), levels_(2), before_(lm.state_size()), after_(lm.state_size()) {
    const auto end = static_cast<std::uint32_t>(count);
    levels_[0].push_back({0, 0, 0, kNoToken, 0.0F, 0.0F, 0, 0, end});
    lm_.null_context(before_.data());
    for (std::size_t i = 0; i < count; ++i) add(1, scored(0, 0, words[i], tokens[i], 1));
    lm_.begin_sentence(after_.data());
    const bool is_history = lm_.length(after_.data()) == 1;  // not in a model of unigrams
    const float backoff = is_history ? lm_.backoff_of(after_.data(), 0) : 0.0F;
    add(1, {0, 0, lm_.start_word(), kNoToken, 0.0F, backoff, is_history ? 1U : 0U, 0, 0});
}

// The n-gram of a word after the history that `before_` holds.
TokenNgrams::Ngram TokenNgrams::scored(std::uint32_t parent, std::uint32_t suffix, std::uint32_t word,
                                       std::uint32_t token, std::size_t order) {
    const float weight = lm_.score(before_.data(), word, after_.data());
    const std::size_t length = lm_.length(after_.data());
    const float backoff = length < order ? 0.0F : lm_.backoff_of(after_.data(), order - 1);
    return {parent, suffix, word, token, weight, backoff, static_cast<std::uint32_t>(length), 0, 0};
}

// Makes `before_` the history. With its back-off weights, a word that it does not list has the weight -inf.
void TokenNgrams::see(std::size_t order, const Ngram& history) {
    lm_.null_context(before_.data());
    const Ngram* at = &history;
    for (std::size_t i = 0; i < order; ++i) {
        lm_.push_oldest(before_.data(), at->word, -std::numeric_limits<float>::infinity());
        at = &levels_[order - 1 - i][at->parent];
    }
}

void TokenNgrams::add(std::size_t order, const Ngram& found) {
    if (++count_ > most_) {
        throw std::invalid_argument("expected at most " + std::to_string(most_) + " n-grams of tokens");
    }
    levels_[order].push_back(found);
}

bool TokenNgrams::read(std::size_t histories) {
    for (; histories != 0; --histories) {
        if (order_ >= lm_.order()) return false;
        if (place_ == 0) levels_.resize(order_ + 2);
        if (place_ == levels_[order_].size()) {
            ++order_;
            place_ = 0;
            continue;
        }
        Ngram& history = levels_[order_][place_];
        const auto parent = static_cast<std::uint32_t>(place_++);
        Level& longer = levels_[order_ + 1];
        history.begin = static_cast<std::uint32_t>(longer.size());
        if (history.length == order_) {  // else nothing continues it
            see(order_, history);
            const Ngram& suffix = levels_[order_ - 1][history.suffix];
            for (std::uint32_t i = suffix.begin; i < suffix.end; ++i) {
                const Ngram& shorter = levels_[order_][i];
                const Ngram found = scored(parent, i, shorter.word, shorter.token, order_ + 1);
                if (std::isfinite(found.weight)) add(order_ + 1, found);
            }
        }
        history.end = static_cast<std::uint32_t>(longer.size());
    }
    return true;
}

float TokenNgrams::unknown_weight() const {
    std::vector<unsigned char> nothing(lm_.state_size());
    std::vector<unsigned char> after(lm_.state_size());
    lm_.null_context(nothing.data());
    return natural_weight(lm_.score(nothing.data(), 0, after.data()));
}

// The history that follows an n-gram.
std::uint32_t TokenNgrams::state(const std::vector<std::vector<std::uint32_t>>& states, std::size_t order,
                                 std::uint32_t place) const {
    const std::size_t length = levels_[order][place].length;
    for (; order > length; --order) place = levels_[order][place].suffix;
    return states[order][place];
}

TokenArrays TokenNgrams::automaton(std::uint32_t num_tokens, std::uint32_t blank, float missing_weight) const {
    std::vector<std::vector<std::uint32_t>> states(levels_.size());
    std::uint32_t count = 0;
    for (std::size_t order = 0; order < levels_.size(); ++order) {
        for (const Ngram& ngram : levels_[order]) {
            states[order].push_back(ngram.length == order ? count++ : kNoState);
        }
    }
    TokenArrays made;
    made.arc_tokens.resize(num_tokens);
    std::iota(made.arc_tokens.begin(), made.arc_tokens.end(), 0U);
    made.arcs.assign(num_tokens, TokenArc{0, missing_weight});
    made.arcs[blank].weight = 0.0F;
    for (std::uint32_t i = 0; i < levels_[0][0].end; ++i) {
        const Ngram& unigram = levels_[1][i];
        made.arcs[unigram.token] = {state(states, 1, i), natural_weight(unigram.weight)};
    }
    made.first_arcs = {0, num_tokens};
    made.backoffs = {TokenArc{0, 0.0F}};
    for (std::size_t order = 1; order < levels_.size(); ++order) {
        for (const Ngram& history : levels_[order]) {
            if (history.length != order) continue;
            for (std::uint32_t i = history.begin; i < history.end; ++i) {
                const Ngram& ngram = levels_[order + 1][i];
                made.arc_tokens.push_back(ngram.token);
                made.arcs.push_back({state(states, order + 1, i), natural_weight(ngram.weight)});
            }
            made.first_arcs.push_back(static_cast<std::uint32_t>(made.arcs.size()));
            made.backoffs.push_back({state(states, order - 1, history.suffix), natural_weight(history.backoff)});
        }
    }
    made.start = state(states, 1, levels_[0][0].end);
    return made;
}

}  // namespace arcbeam::transducer
