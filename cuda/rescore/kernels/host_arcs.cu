// The search kernel of rescore.cu where the host has the arcs of the large model and its back-off weights: lanes
// request these from the host, see requests.hpp.
#include "rescore/search.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_host_arcs_wide, 512, 1, arcbeam::HostArcs<false>) {
    arcbeam::work<arcbeam::RescoringSearch<arcbeam::HostArcs<false>>, false>(params);
}

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_host_arcs_dense, 256, 2, arcbeam::HostArcs<false>) {
    arcbeam::work<arcbeam::RescoringSearch<arcbeam::HostArcs<false>>, false>(params);
}
