// CUDA bodies: atomic updates. Use through shared/simt.cuh.
#pragma once

#include "shared/simt/memory.cuh"

// These are built-ins rather than inline PTX: with built-ins the compiler recognises a pointer into shared memory
// and takes the faster instruction. They are relaxed; fences around them give the other orders, as the hardware
// does.
namespace arcbeam::simt {
namespace detail {

template <class T>
struct AtomicType {
    using type = T;
};
template <>
struct AtomicType<std::uint64_t> {
    using type = unsigned long long;  // the type that the built-ins use
};
template <class T>
using Atomic = typename AtomicType<T>::type;

template <class T>
ARCBEAM_DEVICE Atomic<T>* atomic_address(T* address) {
    return reinterpret_cast<Atomic<T>*>(address);
}

template <Scope scope, Order order>
ARCBEAM_DEVICE void before_atomic() {
    if constexpr (order == Order::release || order == Order::acquire_release) fence<scope>();
}
template <Scope scope, Order order>
ARCBEAM_DEVICE void after_atomic() {
    if constexpr (order == Order::acquire || order == Order::acquire_release) fence<scope>();
}

}  // namespace detail

// Each returns the old value. T is uint32, uint64 or int32. Cluster scope uses the device's, because there is no
// built-in for it. For 8 bytes it swaps and compares instead: the compiler turns the built-ins into a plain load
// and store where the address may be in another block's shared memory. `combined` is the new value, made from
// `found` and `operand`.
#define ARCBEAM_ATOMIC(function, builtin, combined)                                    \
    template <Scope scope = Scope::device, Order order = Order::relaxed, class T>      \
    ARCBEAM_DEVICE T function(T* address, std::remove_cv_t<T> value) {                 \
        detail::before_atomic<scope, order>();                                         \
        auto* const target = detail::atomic_address(address);                          \
        const auto operand = static_cast<detail::Atomic<T>>(value);                    \
        detail::Atomic<T> before;                                                      \
        if constexpr (scope == Scope::block) {                                         \
            before = builtin##_block(target, operand);                                 \
        } else if constexpr (scope == Scope::system) {                                 \
            before = builtin##_system(target, operand);                                \
        } else if constexpr (scope == Scope::cluster && sizeof(T) == 8U) {             \
            before = load_relaxed<Scope::cluster>(address);                            \
            for (bool done = false; !done;) {                                          \
                const detail::Atomic<T> found = before;                                \
                const detail::Atomic<T> updated = (combined);                          \
                before = updated == found ? found : atomicCAS(target, found, updated); \
                done = before == found;                                                \
            }                                                                          \
        } else {                                                                       \
            before = builtin(target, operand);                                         \
        }                                                                              \
        detail::after_atomic<scope, order>();                                          \
        return static_cast<T>(before);                                                 \
    }

ARCBEAM_ATOMIC(atomic_add, atomicAdd, found + operand)
ARCBEAM_ATOMIC(atomic_min, atomicMin, operand < found ? operand : found)
ARCBEAM_ATOMIC(atomic_max, atomicMax, found < operand ? operand : found)
ARCBEAM_ATOMIC(atomic_or, atomicOr, found | operand)
ARCBEAM_ATOMIC(atomic_and, atomicAnd, found& operand)
ARCBEAM_ATOMIC(atomic_exchange, atomicExch, operand)
#undef ARCBEAM_ATOMIC

// Writes `value` if `expected` is found; returns the value that was found.
template <Scope scope = Scope::device, Order order = Order::relaxed, class T>
ARCBEAM_DEVICE T atomic_cas(T* address, std::remove_cv_t<T> expected, std::remove_cv_t<T> value) {
    detail::before_atomic<scope, order>();
    auto* const target = detail::atomic_address(address);
    const auto compare = static_cast<detail::Atomic<T>>(expected);
    const auto operand = static_cast<detail::Atomic<T>>(value);
    detail::Atomic<T> before;
    if constexpr (scope == Scope::block) {
        before = atomicCAS_block(target, compare, operand);
    } else if constexpr (scope == Scope::system) {
        before = atomicCAS_system(target, compare, operand);
    } else {
        before = atomicCAS(target, compare, operand);
    }
    detail::after_atomic<scope, order>();
    return static_cast<T>(before);
}

}  // namespace arcbeam::simt
