// The search kernel of new_words.cu with a large language model, in either of its forms, as boosted_rescore.cu.
#include "rescore/new_words.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_new_words_rescore_wide, 512, 1,
                         arcbeam::WithNewWords<arcbeam::BoostedRescoring<false>>) {
    arcbeam::work<arcbeam::NewWordsSearch<arcbeam::BoostedRescoring<false>>, false>(params);
}
