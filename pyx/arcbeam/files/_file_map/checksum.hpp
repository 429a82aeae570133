// A 64-bit checksum for arcbeam's files. It finds every change of a single byte and all but 2^-64 of other
// accidental changes. It is no protection against forgery; validate.hpp is.
//
// Blocks of 1 MiB are digested independently (so that threads may share the work), each by eight lanes of
//   lane = rotate(lane ^ word, 29) * odd constant
// This is one to one in lane and in word. The digests of the blocks are folded in order, with the length. The
// format depends on little-endian words, as the whole file does.
#pragma once

#include <cstdint>

namespace arcbeam {

std::uint64_t checksum(const unsigned char* bytes, std::uint64_t size, unsigned threads);

}  // namespace arcbeam
