// The search kernel of asking.cu with lattices. It has one entry, because each takes long to compile.
#include "rescore/search.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_asking_lattice_wide, 512, 1, arcbeam::AskingModel<true>) {
    arcbeam::work<arcbeam::RescoringSearch<arcbeam::AskingModel<true>>, false>(params);
}
