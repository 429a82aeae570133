// A 64-bit checksum of our own, for files: finds every change of a single byte and all but 2^-64 of other
// accidents. It is no defence against forgery; validate.hpp is.
//
// Blocks of 1 MiB are digested independently (so that threads may share the work), each by eight lanes of
//   lane = rotate(lane ^ word, 29) * odd constant
// which is one to one in lane and in word; the digests of the blocks are folded in order, with the length.
// The format depends on little-endian words, as all of the file does.
#pragma once

#include <cstdint>

namespace arcbeam {

std::uint64_t checksum(const unsigned char* bytes, std::uint64_t size, unsigned threads);

}  // namespace arcbeam
