// The search kernel of new_words.cu with lattices.
#include "rescore/new_words.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_new_words_lattice_wide, 512, 1, arcbeam::WithNewWords<arcbeam::Boosted<true>>) {
    arcbeam::work<arcbeam::NewWordsSearch<arcbeam::Boosted<true>>, false>(params);
}
