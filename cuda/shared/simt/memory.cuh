// CUDA bodies: plain, read-only, hinted and ordered loads and stores; fences. Use through shared/simt.cuh.
#pragma once

namespace arcbeam::simt {
namespace detail {

template <std::size_t bytes>
struct RawOf;
template <>
struct RawOf<1> {
    using type = unsigned char;
};
template <>
struct RawOf<2> {
    using type = unsigned short;
};
template <>
struct RawOf<4> {
    using type = unsigned int;
};
template <>
struct RawOf<8> {
    using type = unsigned long long;
};
template <>
struct RawOf<16> {
    using type = uint4;
};
// The machine type that moves a T in one access.
template <class T>
using Raw = typename RawOf<sizeof(T)>::type;

template <class T>
ARCBEAM_DEVICE const Raw<T>* raw(const T* address) {
    static_assert(std::is_trivially_copyable<T>::value, "only plain values move between threads");
    return reinterpret_cast<const Raw<T>*>(address);
}
template <class T>
ARCBEAM_DEVICE Raw<T>* raw(T* address) {
    static_assert(std::is_trivially_copyable<T>::value, "only plain values move between threads");
    return reinterpret_cast<Raw<T>*>(address);
}
template <class T>
ARCBEAM_DEVICE T from_raw(Raw<T> bits) {
    T value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
template <class T>
ARCBEAM_DEVICE Raw<T> to_raw(const T& value) {
    Raw<T> bits;
    std::memcpy(&bits, &value, sizeof value);
    return bits;
}

// The asm is not volatile, so the compiler may keep one policy for all loads.
ARCBEAM_DEVICE std::uint64_t evict_last_policy() {
    std::uint64_t policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
ARCBEAM_DEVICE std::uint64_t evict_first_policy() {
    std::uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

// Read-only data never changes while a kernel runs, so the compiler may move or merge these loads.
template <class T>
ARCBEAM_DEVICE T load_with_policy(const T* address, std::uint64_t policy) {
    const std::size_t global = __cvta_generic_to_global(address);
    Raw<T> bits;
    if constexpr (sizeof(T) == 2) {
        asm("ld.global.nc.L2::cache_hint.u16 %0, [%1], %2;" : "=h"(bits) : "l"(global), "l"(policy));
    } else if constexpr (sizeof(T) == 4) {
        asm("ld.global.nc.L2::cache_hint.u32 %0, [%1], %2;" : "=r"(bits) : "l"(global), "l"(policy));
    } else if constexpr (sizeof(T) == 8) {
        asm("ld.global.nc.L2::cache_hint.u64 %0, [%1], %2;" : "=l"(bits) : "l"(global), "l"(policy));
    } else {
        static_assert(sizeof(T) == 16, "2, 4, 8 or 16 bytes");
        asm("ld.global.nc.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
            : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
            : "l"(global), "l"(policy));
    }
    return from_raw<T>(bits);
}

}  // namespace detail

// Plain accesses, for data that barriers or acquire/release order.
template <class T>
ARCBEAM_DEVICE T load(const T* address) {
    return detail::from_raw<T>(*detail::raw(address));
}
template <class T>
ARCBEAM_DEVICE void store(T* address, std::remove_cv_t<T> value) {
    *detail::raw(address) = detail::to_raw(value);
}

// Loads from global memory that no thread writes while the kernel runs.
template <class T>
ARCBEAM_DEVICE T load_readonly(const T* address) {
    return detail::from_raw<T>(__ldg(detail::raw(address)));
}
// The same, with a hint to L2 to keep the line (graph columns that are read often) or to drop it first (read once).
template <class T>
ARCBEAM_DEVICE T load_readonly_keep(const T* address) {
    return detail::load_with_policy(address, detail::evict_last_policy());
}
template <class T>
ARCBEAM_DEVICE T load_readonly_once(const T* address) {
    return detail::load_with_policy(address, detail::evict_first_policy());
}

// Plain accesses to global memory that should not displace what L2 holds.
template <class T>
ARCBEAM_DEVICE T load_streaming(const T* address) {
    return detail::from_raw<T>(__ldcs(detail::raw(address)));
}
template <class T>
ARCBEAM_DEVICE void store_streaming(T* address, std::remove_cv_t<T> value) {
    __stcs(detail::raw(address), detail::to_raw(value));
}

ARCBEAM_DEVICE void prefetch(const void* address) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(address)));
}
ARCBEAM_DEVICE void prefetch_keep(const void* address) {
    asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(__cvta_generic_to_global(address)));
}

// Clusters exist from 9.0 on; before that, a cluster is one block.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define ARCBEAM_PTX_CLUSTER "cluster"
#else
#define ARCBEAM_PTX_CLUSTER "cta"
#endif

#define ARCBEAM_PTX_OF_SCOPE(statement)             \
    if constexpr (scope == Scope::block) {          \
        statement("cta");                           \
    } else if constexpr (scope == Scope::cluster) { \
        statement(ARCBEAM_PTX_CLUSTER);             \
    } else if constexpr (scope == Scope::device) {  \
        statement("gpu");                           \
    } else {                                        \
        statement("sys");                           \
    }

// Orders this thread's earlier accesses before its later ones, for all threads in scope; acquire and release in
// one.
template <Scope scope>
ARCBEAM_DEVICE void fence(){
#define ARCBEAM_STATEMENT(name) asm volatile("fence.acq_rel." name ";" ::: "memory")
    ARCBEAM_PTX_OF_SCOPE(ARCBEAM_STATEMENT)
#undef ARCBEAM_STATEMENT
}

// Single accesses of 4 or 8 bytes that may race with others. Relaxed ones order nothing else.
#define ARCBEAM_LOAD(function, order)                                    \
    template <Scope scope = Scope::device, class T>                      \
    ARCBEAM_DEVICE T function(const T* address) {                        \
        static_assert(sizeof(T) == 4 || sizeof(T) == 8, "4 or 8 bytes"); \
        detail::Raw<T> bits;                                             \
        if constexpr (sizeof(T) == 4) {                                  \
            ARCBEAM_PTX_OF_SCOPE(ARCBEAM_LOAD4_##order)                  \
        } else {                                                         \
            ARCBEAM_PTX_OF_SCOPE(ARCBEAM_LOAD8_##order)                  \
        }                                                                \
        return detail::from_raw<T>(bits);                                \
    }
#define ARCBEAM_LOAD_PTX(order, scope, type, letter) \
    asm volatile("ld." order "." scope "." type " %0, [%1];" : letter(bits) : "l"(address) : "memory")
#define ARCBEAM_LOAD4_relaxed(scope) ARCBEAM_LOAD_PTX("relaxed", scope, "u32", "=r")
#define ARCBEAM_LOAD8_relaxed(scope) ARCBEAM_LOAD_PTX("relaxed", scope, "u64", "=l")
#define ARCBEAM_LOAD4_acquire(scope) ARCBEAM_LOAD_PTX("acquire", scope, "u32", "=r")
#define ARCBEAM_LOAD8_acquire(scope) ARCBEAM_LOAD_PTX("acquire", scope, "u64", "=l")

#define ARCBEAM_STORE(function, order)                                    \
    template <Scope scope = Scope::device, class T>                       \
    ARCBEAM_DEVICE void function(T* address, std::remove_cv_t<T> value) { \
        static_assert(sizeof(T) == 4 || sizeof(T) == 8, "4 or 8 bytes");  \
        const detail::Raw<T> bits = detail::to_raw(value);                \
        if constexpr (sizeof(T) == 4) {                                   \
            ARCBEAM_PTX_OF_SCOPE(ARCBEAM_STORE4_##order)                  \
        } else {                                                          \
            ARCBEAM_PTX_OF_SCOPE(ARCBEAM_STORE8_##order)                  \
        }                                                                 \
    }
#define ARCBEAM_STORE_PTX(order, scope, type, letter) \
    asm volatile("st." order "." scope "." type " [%0], %1;" ::"l"(address), letter(bits) : "memory")
#define ARCBEAM_STORE4_relaxed(scope) ARCBEAM_STORE_PTX("relaxed", scope, "u32", "r")
#define ARCBEAM_STORE8_relaxed(scope) ARCBEAM_STORE_PTX("relaxed", scope, "u64", "l")
#define ARCBEAM_STORE4_release(scope) ARCBEAM_STORE_PTX("release", scope, "u32", "r")
#define ARCBEAM_STORE8_release(scope) ARCBEAM_STORE_PTX("release", scope, "u64", "l")

ARCBEAM_LOAD(load_relaxed, relaxed) ARCBEAM_LOAD(load_acquire, acquire) ARCBEAM_STORE(store_relaxed, relaxed)
    ARCBEAM_STORE(store_release, release)

    // A view of an array in shared or global memory: a[i] is a plain access.
    template <class T>
    struct Array {
    T* data;
    std::uint32_t size;

    ARCBEAM_DEVICE T& operator[](std::uint32_t index) const { return data[index]; }
    ARCBEAM_DEVICE T* at(std::uint32_t index) const { return data + index; }
};

}  // namespace arcbeam::simt
