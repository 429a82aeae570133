// The search kernel of asking_arcs.cu with lattices. It has one entry, so that all kernels compile in three minutes
// of a core.
#include "rescore/search.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_asking_arcs_lattice_wide, 512, 1, arcbeam::AskingArcs<true>) {
    arcbeam::work<arcbeam::RescoringSearch<arcbeam::AskingArcs<true>>, false>(params);
}
