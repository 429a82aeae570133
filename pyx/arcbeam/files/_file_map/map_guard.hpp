// A mapped file that shrinks must not end the process: what is gone reads as zeros, and the map counts as broken.
//
// Reading a page beyond the end of a mapped file raises SIGBUS. If the address lies in a guarded map, the handler
// puts zeros in the place of all of the map from that page on, and else leaves the signal to whoever handled it
// before. Zeros are harmless to a search (every state, arc and label of zeros exists), and who reads a map asks
// afterwards whether it is broken.
//
// There are as many guards as maps. A handler may neither wait for a lock nor allocate, so they lie in chunks that
// are linked and never freed: a chunk is complete before it is linked, and a place in it is used again.
#pragma once

#include <cstddef>

namespace arcbeam {

struct Guard;

// Guards the pages of [address, address + size) until it is released, which must come before they are unmapped.
// Throws std::bad_alloc.
Guard* guard_map(const void* address, std::size_t size);
bool is_broken(const Guard* guard);
void release_guard(Guard* guard);

}  // namespace arcbeam
