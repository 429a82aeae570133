// The warps of the grid, which share work out among them.
#pragma once

#include "shared/simt.cuh"

namespace arcbeam::transducer {

// The number of this warp among those of the grid. Neighbours are in different blocks.
ARCBEAM_DEVICE std::uint32_t worker() { return simt::warp() * simt::grid_size() + simt::block_rank(); }
ARCBEAM_DEVICE std::uint32_t workers() { return simt::num_warps() * simt::grid_size(); }

// The same number, counted from the last warp: for work at the same time as tiles, which the first warps do.
ARCBEAM_DEVICE std::uint32_t worker_from_last() { return workers() - 1U - worker(); }

}  // namespace arcbeam::transducer
