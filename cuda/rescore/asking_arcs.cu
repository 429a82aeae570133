// The search kernel of rescore.cu where the host has the arcs of the large model and its back-off weights: lanes
// ask the host for these, see requests.hpp.
#define ARCBEAM_LANES_ASK Asks::arcs
#include "rescore/work.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_asking_arcs_wide, 512, 1, arcbeam::RescoringParams) {
    arcbeam::work<false>(params);
}

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_asking_arcs_dense, 256, 2, arcbeam::RescoringParams) {
    arcbeam::work<false>(params);
}
