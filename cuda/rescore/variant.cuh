// Where a search finds the large model. It is fixed when a kernel is compiled, so that kernels that have their
// models pay nothing for the others: the parameter's type says it, and stages that differ are templates over that
// type.
#pragma once

#include "rescore/rescoring_search.hpp"

namespace arcbeam {

template <Asks asked, bool in_buckets>
struct RescoringVariant : RescoringParams {
    static constexpr Asks kAsked = asked;  // what lanes ask the host for
    static constexpr bool kLanesAsk = asked != Asks::nobody;
    static constexpr bool kInBuckets = in_buckets;  // see shared/lm_buckets.hpp
};

using Resident = RescoringVariant<Asks::nobody, false>;
using InBuckets = RescoringVariant<Asks::nobody, true>;
using AskingModel = RescoringVariant<Asks::model, false>;
using AskingArcs = RescoringVariant<Asks::arcs, false>;

static_assert(sizeof(Resident) == sizeof(RescoringParams), "the host passes RescoringParams");

}  // namespace arcbeam
