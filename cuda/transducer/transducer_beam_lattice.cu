// The searches of transducer_beam_fused.cu for batches with lattices, or whose hypotheses merge by context. They
// are kernels of their own, so that others pay nothing for it.
#include "transducer/beam/beam_loop.cuh"

#define ARCBEAM_LATTICE_BEAM_KERNELS(precision)                                                                  \
    ARCBEAM_KERNEL_OCCUPANCY(arcbeam_transducer_kept_lattice_beam_##precision, 512, 1,                           \
                             arcbeam::transducer::beam::LatticeBeamLoopParams) {                                 \
        using namespace arcbeam::transducer;                                                                     \
        beam::search<Precision::precision, true>(params.search.search, beam::FusedModels(params.search.fusion),  \
                                                 beam::KeptLattices(params.lattices));                           \
    }                                                                                                            \
    ARCBEAM_KERNEL_OCCUPANCY(arcbeam_transducer_many_lattice_beam_##precision, 256, 1,                           \
                             arcbeam::transducer::beam::LatticeBeamLoopParams) {                                 \
        using namespace arcbeam::transducer;                                                                     \
        beam::search<Precision::precision, false>(params.search.search, beam::FusedModels(params.search.fusion), \
                                                  beam::KeptLattices(params.lattices));                          \
    }

ARCBEAM_LATTICE_BEAM_KERNELS(float32)
ARCBEAM_LATTICE_BEAM_KERNELS(bfloat16)
