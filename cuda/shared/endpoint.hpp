// When a stream of speech has come to the end of a sentence (law 10 of docs/design/rules.md), as both engines judge
// it.
//
// Every `every` frames of a sentence its rules are checked in their order; the first that holds ends the sentence
// there. A rule has the form of Kaldi's (online2/online-endpoint.h):
//
//     (there is a word, or the rule does not need one) and the silence at the end is at least this long, and
//     the sentence is at least this long, and its end costs at most this much
//
// Of the best path without final weights, silence is what reads the blank or the separator of words; so are frames
// after the search has died. The *relative cost* is that of the best end, with its final weight, less that of the
// best path; +inf where no final state is alive. Times are frames, which the host has made of seconds.
#pragma once

#include <cstdint>

#include "shared/cost.hpp"
#include "shared/portable.hpp"

namespace arcbeam {

constexpr std::uint32_t kMostEndpointRules = 8U;
constexpr std::uint32_t kNoEndpoint = 0U;  // in place of the number of a rule; numbers begin with 1

struct EndpointRule {
    std::uint32_t must_contain_nonsilence;  // 0 or 1
    std::uint32_t min_trailing_silence;     // frames
    std::uint32_t min_utterance_length;     // frames
    float max_relative_cost;
};

struct EndpointRules {
    EndpointRule rules[kMostEndpointRules];
    std::uint32_t num_rules;  // 0: sentences do not end by themselves
    std::uint32_t every;      // frames between two checks, at least 1
    std::int32_t blank_column;
    std::int32_t separator_column;  // -1: none
};

ARCBEAM_HD bool reads_silence(const EndpointRules& rules, std::uint16_t column) {
    return static_cast<std::int32_t>(column) == rules.blank_column ||
           static_cast<std::int32_t>(column) == rules.separator_column;
}

// The conditions of a rule except for the relative cost.
ARCBEAM_HD bool is_quiet_enough(const EndpointRule& rule, std::uint64_t frames, std::uint64_t trailing_silence) {
    return (rule.must_contain_nonsilence == 0U || frames > trailing_silence) &&
           trailing_silence >= rule.min_trailing_silence && frames >= rule.min_utterance_length;
}

// Whether the rule has a condition on the relative cost.
ARCBEAM_HD bool needs_end_cost(const EndpointRule& rule) { return is_finite(rule.max_relative_cost); }

// Of the smallest cost with a final weight, +inf where there is none, and the smallest without.
ARCBEAM_HD float relative_cost(float best_end, float best) { return best_end - best; }

// The number of the first rule that holds, or kNoEndpoint. With a relative cost of -inf it is the first that may
// hold, so that the cost is found only if that rule needs it.
ARCBEAM_HD std::uint32_t rule_that_holds(const EndpointRules& rules, std::uint64_t frames,
                                         std::uint64_t trailing_silence, float relative) {
    for (std::uint32_t i = 0U; i < rules.num_rules; ++i) {
        const EndpointRule& rule = rules.rules[i];
        if (is_quiet_enough(rule, frames, trailing_silence) &&
            (!needs_end_cost(rule) || relative <= rule.max_relative_cost)) {
            return i + 1U;
        }
    }
    return kNoEndpoint;
}

}  // namespace arcbeam
