// Rescores a search on the graph of a small language model with a large one: a word adds its deviation to a path's
// cost.
//
// A history is a state of each model. On an arc with a word the path's cost gains the deviation
//   large_scale * large(word | history) - small_scale * small(word | history)
// (Kim and Lane 2014, equations 6 and 7). Each product is rounded once, then their difference. The graph contains
// the small model's costs times small_scale, on whichever arcs they have been pushed to; along a whole path they
// cancel.
#pragma once

#include <cstdint>

#include "shared/lm_view.hpp"
#include "shared/portable.hpp"

namespace arcbeam {

struct History {
    std::uint32_t large;
    std::uint32_t small;
};

ARCBEAM_HD bool operator==(const History& a, const History& b) { return a.large == b.large && a.small == b.small; }

// The order of LM states, the last tie-break of the search.
ARCBEAM_HD bool operator<(const History& a, const History& b) {
    return a.large < b.large || (a.large == b.large && a.small < b.small);
}

// A flag on a label of the large model: the word is not in that model and keeps the cost that the small one gives
// it.
constexpr std::uint32_t kKeepsSmallCost = 0x80000000U;

struct RescoringView {
    LmView large;
    LmView small;
    const std::uint32_t* large_labels;  // [words of the graph]; label 0 for a word that the model lacks
    const std::uint32_t* small_labels;
    float large_scale;
    float small_scale;
};

struct Deviation {
    float cost;
    History next;
};

ARCBEAM_HD float deviation_cost(const RescoringView& lms, float large, float small) {
    return lms.large_scale * large - lms.small_scale * small;
}

// The deviation of a word with this label in the large model, from the steps of both models.
ARCBEAM_HD Deviation deviate(const RescoringView& lms, std::uint32_t label, const LmStep& large,
                             const LmStep& small) {
    const float cost = (label & kKeepsSmallCost) != 0U ? 0.0F : deviation_cost(lms, large.cost, small.cost);
    return {cost, {large.next_state, small.next_state}};
}

ARCBEAM_HD Deviation deviate(const RescoringView& lms, const History& history, std::uint32_t word) {
    const std::uint32_t label = lms.large_labels[word];
    const LmStep large = lm_step(lms.large, history.large, label & ~kKeepsSmallCost);
    const LmStep small = lm_step(lms.small, history.small, lms.small_labels[word]);
    return deviate(lms, label, large, small);
}

// The deviation that the end of a sentence adds.
ARCBEAM_HD float end_deviation(const RescoringView& lms, const History& history) {
    return deviation_cost(lms, lm_step(lms.large, history.large, lms.large.num_labels).cost,
                          lm_step(lms.small, history.small, lms.small.num_labels).cost);
}

// A path's cost with a deviation.
ARCBEAM_HD float rescore_cost(float cost, float deviation) { return cost + deviation; }

ARCBEAM_HD History start_history(const RescoringView& lms) { return {lms.large.start, lms.small.start}; }

}  // namespace arcbeam
