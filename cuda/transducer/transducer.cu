// Greedy decoding of transducers. Two launches decode a group of utterances:
//
// project   any grid: the encoder's projections of all frames
// kept      all blocks resident: weights are kept in shared memory, each block a share of every matrix; the values
//           that they are multiplied by are in global memory, after barriers of the grid
// many      as kept, but weights are streamed, and tiles are shared out over the grid
//
// In neither precision do the bytes of a result depend on which of the loops runs, or on blocks, threads, windows
// or groups. In bfloat16 they do depend on the machine's tensor cores. Blocks consist of whole warps.
#include "transducer/loop.cuh"
#include "transducer/project.cuh"

#define ARCBEAM_TRANSDUCER_KERNELS(precision, blocks)                                                        \
    ARCBEAM_KERNEL_OCCUPANCY(arcbeam_transducer_project_##precision, 256, blocks,                            \
                             arcbeam::transducer::ProjectParams) {                                           \
        arcbeam::transducer::project<arcbeam::transducer::Precision::precision>(params);                     \
    }                                                                                                        \
    ARCBEAM_KERNEL_OCCUPANCY(arcbeam_transducer_kept_##precision, 512, 1, arcbeam::transducer::LoopParams) { \
        arcbeam::transducer::decode_lanes<arcbeam::transducer::Precision::precision, true>(params);          \
    }                                                                                                        \
    ARCBEAM_KERNEL_OCCUPANCY(arcbeam_transducer_many_##precision, 256, 1, arcbeam::transducer::LoopParams) { \
        arcbeam::transducer::decode_lanes<arcbeam::transducer::Precision::precision, false>(params);         \
    }

ARCBEAM_TRANSDUCER_KERNELS(float32, 1)
ARCBEAM_TRANSDUCER_KERNELS(bfloat16, 2)
