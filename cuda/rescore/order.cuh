// The order of histories, the last tie-break of the search. Histories of a model that the host has are numbered in
// the order in which they are first met, but compared by their words. That is the twin's rule,
// cpu_reference/kenlm/states.hpp.
#pragma once

#include "decode/cutoff.cuh"
#include "decode/recombine.cuh"
#include "rescore/history.cuh"

namespace arcbeam {

// The host writes the words before it sends any lane the history's number. Whichever way the number has come, a
// fence and a barrier have followed: see take_answers() and request_some_words().
ARCBEAM_DEVICE bool words_precede(const RescoringParams& params, std::uint32_t a, std::uint32_t b) {
    const std::uint32_t* const first = params.history_words + std::uint64_t{a} * params.words_a_history;
    const std::uint32_t* const second = params.history_words + std::uint64_t{b} * params.words_a_history;
    for (std::uint32_t i = 0U; i < params.words_a_history; ++i) {
        const std::uint32_t x = simt::load_relaxed<Scope::system>(first + i);
        const std::uint32_t y = simt::load_relaxed<Scope::system>(second + i);
        if (x != y) {
            return x < y;
        }
    }
    return false;
}

template <class Params>
ARCBEAM_DEVICE bool precedes(const Params& params, const History& a, const History& b) {
    if (!numbers_histories(params) || models_part(params, a).large == models_part(params, b).large) {
        return a < b;
    }
    return words_precede(params, models_part(params, a).large, models_part(params, b).large);
}

// Of all numbers that threads offer, the first in order stays; kNoPacked stands for none yet.
template <class Team, class Params>
ARCBEAM_DEVICE void keep_first(const Params& params, std::uint64_t* least, std::uint64_t bits) {
    if (!numbers_histories(params)) {
        simt::atomic_min<Team::kScope>(least, bits);
        return;
    }
    std::uint64_t found = simt::load_relaxed<Team::kScope>(least);
    while (found == kNoPacked || precedes(params, history_of(bits), history_of(found))) {
        const std::uint64_t before = simt::atomic_cas<Team::kScope>(least, found, bits);
        if (before == found) {
            return;
        }
        found = before;
    }
}

// The order of tokens as words of 32 bits, of which the first counts most: cost and state, as in StateOrder; the
// words of a history that the host has numbered, of which equal ones have one number; the bits of the history.
struct HistoryOrder {
    Array<Token> token;
    Array<std::uint32_t> state;
    Array<History> histories;
    const std::uint32_t* history_words;
    std::uint32_t words_a_history;  // 0: the host has not numbered them
    std::uint32_t bits_after_number;

    ARCBEAM_DEVICE std::uint32_t word(std::uint32_t i, std::uint32_t at) const {
        if (at < 2U) {
            return StateOrder{token, state}.word(i, at);
        }
        const History history = histories[i];
        at -= 2U;
        if (at >= words_a_history) {
            return at == words_a_history ? history.large : history.small;
        }
        const std::uint64_t number = history_bits(history) >> bits_after_number;
        return simt::load_relaxed<Scope::system>(history_words + number * words_a_history + at);
    }
};

template <class Params>
ARCBEAM_DEVICE HistoryOrder order_of(const Params& params, const Tokens& tokens, const Array<History>& histories) {
    const bool numbered = numbers_histories(params);
    return {tokens.token,
            tokens.state,
            histories,
            params.history_words,
            numbered ? params.words_a_history : 0U,
            kSharesBits<Params> ? params.bits.boost + params.bits.small : 32U};
}

}  // namespace arcbeam
