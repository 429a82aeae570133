// The options of a search, and the numbers that mean "none".
#pragma once

#include <cstdint>

namespace arcbeam::baseline {

constexpr std::uint32_t kNoLabel = 0xffffffffU;   // of a step that completes no word
constexpr std::uint32_t kNoParent = 0xffffffffU;  // of the entry that starts an utterance
constexpr std::uint16_t kNoToken = 0xffffU;       // no such column; the token of a start without silence
constexpr std::uint32_t kRoot = 0;                // the trie's root

struct SearchOptions {
    std::uint32_t beam_size;
    std::uint32_t beam_size_token;
    double beam_threshold;
    double lm_weight;
    double word_score;
    double unk_score;  // -inf: no unknown words
    double sil_score;
    bool log_add;
    bool repeat_last_token;
    bool final_separator;
    std::uint16_t blank;
    std::uint16_t silence;        // kNoToken: none
    std::uint16_t separator;      // the token that ends spellings, or kNoToken
    std::uint32_t unknown_label;  // of the word that stands for unknown ones
    std::uint32_t nbest;
    std::uint32_t collect_above;  // size of a log at which it first drops entries that no hypothesis needs
};

}  // namespace arcbeam::baseline
