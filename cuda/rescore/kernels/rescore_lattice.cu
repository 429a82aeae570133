// The search kernel of rescore.cu with lattices. It has one entry, because each takes long to compile.
#include "rescore/search.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_rescore_lattice_wide, 512, 1, arcbeam::Resident<true>) {
    arcbeam::work<arcbeam::RescoringSearch<arcbeam::Resident<true>>, false>(params);
}
