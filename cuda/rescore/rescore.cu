// The search kernel with a large language model. It works like decode/search.cu, but a token's key is (graph state,
// history), and words are looked up. Three entries differ in the shape of their launch, as there.
//
// launch  any number of lanes; blocks of any number of whole warps; dynamic shared memory as
//         rescoring_shared_bytes() says
// The bytes of a result depend on none of these.
#include "rescore/work.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_rescore_wide, 512, 1, arcbeam::RescoringParams) { arcbeam::work<false>(params); }

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_rescore_dense, 256, 2, arcbeam::RescoringParams) { arcbeam::work<false>(params); }

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_rescore_cluster, 512, 1, arcbeam::RescoringParams) {
    arcbeam::simt::cluster_barrier();  // before any block reads the shared memory of another
    if (arcbeam::ClusterTeam::owns_lane()) {
        arcbeam::work<true>(params);
    } else {
        arcbeam::help_to_rescore(params);
    }
}
