// The stages of bucketed.cu, where the large model is in buckets.
#include "rescoring_stages.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_bucketed_rescoring_stages, 512, 1,
                         arcbeam::StagesParams<arcbeam::InBuckets<false>>) {
    arcbeam::run_turns(params);
}
