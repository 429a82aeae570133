// The one device layer. Kernels use these wrappers and no CUDA built-in, so that nvcc and the emulator compile the
// very same .cu files. CUDA bodies are in shared/simt/*.cuh, and the emulator's in tests/simt/emulator.hpp
// (-DARCBEAM_EMULATOR). shared/simt/derived.hpp has the functions that are derived from the wrappers for both.
//
// Rules for a kernel:
// * Data that more than one thread touches is read and written by load/store, an Array, the atomics, or the
//   acquire/release accesses. Under the emulator each of them is checked for bounds, alignment and races.
// * load/store (plain) are for data that barriers or acquire/release order. Nothing else orders plain data.
// Shuffles
//   and votes exchange values but order no memory; warp_sync, barriers and fences do.
// * A wrapper takes values of 1, 2, 4, 8 or 16 bytes at addresses aligned to that size.
// * Shared memory is dynamic only. Every thread of a block ends after the block's last barrier, not before.
// * Warp operations name their threads in a mask: all of these exist, none has ended, and all make the same call.
//   warp_mask() names every thread of the warp, also of a last warp that is not full.
// * No trap, no assert: a kernel reports a status word and returns.
//
// Costs obey the first rule: nvcc gets -fmad=false and g++ gets -ffp-contract=off; neither gets fast math.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "shared/portable.hpp"

namespace arcbeam::simt {

constexpr std::uint32_t kWarpSize = 32U;
constexpr std::uint32_t kAllThreads = 0xffffffffU;

// The threads that have to see an access. An access orders only threads that its scope includes, on both sides.
enum class Scope : std::uint8_t { block, cluster, device, system };

// Which other accesses an atomic access orders.
enum class Order : std::uint8_t { relaxed, acquire, release, acquire_release };

}  // namespace arcbeam::simt

#if defined(ARCBEAM_EMULATOR)
#include "emulator.hpp"
#else
#include "shared/simt/kernel.cuh"
// The following headers use the ones above.
#include "shared/simt/atomics.cuh"
#include "shared/simt/cluster.cuh"
#include "shared/simt/copy.cuh"
#include "shared/simt/matrix.cuh"
#include "shared/simt/memory.cuh"
#include "shared/simt/warp.cuh"
#endif
#include "shared/simt/derived.hpp"
