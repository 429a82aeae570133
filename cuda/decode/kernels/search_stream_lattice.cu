// The search kernel of search.cu with lattices, for chunks of streams.
#include "decode/plain.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_search_stream_lattice_wide, 512, 1, arcbeam::SearchParams) {
    arcbeam::work<arcbeam::PlainSearch<true, true>, false>(params);
}

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_search_stream_lattice_dense, 256, 2, arcbeam::SearchParams) {
    arcbeam::work<arcbeam::PlainSearch<true, true>, false>(params);
}

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_search_stream_lattice_cluster, 512, 1, arcbeam::SearchParams) {
    arcbeam::work_in_clusters<arcbeam::PlainSearch<true, true>>(params);
}
