// A mapped file that shrinks must not end the process: lost parts read as zeros, and the map counts as broken.
//
// Reading a page beyond the end of a mapped file raises SIGBUS. If the address lies in a guarded map, the handler
// replaces the map from that page on by zeros; otherwise it leaves the signal to the previous handler. Zeros are
// harmless to a search (every state, arc and label with number zero exists), and the reader of a map checks
// afterwards whether it is broken.
//
// There are as many guards as maps. A handler may neither wait for a lock nor allocate memory, so guards lie in
// chunks that are linked and never freed. A chunk is complete before it is linked, and the places in it are reused.
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
