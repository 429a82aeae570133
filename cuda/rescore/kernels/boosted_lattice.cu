// The search kernel of boosted.cu with lattices.
#include "rescore/search.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_boosted_lattice_wide, 512, 1, arcbeam::Boosted<true>) {
    arcbeam::work<arcbeam::RescoringSearch<arcbeam::Boosted<true>>, false>(params);
}
