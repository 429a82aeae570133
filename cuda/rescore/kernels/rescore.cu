// The search kernel with a large language model. It works like decode/search.cu, but a token's key is (graph state,
// history), and words are looked up. Three entries differ in the shape of their launch, as there.
//
// launch  any number of lanes; blocks of any number of whole warps; dynamic shared memory as
//         rescoring_shared_bytes() returns
// The bytes of a result depend on none of these.
#include "rescore/search.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_rescore_wide, 512, 1, arcbeam::Resident<false>) {
    arcbeam::work<arcbeam::RescoringSearch<arcbeam::Resident<false>>, false>(params);
}

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_rescore_dense, 256, 2, arcbeam::Resident<false>) {
    arcbeam::work<arcbeam::RescoringSearch<arcbeam::Resident<false>>, false>(params);
}

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_rescore_cluster, 512, 1, arcbeam::Resident<false>) {
    arcbeam::work_in_clusters<arcbeam::RescoringSearch<arcbeam::Resident<false>>>(params);
}
