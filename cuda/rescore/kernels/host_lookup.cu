// The search kernel of rescore.cu for a large model that the host has: lanes send requests to the host, see
// requests.hpp.
#include "rescore/search.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_host_lookup_wide, 512, 1, arcbeam::HostLookup<false>) {
    arcbeam::work<arcbeam::RescoringSearch<arcbeam::HostLookup<false>>, false>(params);
}

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_host_lookup_dense, 256, 2, arcbeam::HostLookup<false>) {
    arcbeam::work<arcbeam::RescoringSearch<arcbeam::HostLookup<false>>, false>(params);
}
