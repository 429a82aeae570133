// A back-off language model as an automaton, as both engines read it: columns of plain arrays, owned elsewhere.
//
// A state is a history. State 0 is the empty one. The states of a length follow those of shorter lengths, and
// within a length they ascend by back-off state, as if words were sorted from the last to the first. So the number
// of a back-off state is below that of its state, and both the first arcs and (within a length) the back-off states
// ascend, in small steps. 32 states form a block and share a base: first arcs are 8-bit distances from it, and
// back-off states are 2-bit steps that add up. A block with larger steps has its values in a separate table.
//
// The arcs of a state are contiguous and sorted by label; state 0 has one arc for every label. Labels from 1 on are
// words; the last label is the end of a sentence. A label is kept in two planes: its low 16 bits, and `high_bits`
// bits an arc.
//
// The index (labels, first arcs, back-off states) is what a search needs to find the arc that a word takes. The
// arcs and the back-off weights, four fifths of the bytes, are read afterwards. They may be in another memory.
#pragma once

#include <cstdint>

#include "shared/portable.hpp"

namespace arcbeam {

constexpr std::uint32_t kNoLmArc = 0xffffffffU;
constexpr std::uint32_t kLmBlockBits = 5U;           // states that share a base: 32
constexpr std::uint32_t kLmLastPlace = 31U;          // in a block
constexpr std::uint32_t kLmWideBlock = 0x80000000U;  // marks a base: the rest is a position in the separate table
constexpr std::uint32_t kLmMostOffset = 255U;        // of a first arc from its base
constexpr std::uint32_t kLmMostStep = 3U;            // from a state's back-off state to that of the next state
constexpr std::uint32_t kLmEmptyHistory = 0U;        // the state that everything backs off to
constexpr std::uint32_t kUnknownLabel = 0U;          // a word that has no label
constexpr float kUnknownCost = 230.2585093F;         // its cost: the probability 1e-100, as in KenLM

struct LmArc {
    std::uint32_t next_state;
    float weight;  // cost; includes the back-off weights of histories that are not states
};

// The sum of 32 numbers of 2 bits.
ARCBEAM_HD std::uint32_t lm_sum_of_pairs(std::uint64_t pairs) {
    pairs = (pairs & 0x3333333333333333U) + (pairs >> 2U & 0x3333333333333333U);
    pairs = (pairs & 0x0f0f0f0f0f0f0f0fU) + (pairs >> 4U & 0x0f0f0f0f0f0f0f0fU);
    return static_cast<std::uint32_t>(pairs * 0x0101010101010101U >> 56U);
}

struct LmView {
    const std::uint16_t* labels_low;     // [num_arcs]
    const std::uint32_t* labels_high;    // [ceil(num_arcs * high_bits / 32)]
    const std::uint8_t* first_offsets;   // [num_states + 1]; the last one closes the arcs of the state before
    const std::uint32_t* first_bases;    // [num_states / 32 + 1]
    const std::uint32_t* wide_firsts;    // [num_wide_firsts]
    const std::uint64_t* backoff_steps;  // [num_states / 32 rounded up]: from the state before; 0 for the first one
    const std::uint32_t* backoff_bases;  // [num_states / 32 rounded up]
    const std::uint32_t* wide_backoffs;  // [num_wide_backoffs]
    const LmArc* arcs;                   // [num_arcs]
    const float* backoff_weights;        // [num_states]; 0 for state 0
    std::uint32_t num_states;
    std::uint32_t num_arcs;
    std::uint32_t num_wide_firsts;
    std::uint32_t num_wide_backoffs;
    std::uint32_t high_bits;   // a power of two, or 0 where 16 bits are enough
    std::uint32_t start;       // the state at the beginning of a sentence
    std::uint32_t num_labels;  // labels are 1 .. num_labels; the last one ends a sentence

    ARCBEAM_HD std::uint32_t label(std::uint32_t arc) const {
        const std::uint32_t low = labels_low[arc];
        if (high_bits == 0U) {
            return low;
        }
        const std::uint64_t bit = static_cast<std::uint64_t>(arc) * high_bits;
        const std::uint32_t word = labels_high[bit >> 5U] >> (bit & 31U);
        return low | (word & ((1U << high_bits) - 1U)) << 16U;
    }

    ARCBEAM_HD std::uint32_t first_arc(std::uint32_t state) const {
        const std::uint32_t base = first_bases[state >> kLmBlockBits];
        const std::uint32_t offset = first_offsets[state];
        return (base & kLmWideBlock) == 0U ? base + offset
                                           : wide_firsts[(base & ~kLmWideBlock) + (state & kLmLastPlace)];
    }

    ARCBEAM_HD std::uint32_t backoff_state(std::uint32_t state) const {
        const std::uint32_t base = backoff_bases[state >> kLmBlockBits];
        const std::uint64_t steps = backoff_steps[state >> kLmBlockBits];
        const std::uint32_t place = state & kLmLastPlace;
        return (base & kLmWideBlock) == 0U
                   ? base + lm_sum_of_pairs(steps & ((std::uint64_t{2} << (2U * place + 1U)) - 1U))
                   : wide_backoffs[(base & ~kLmWideBlock) + place];
    }

    // The arc of a state with this label, or kNoLmArc.
    ARCBEAM_HD std::uint32_t find(std::uint32_t state, std::uint32_t requested) const {
        if (state == kLmEmptyHistory) {
            return requested - 1U;
        }
        std::uint32_t begin = first_arc(state);
        const std::uint32_t end = first_arc(state + 1U);
        std::uint32_t size = end > begin ? end - begin : 0U;  // a page that was lost reads as zeros
        while (size > 0U) {
            const std::uint32_t half = size / 2U;
            const bool right = label(begin + half) < requested;
            begin = right ? begin + half + 1U : begin;
            size = right ? size - half - 1U : half;
        }
        return begin < end && label(begin) == requested ? begin : kNoLmArc;
    }
};

// The cost of a label after a history, and the next history. Back-off weights are summed from the longest history
// down.
struct LmStep {
    float cost;
    std::uint32_t next_state;
    std::uint32_t from;  // the history that lists the label
};

ARCBEAM_HD float lm_back_off(float backoffs, float weight) { return backoffs + weight; }

ARCBEAM_HD LmStep lm_found(float backoffs, const LmArc& arc, std::uint32_t from) {
    return {backoffs + arc.weight, arc.next_state, from};
}

ARCBEAM_HD LmStep lm_unknown(float backoffs) { return {backoffs + kUnknownCost, kLmEmptyHistory, kLmEmptyHistory}; }

// Labels are 1 .. num_labels; label 0 is a word that the model lacks, if it has no <unk>. The loop ends,
// because back-off states descend.
ARCBEAM_HD LmStep lm_step(const LmView& lm, std::uint32_t state, std::uint32_t label) {
    float backoffs = 0.0F;
    if (label == kUnknownLabel) {
        for (; state != kLmEmptyHistory; state = lm.backoff_state(state)) {
            backoffs = lm_back_off(backoffs, lm.backoff_weights[state]);
        }
        return lm_unknown(backoffs);
    }
    std::uint32_t arc = lm.find(state, label);
    while (arc == kNoLmArc) {
        backoffs = lm_back_off(backoffs, lm.backoff_weights[state]);
        state = lm.backoff_state(state);
        arc = lm.find(state, label);
    }
    return lm_found(backoffs, lm.arcs[arc], state);
}

}  // namespace arcbeam
