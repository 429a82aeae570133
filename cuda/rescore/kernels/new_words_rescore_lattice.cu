// The search kernel of new_words_rescore.cu with lattices.
#include "rescore/new_words.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_new_words_rescore_lattice_wide, 512, 1,
                         arcbeam::WithNewWords<arcbeam::BoostedRescoring<true>>) {
    arcbeam::work<arcbeam::NewWordsSearch<arcbeam::BoostedRescoring<true>>, false>(params);
}
