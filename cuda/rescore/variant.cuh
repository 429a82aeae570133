// What a search with histories adds to the costs of words, and where it finds the large model. That is fixed when a
// kernel is compiled, so that kernels pay nothing for each other: it is in the parameter's type, and stages that
// differ are templates over that type.
#pragma once

#include "rescore/rescoring_search.hpp"
#include "shared/simt.cuh"

namespace arcbeam {

// The form in which kernels read the large model; shared/lm_buckets.hpp has the second.
enum class LmForm : std::uint8_t { columns, buckets, either };  // either: the parameters have which

// What a word adds: the deviation of the models, the boost of its utterance (see boost.cuh), or both.
enum class Adds : std::uint8_t { deviations, boosts, both };

template <Requested requested, LmForm form, bool lattices, Adds adds = Adds::deviations>
struct RescoringVariant : RescoringParams {
    static constexpr Requested kRequested = requested;  // what lanes request from the host
    static constexpr bool kLanesRequest = requested != Requested::nothing;
    static constexpr bool kHasColumns = form != LmForm::buckets;
    static constexpr bool kHasBuckets = form != LmForm::columns;
    static constexpr bool kLattices = lattices;  // whether lattices are requested
    static constexpr bool kDeviates = adds != Adds::boosts;
    static constexpr bool kBoosts = adds != Adds::deviations;
    static constexpr bool kBoostsAlone = adds == Adds::boosts;
    static constexpr bool kLimits = kDeviates;  // whether a state may have too many hypotheses
    static constexpr bool kIsOpened = false;    // see new_words.cuh
    static constexpr bool kHasNewWords = false;
};

template <class Params>
ARCBEAM_DEVICE bool requests_arcs(const Params& params) {
    if constexpr (Params::kRequested == Requested::either) {
        return params.history_words == nullptr;
    } else {
        return Params::kRequested == Requested::arcs;
    }
}

// Whether histories are the host's numbers, which are compared by their words.
template <class Params>
ARCBEAM_DEVICE bool numbers_histories(const Params& params) {
    return Params::kLanesRequest && !requests_arcs(params);
}

// The parameter of the kernel itself, for stages that read models through an address: that of a copy would lie in
// local memory.
template <class Params>
ARCBEAM_DEVICE const auto& of_kernel(const Params& params) {
    if constexpr (Params::kIsOpened) {
        return *params.of_kernel;
    } else {
        return params;
    }
}

template <bool lattices>
using Resident = RescoringVariant<Requested::nothing, LmForm::columns, lattices>;
template <bool lattices>
using InBuckets = RescoringVariant<Requested::nothing, LmForm::buckets, lattices>;
template <bool lattices>
using HostLookup = RescoringVariant<Requested::model, LmForm::columns, lattices>;
template <bool lattices>
using HostArcs = RescoringVariant<Requested::arcs, LmForm::columns, lattices>;
template <bool lattices>
using Boosted = RescoringVariant<Requested::nothing, LmForm::columns, lattices, Adds::boosts>;
template <bool lattices>
using BoostedRescoring = RescoringVariant<Requested::nothing, LmForm::either, lattices, Adds::both>;
template <bool lattices>
using BoostedHost = RescoringVariant<Requested::either, LmForm::columns, lattices, Adds::both>;

static_assert(sizeof(Resident<false>) == sizeof(RescoringParams), "the host passes RescoringParams");

}  // namespace arcbeam
