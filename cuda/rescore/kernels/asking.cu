// The search kernel of rescore.cu for a large model that the host has: lanes send requests to the host, see
// requests.hpp.
#include "rescore/search.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_asking_wide, 512, 1, arcbeam::AskingModel<false>) {
    arcbeam::work<arcbeam::RescoringSearch<arcbeam::AskingModel<false>>, false>(params);
}

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_asking_dense, 256, 2, arcbeam::AskingModel<false>) {
    arcbeam::work<arcbeam::RescoringSearch<arcbeam::AskingModel<false>>, false>(params);
}
