// The search kernel. Every block, or every cluster of blocks, has a lane and takes utterances from a queue, longest
// first, until none is left. It returns to the host when all is done, when a lane needs more room, when the last
// utterances should have a cluster each, or when log-probs have not come from the host in time. A later launch goes
// on where it stopped. Three entries differ in the shape of their launch:
//
// wide     few large blocks, one for each multiprocessor
// dense    smaller blocks, two for each multiprocessor, for more utterances than there are multiprocessors
// cluster  blocks as large as in wide, a cluster for each lane, for few utterances or hot ones
//
// launch  any number of lanes; blocks of any number of whole warps; shared_bytes() of dynamic shared memory
//
// The bytes of a result depend on none of these.
#include "decode/plain.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_search_wide, 512, 1, arcbeam::SearchParams) {
    arcbeam::work<arcbeam::PlainSearch<false, true>, false>(params);
}

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_search_dense, 256, 2, arcbeam::SearchParams) {
    arcbeam::work<arcbeam::PlainSearch<false, true>, false>(params);
}

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_search_cluster, 512, 1, arcbeam::SearchParams) {
    arcbeam::work_in_clusters<arcbeam::PlainSearch<false, true>>(params);
}
