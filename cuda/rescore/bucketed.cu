// The search kernel of rescore.cu for a large model in host memory, in buckets: see shared/lm_buckets.hpp.
#define ARCBEAM_IN_BUCKETS
#include "rescore/work.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_bucketed_wide, 512, 1, arcbeam::RescoringParams) { arcbeam::work<false>(params); }

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_bucketed_dense, 256, 2, arcbeam::RescoringParams) { arcbeam::work<false>(params); }

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_bucketed_cluster, 512, 1, arcbeam::RescoringParams) {
    arcbeam::simt::cluster_barrier();  // before any block reads the shared memory of another
    if (arcbeam::ClusterTeam::owns_lane()) {
        arcbeam::work<true>(params);
    } else {
        arcbeam::help_to_rescore(params);
    }
}
