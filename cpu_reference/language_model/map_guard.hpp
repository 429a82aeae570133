// A mapped file that shrinks must not end the process: pages that are gone read as zeros, and the map counts as
// broken.
//
// Reading a page beyond the end of a mapped file raises SIGBUS. The handler puts a page of zeros in its place if
// the address lies in a guarded map, and else leaves the signal to whoever handled it before. Zeros are harmless to
// a search (every state, arc and label of zeros exists), and who reads a map asks afterwards whether it is broken.
#pragma once

#include <cstddef>
#include <cstdint>

namespace arcbeam {

constexpr std::size_t kMostGuards = 256;

// Guards [address, address + size); returns a handle, or kMostGuards if there is none left.
std::size_t guard_map(const void* address, std::size_t size);
bool is_broken(std::size_t handle);
void release_guard(std::size_t handle);

}  // namespace arcbeam
