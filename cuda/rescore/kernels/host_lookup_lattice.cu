// The search kernel of host_lookup.cu with lattices. It has one entry, because each takes long to compile.
#include "rescore/search.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_host_lookup_lattice_wide, 512, 1, arcbeam::HostLookup<true>) {
    arcbeam::work<arcbeam::RescoringSearch<arcbeam::HostLookup<true>>, false>(params);
}
