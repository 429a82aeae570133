// The search kernel of boosted_rescore.cu with lattices.
#include "rescore/search.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_boosted_rescore_lattice_wide, 512, 1, arcbeam::BoostedRescoring<true>) {
    arcbeam::work<arcbeam::RescoringSearch<arcbeam::BoostedRescoring<true>>, false>(params);
}
