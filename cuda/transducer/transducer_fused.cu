// The loops of transducer.cu for batches whose labels a boosting tree or an n-gram model scores. They are kernels
// of their own, so that others pay nothing for them.
#include "transducer/loop.cuh"

#define ARCBEAM_FUSED_KERNELS(precision)                                                                   \
    ARCBEAM_KERNEL_OCCUPANCY(arcbeam_transducer_kept_fused_##precision, 512, 1,                            \
                             arcbeam::transducer::FusedLoopParams) {                                       \
        arcbeam::transducer::decode_fused_lanes<arcbeam::transducer::Precision::precision, true>(params);  \
    }                                                                                                      \
    ARCBEAM_KERNEL_OCCUPANCY(arcbeam_transducer_many_fused_##precision, 256, 1,                            \
                             arcbeam::transducer::FusedLoopParams) {                                       \
        arcbeam::transducer::decode_fused_lanes<arcbeam::transducer::Precision::precision, false>(params); \
    }

ARCBEAM_FUSED_KERNELS(float32)
ARCBEAM_FUSED_KERNELS(bfloat16)
