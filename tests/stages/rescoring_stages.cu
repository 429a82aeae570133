// The stages of rescore.cu, where the device has the large model, or its index.
#include "rescoring_stages.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_rescoring_stages, 512, 1, arcbeam::StagesParams<arcbeam::Resident<false>>) {
    arcbeam::run_turns(params);
}
