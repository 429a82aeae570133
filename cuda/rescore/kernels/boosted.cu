// The search kernel with a boost for each utterance. It works like rescore.cu, but histories are boost states.
#include "rescore/search.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_boosted_wide, 512, 1, arcbeam::Boosted<false>) {
    arcbeam::work<arcbeam::RescoringSearch<arcbeam::Boosted<false>>, false>(params);
}

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_boosted_dense, 256, 2, arcbeam::Boosted<false>) {
    arcbeam::work<arcbeam::RescoringSearch<arcbeam::Boosted<false>>, false>(params);
}

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_boosted_cluster, 512, 1, arcbeam::Boosted<false>) {
    arcbeam::work_in_clusters<arcbeam::RescoringSearch<arcbeam::Boosted<false>>>(params);
}
