// The search kernel with new words: as boosted_lattice.cu, for graphs with open slots. It also serves where no
// lattice is asked for, with the smallest one, so that there is one kernel for new words and not two.
#include "rescore/new_words.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_new_words_wide, 512, 1, arcbeam::WithNewWords<true>) {
    arcbeam::work<arcbeam::NewWordsSearch<true>, false>(params);
}
