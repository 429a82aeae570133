// The searches of transducer_beam.cu for batches whose labels are scored by models, too: boosting trees, n-gram
// models or the internal language model. They are kernels of their own, so that others pay nothing for them.
#include "transducer/beam/beam_loop.cuh"

#define ARCBEAM_FUSED_BEAM_KERNELS(precision)                                                       \
    ARCBEAM_KERNEL_OCCUPANCY(arcbeam_transducer_kept_fused_beam_##precision, 512, 1,                \
                             arcbeam::transducer::beam::FusedBeamLoopParams) {                      \
        using namespace arcbeam::transducer;                                                        \
        beam::search<Precision::precision, true>(params.search, beam::FusedModels(params.fusion));  \
    }                                                                                               \
    ARCBEAM_KERNEL_OCCUPANCY(arcbeam_transducer_many_fused_beam_##precision, 256, 1,                \
                             arcbeam::transducer::beam::FusedBeamLoopParams) {                      \
        using namespace arcbeam::transducer;                                                        \
        beam::search<Precision::precision, false>(params.search, beam::FusedModels(params.fusion)); \
    }

ARCBEAM_FUSED_BEAM_KERNELS(float32)
ARCBEAM_FUSED_BEAM_KERNELS(bfloat16)
