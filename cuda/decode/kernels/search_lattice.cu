// The search kernel of search.cu with lattices, for whole utterances.
#include "decode/plain.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_search_lattice_wide, 512, 1, arcbeam::SearchParams) {
    arcbeam::work<arcbeam::PlainSearch<true, false>, false>(params);
}

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_search_lattice_dense, 256, 2, arcbeam::SearchParams) {
    arcbeam::work<arcbeam::PlainSearch<true, false>, false>(params);
}

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_search_lattice_cluster, 512, 1, arcbeam::SearchParams) {
    arcbeam::work_in_clusters<arcbeam::PlainSearch<true, false>>(params);
}
