// Beam search of transducers (law 12). The kernels are as in transducer.cu, and so is what their bytes depend on.
#include "transducer/beam/beam_loop.cuh"

#define ARCBEAM_BEAM_KERNELS(precision)                                         \
    ARCBEAM_KERNEL_OCCUPANCY(arcbeam_transducer_kept_beam_##precision, 512, 1,  \
                             arcbeam::transducer::beam::BeamLoopParams) {       \
        using namespace arcbeam::transducer;                                    \
        beam::search<Precision::precision, true>(params, beam::PlainModels{});  \
    }                                                                           \
    ARCBEAM_KERNEL_OCCUPANCY(arcbeam_transducer_many_beam_##precision, 256, 1,  \
                             arcbeam::transducer::beam::BeamLoopParams) {       \
        using namespace arcbeam::transducer;                                    \
        beam::search<Precision::precision, false>(params, beam::PlainModels{}); \
    }

ARCBEAM_BEAM_KERNELS(float32)
ARCBEAM_BEAM_KERNELS(bfloat16)
