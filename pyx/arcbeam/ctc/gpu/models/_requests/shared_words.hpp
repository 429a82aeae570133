// Words that the host and a running kernel both touch. The host reads and writes them through these functions
// alone, so that the emulator of tests/simt, which compiles this code with bodies of its own, sees what they order.
#pragma once

#if defined(ARCBEAM_EMULATOR)
#include <emulated_host.hpp>  // of tests/simt
#else

namespace arcbeam::host {

template <class T>
T load_relaxed(const T& word) {
    return __atomic_load_n(&word, __ATOMIC_RELAXED);
}
template <class T>
T load_acquire(const T& word) {
    return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}
template <class T>
void store_release(T& word, T value) {
    __atomic_store_n(&word, value, __ATOMIC_RELEASE);
}

}  // namespace arcbeam::host

#endif
