// The search kernel with new words and a boost for each utterance: as boosted.cu, for graphs with open slots.
#include "rescore/new_words.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_new_words_wide, 512, 1, arcbeam::WithNewWords<arcbeam::Boosted<false>>) {
    arcbeam::work<arcbeam::NewWordsSearch<arcbeam::Boosted<false>>, false>(params);
}

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_new_words_dense, 256, 2, arcbeam::WithNewWords<arcbeam::Boosted<false>>) {
    arcbeam::work<arcbeam::NewWordsSearch<arcbeam::Boosted<false>>, false>(params);
}

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_new_words_cluster, 512, 1, arcbeam::WithNewWords<arcbeam::Boosted<false>>) {
    arcbeam::work_in_clusters<arcbeam::NewWordsSearch<arcbeam::Boosted<false>>>(params);
}
