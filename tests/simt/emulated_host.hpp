// The emulator's bodies of the host's side: what a thread of the host reads and writes while a kernel runs. Code of
// the host uses arcbeam/ctc/gpu/models/_requests/shared_words.hpp; tests also say what it does with plain accesses.
#pragma once

#include "runtime.hpp"
#include "shared/simt.cuh"

namespace arcbeam::host {

using emulator::Access;
using emulator::Agent;
using emulator::Site;

// Before a plain access of the host's thread, or of an engine that copies for it.
inline void will_read(const void* address, std::size_t bytes, Agent agent = Agent::thread,
                      Site site = Site::here()) {
    emulator::host_access(agent, Access::read, address, bytes, simt::Order::relaxed, site);
}
inline void will_write(const void* address, std::size_t bytes, Agent agent = Agent::thread,
                       Site site = Site::here()) {
    emulator::host_access(agent, Access::write, address, bytes, simt::Order::relaxed, site);
}

template <class T>
T load_relaxed(const T& word, Site site = Site::here()) {
    emulator::host_access(Agent::thread, Access::atomic_load, &word, sizeof word, simt::Order::relaxed, site);
    return word;
}
template <class T>
T load_acquire(const T& word, Site site = Site::here()) {
    emulator::host_access(Agent::thread, Access::atomic_load, &word, sizeof word, simt::Order::acquire, site);
    return word;
}
template <class T>
void store_relaxed(T& word, T value, Agent agent = Agent::thread, Site site = Site::here()) {
    emulator::host_access(agent, Access::atomic_store, &word, sizeof word, simt::Order::relaxed, site);
    word = value;
}
template <class T>
void store_release(T& word, T value, Agent agent = Agent::thread, Site site = Site::here()) {
    emulator::host_access(agent, Access::atomic_store, &word, sizeof word, simt::Order::release, site);
    word = value;
}

}  // namespace arcbeam::host
