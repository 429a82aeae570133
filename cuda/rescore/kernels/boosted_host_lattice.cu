// The search kernel of boosted_host.cu with lattices.
#include "rescore/new_words.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_boosted_host_lattice_wide, 512, 1,
                         arcbeam::WithNewWords<arcbeam::BoostedHost<true>>) {
    arcbeam::work<arcbeam::NewWordsSearch<arcbeam::BoostedHost<true>>, false>(params);
}
