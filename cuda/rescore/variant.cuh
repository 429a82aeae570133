// Where a search with histories finds the large model, or whether it has a boost instead. It is fixed when a kernel
// is compiled, so that kernels that have their models pay nothing for the others: the parameter's type says it, and
// stages that differ are templates over that type.
#pragma once

#include "rescore/rescoring_search.hpp"

namespace arcbeam {

template <Asks asked, bool in_buckets, bool lattices, bool boosted = false>
struct RescoringVariant : RescoringParams {
    static constexpr Asks kAsked = asked;  // what lanes ask the host for
    static constexpr bool kLanesAsk = asked != Asks::nobody;
    static constexpr bool kInBuckets = in_buckets;  // see shared/lm_buckets.hpp
    static constexpr bool kLattices = lattices;     // whether lattices are asked for
    static constexpr bool kBoosts = boosted;        // there is no model; words are boosted, see boost.cuh
};

template <bool lattices>
using Resident = RescoringVariant<Asks::nobody, false, lattices>;
template <bool lattices>
using InBuckets = RescoringVariant<Asks::nobody, true, lattices>;
template <bool lattices>
using AskingModel = RescoringVariant<Asks::model, false, lattices>;
template <bool lattices>
using AskingArcs = RescoringVariant<Asks::arcs, false, lattices>;
template <bool lattices>
using Boosted = RescoringVariant<Asks::nobody, false, lattices, true>;

static_assert(sizeof(Resident<false>) == sizeof(RescoringParams), "the host passes RescoringParams");

}  // namespace arcbeam
