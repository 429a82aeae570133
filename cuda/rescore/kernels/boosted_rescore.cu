// The search kernel with a large language model and a boost for each utterance: what rescore.cu and boosted.cu add,
// added together. It reads the model in either of its forms. There is no entry for clusters, as in boosted.cu.
#include "rescore/search.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_boosted_rescore_wide, 512, 1, arcbeam::BoostedRescoring<false>) {
    arcbeam::work<arcbeam::RescoringSearch<arcbeam::BoostedRescoring<false>>, false>(params);
}
