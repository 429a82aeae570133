// The search kernel of bucketed.cu with lattices. It has one entry, so that all kernels compile in three minutes of
// a core.
#include "rescore/search.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_bucketed_lattice_wide, 512, 1, arcbeam::InBuckets<true>) {
    arcbeam::work<arcbeam::RescoringSearch<arcbeam::InBuckets<true>>, false>(params);
}
