// The search kernel of boosted_asking.cu with lattices.
#include "rescore/new_words.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_boosted_asking_lattice_wide, 512, 1,
                         arcbeam::WithNewWords<arcbeam::BoostedAsking<true>>) {
    arcbeam::work<arcbeam::NewWordsSearch<arcbeam::BoostedAsking<true>>, false>(params);
}
