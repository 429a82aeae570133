// The search kernel of host_arcs.cu with lattices. It has one entry, because each takes long to compile.
#include "rescore/search.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_host_arcs_lattice_wide, 512, 1, arcbeam::HostArcs<true>) {
    arcbeam::work<arcbeam::RescoringSearch<arcbeam::HostArcs<true>>, false>(params);
}
