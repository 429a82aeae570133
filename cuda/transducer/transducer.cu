// Greedy decoding of transducers. Two launches decode a group of utterances:
//
// arcbeam_transducer_project   any grid: the encoder's projections of all frames
// arcbeam_transducer_few       all blocks resident: weights stay in shared memory, a share of each matrix a block
// arcbeam_transducer_many      all blocks resident: weights are streamed, tiles are shared out over the grid
//
// The bytes of a result depend neither on which of the two loops runs, nor on blocks, threads, windows or groups.
// Blocks are of whole warps.
#include "transducer/loop.cuh"
#include "transducer/project.cuh"

ARCBEAM_KERNEL(arcbeam_transducer_project, 256, arcbeam::transducer::ProjectParams) {
    using namespace arcbeam::transducer;
    const ProjectStage stage{params};
    share_tiles<false, static_cast<int>(kRowGroup), static_cast<int>(FrameGroup::kFrames)>(
        stage, params.network.encoder.rows, params.num_groups * FrameGroup::kFrames);
}

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_transducer_few, 512, 1, arcbeam::transducer::LoopParams) {
    arcbeam::transducer::decode_lanes<true>(params);
}

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_transducer_many, 256, 1, arcbeam::transducer::LoopParams) {
    arcbeam::transducer::decode_lanes<false>(params);
}
