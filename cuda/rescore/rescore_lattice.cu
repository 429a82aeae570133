// The search kernel of rescore.cu with lattices. It has one entry, so that all kernels compile in three minutes of
// a core.
#include "rescore/search.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_rescore_lattice_wide, 512, 1, arcbeam::Resident<true>) {
    arcbeam::work<arcbeam::RescoringSearch<arcbeam::Resident<true>>, false>(params);
}
