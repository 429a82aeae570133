// The search kernel of rescore.cu for a large model that the host has: lanes ask the host, see requests.hpp.
#define ARCBEAM_LANES_ASK Asks::model
#include "rescore/work.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_asking_wide, 512, 1, arcbeam::RescoringParams) { arcbeam::work<false>(params); }

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_asking_dense, 256, 2, arcbeam::RescoringParams) { arcbeam::work<false>(params); }
