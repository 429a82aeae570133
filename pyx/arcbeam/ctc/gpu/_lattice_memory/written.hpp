// Whether a lattice has been written, checked by the host while a kernel runs.
#pragma once

#include "arcbeam/ctc/gpu/models/_requests/shared_words.hpp"
#include "decode/lattice_room.hpp"

namespace arcbeam {

// Whether it lies in the pool, whole: then the host may read it.
inline bool is_written(const LatticeResult& result) { return host::load_acquire(result.written) != 0U; }

}  // namespace arcbeam
