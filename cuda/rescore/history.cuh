// The parts of a token's history. It is a state of each language model or, where words are boosted without models,
// a boost state. Where words are looked up and boosted, three states share its 64 bits: from the highest to the
// lowest the large model's, the small model's and the boost's, so that histories compare as law 9 says. See
// SharedBits.
#pragma once

#include "rescore/variant.cuh"
#include "shared/portable.hpp"

namespace arcbeam {

template <class Params>
constexpr bool kSharesBits = Params::kDeviates && Params::kBoosts;

ARCBEAM_DEVICE std::uint64_t history_bits(const History& history) {
    return static_cast<std::uint64_t>(history.large) << 32U | history.small;
}

ARCBEAM_DEVICE History history_of(std::uint64_t bits) {
    return {static_cast<std::uint32_t>(bits >> 32U), static_cast<std::uint32_t>(bits)};
}

ARCBEAM_DEVICE std::uint32_t lowest(std::uint32_t value, std::uint32_t bits) { return value & ((1U << bits) - 1U); }

// The states of the language models.
template <class Params>
ARCBEAM_DEVICE History models_part(const Params& params, const History& history) {
    if constexpr (kSharesBits<Params>) {
        const std::uint64_t both = history_bits(history) >> params.bits.boost;
        return {static_cast<std::uint32_t>(both >> params.bits.small),
                lowest(static_cast<std::uint32_t>(both), params.bits.small)};
    } else {
        return history;
    }
}

template <class Params>
ARCBEAM_DEVICE std::uint32_t boost_part(const Params& params, const History& history) {
    return kSharesBits<Params> ? lowest(history.small, params.bits.boost) : history.large;
}

template <class Params>
ARCBEAM_DEVICE History with_models_part(const Params& params, const History& history, const History& models) {
    if constexpr (kSharesBits<Params>) {
        return shared_history(params.bits, models, boost_part(params, history));
    } else {
        return models;
    }
}

// The history before the first word of an utterance. In a stream the large model may begin with the words
// before.
template <class Params>
ARCBEAM_DEVICE History first_history(const Params& params, std::uint32_t utterance) {
    History models = start_history(params.lms);
    if constexpr (Params::kDeviates) {
        if (params.search.streams != nullptr) {
            models.large = params.search.streams[utterance].large_start;
        }
    }
    return with_models_part(params, History{kNoPhrase, kNoPhrase}, models);
}

// In the state of a stream a history shares its bits if the stream is boosted, as in the kernels that take such a
// stream. Others may take it from chunk to chunk, as its company is boosted or not.
template <class Params>
ARCBEAM_DEVICE bool changes_form(const Params& params, std::uint32_t utterance) {
    return kSharesBits<Params> && !has_phrases(params.boosts[utterance]);
}

template <class Params>
ARCBEAM_DEVICE History history_from_stream(const Params& params, std::uint32_t utterance, const History& history) {
    return changes_form(params, utterance) ? shared_history(params.bits, history, kNoPhrase) : history;
}

template <class Params>
ARCBEAM_DEVICE History history_to_stream(const Params& params, std::uint32_t utterance, const History& history) {
    return changes_form(params, utterance) ? models_part(params, history) : history;
}

template <class Params>
ARCBEAM_DEVICE History with_boost_part(const Params& params, const History& history, std::uint32_t boost) {
    return kSharesBits<Params> ? History{history.large, history.small - boost_part(params, history) + boost}
                               : History{boost, 0U};
}

}  // namespace arcbeam
