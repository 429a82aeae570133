// The search kernel of bucketed.cu with lattices. It has one entry, because each takes long to compile.
#include "rescore/search.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_bucketed_lattice_wide, 512, 1, arcbeam::InBuckets<true>) {
    arcbeam::work<arcbeam::RescoringSearch<arcbeam::InBuckets<true>>, false>(params);
}
