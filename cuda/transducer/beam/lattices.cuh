// What a search has for lattices, and to merge hypotheses by context; and what one has that does neither.
#pragma once

#include "transducer/beam/contexts.cuh"
#include "transducer/beam/lattice_log.cuh"

namespace arcbeam::transducer::beam {

// Each history is its own context.
struct NoLattices {
    static constexpr bool kKept = false;
};

struct KeptLattices {
    static constexpr bool kKept = true;

    ARCBEAM_DEVICE explicit KeptLattices(const LatticeParams& params) : contexts(params), log(params) {}

    // Of an utterance, whose histories are there already.
    ARCBEAM_DEVICE void take_over(const Utterance& old, const Utterance& of) const {
        contexts.take_over(old, of);
        log.take_over(of.lane);
        simt::warp_sync(simt::kAllThreads);
    }

    Contexts contexts;
    LatticeLog log;
};

}  // namespace arcbeam::transducer::beam
