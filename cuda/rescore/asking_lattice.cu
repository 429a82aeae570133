// The search kernel of asking.cu with lattices. It has one entry, so that all kernels compile in three minutes of a
// core.
#include "rescore/search.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_asking_lattice_wide, 512, 1, arcbeam::AskingModel<true>) {
    arcbeam::work<arcbeam::RescoringSearch<arcbeam::AskingModel<true>>, false>(params);
}
