// The search kernel of rescore.cu for a large model in host memory, in buckets: see shared/lm_buckets.hpp.
#include "rescore/search.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_bucketed_wide, 512, 1, arcbeam::InBuckets<false>) {
    arcbeam::work<arcbeam::RescoringSearch<arcbeam::InBuckets<false>>, false>(params);
}

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_bucketed_dense, 256, 2, arcbeam::InBuckets<false>) {
    arcbeam::work<arcbeam::RescoringSearch<arcbeam::InBuckets<false>>, false>(params);
}

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_bucketed_cluster, 512, 1, arcbeam::InBuckets<false>) {
    arcbeam::work_in_clusters<arcbeam::RescoringSearch<arcbeam::InBuckets<false>>>(params);
}
