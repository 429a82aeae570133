// The search kernel of asking_arcs.cu with lattices. It has one entry, because each takes long to compile.
#include "rescore/search.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_asking_arcs_lattice_wide, 512, 1, arcbeam::AskingArcs<true>) {
    arcbeam::work<arcbeam::RescoringSearch<arcbeam::AskingArcs<true>>, false>(params);
}
