// The search kernel of rescore.cu where the host has the large model: lanes ask it, see requests.hpp.
#define ARCBEAM_LANES_ASK Asks::model
#include "rescore/work.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_asking_wide, 512, 1, arcbeam::RescoringParams) { arcbeam::work<false>(params); }

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_asking_dense, 256, 2, arcbeam::RescoringParams) { arcbeam::work<false>(params); }
