// The emulator's bodies of the wrappers that touch memory. Use through shared/simt.cuh.
#pragma once

#include <utility>

#include "emulator.hpp"

namespace arcbeam::simt {

// ---- plain accesses

namespace detail {

template <class T>
T read(Access what, const T* address, emulator::Site site) {
    static_assert(std::is_trivially_copyable<T>::value, "only plain values move between threads");
    static_assert(sizeof(T) <= 16 && (sizeof(T) & (sizeof(T) - 1)) == 0, "1, 2, 4, 8 or 16 bytes");
    emulator::plain_access(what, address, sizeof(T), site);
    T value;
    std::memcpy(&value, address, sizeof value);
    return value;
}
template <class T>
void write(T* address, const T& value, emulator::Site site) {
    static_assert(std::is_trivially_copyable<T>::value, "only plain values move between threads");
    static_assert(sizeof(T) <= 16 && (sizeof(T) & (sizeof(T) - 1)) == 0, "1, 2, 4, 8 or 16 bytes");
    emulator::plain_access(Access::write, address, sizeof(T), site, &value);
    std::memcpy(static_cast<void*>(address), &value, sizeof value);
}

}  // namespace detail

template <class T>
T load(const T* address, ARCBEAM_SITE) {
    return detail::read(Access::read, address, site);
}
template <class T>
void store(T* address, std::remove_cv_t<T> value, ARCBEAM_SITE) {
    detail::write(address, value, site);
}
template <class T>
T load_readonly(const T* address, ARCBEAM_SITE) {
    return detail::read(Access::read_only, address, site);
}
template <class T>
T load_readonly_keep(const T* address, ARCBEAM_SITE) {
    return detail::read(Access::read_only, address, site);
}
template <class T>
T load_readonly_once(const T* address, ARCBEAM_SITE) {
    return detail::read(Access::read_only, address, site);
}
template <class T>
T load_streaming(const T* address, ARCBEAM_SITE) {
    return detail::read(Access::read, address, site);
}
template <class T>
void store_streaming(T* address, std::remove_cv_t<T> value, ARCBEAM_SITE) {
    detail::write(address, value, site);
}
inline void prefetch(const void* /*address*/) {}
inline void prefetch_keep(const void* /*address*/) {}

// a[i] is a plain access. It gives a reference that can only be read or written on the spot: `auto x = a[i]` keeps
// the value under CUDA and would keep the place here, so it does not compile when x is used.
template <class T>
class Element {
  public:
    Element(T* address, emulator::Site site) : address_(address), site_(site) {}
    Element(const Element&) = delete;
    operator std::remove_cv_t<T>() && { return detail::read(Access::read, address_, site_); }
    void operator=(std::remove_cv_t<T> value) && { detail::write(address_, value, site_); }
    void operator=(Element&& other) && { detail::write(address_, T(std::move(other)), site_); }
    template <class U>
    void operator+=(const U& value) && {
        change(value, [](auto a, auto b) { return a + b; });
    }
    template <class U>
    void operator-=(const U& value) && {
        change(value, [](auto a, auto b) { return a - b; });
    }
    template <class U>
    void operator|=(const U& value) && {
        change(value, [](auto a, auto b) { return a | b; });
    }

  private:
    template <class U, class Operation>
    void change(const U& value, Operation operation) {
        const T before = detail::read(Access::read, address_, site_);
        detail::write(address_, static_cast<T>(operation(before, value)), site_);
    }
    T* address_;
    emulator::Site site_;
};

// The index that carries its caller's line: an operator takes no argument of its own for it.
struct Index {
    std::uint32_t value;
    emulator::Site site;
    template <class I, class = std::enable_if_t<std::is_integral<I>::value>>
    Index(I index, emulator::Site caller = emulator::Site::here())
        : value(static_cast<std::uint32_t>(index)), site(caller) {
        if (index < I{} || static_cast<std::uint64_t>(index) > 0xffffffffU) value = 0xffffffffU;
    }
};

template <class T>
struct Array {
    T* data;
    std::uint32_t size;

    Element<T> operator[](Index index) const { return Element<T>(place(index, size), index.site); }
    T* at(Index index) const { return place(index, size); }

  private:
    T* place(Index index, std::uint32_t bound) const {
        if (index.value >= bound) {
            emulator::fail("index " + std::to_string(index.value) + " into an array of " + std::to_string(bound) +
                           " at " + index.site.text());
        }
        return data + index.value;
    }
};

// ---- accesses that may meet others

namespace detail {

template <class T>
void check_atomic() {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "4 or 8 bytes");
}
template <Scope scope, Order order, class T, class Operation>
T update(T* address, emulator::Site site, Operation operation) {
    check_atomic<T>();
    emulator::atomic_access(Access::atomic_update, address, sizeof(T), scope, order, site);
    const T before = *address;
    *address = operation(before);
    return before;
}

}  // namespace detail

template <Scope scope>
void fence(ARCBEAM_SITE) {
    emulator::fence(scope, site);
}

#define ARCBEAM_LOAD(function, order)                                                         \
    template <Scope scope = Scope::device, class T>                                           \
    T function(const T* address, ARCBEAM_SITE) {                                              \
        detail::check_atomic<T>();                                                            \
        emulator::atomic_access(Access::atomic_load, address, sizeof(T), scope, order, site); \
        return *address;                                                                      \
    }
#define ARCBEAM_STORE(function, order)                                                                 \
    template <Scope scope = Scope::device, class T>                                                    \
    void function(T* address, std::remove_cv_t<T> value, ARCBEAM_SITE) {                               \
        detail::check_atomic<T>();                                                                     \
        const std::remove_cv_t<T>* const stored = &value;                                              \
        emulator::atomic_access(Access::atomic_store, address, sizeof(T), scope, order, site, stored); \
        *address = value;                                                                              \
    }
ARCBEAM_LOAD(load_relaxed, Order::relaxed)
ARCBEAM_LOAD(load_acquire, Order::acquire)
ARCBEAM_STORE(store_relaxed, Order::relaxed)
ARCBEAM_STORE(store_release, Order::release)
#undef ARCBEAM_LOAD
#undef ARCBEAM_STORE

#define ARCBEAM_ATOMIC(function, result)                                                               \
    template <Scope scope = Scope::device, Order order = Order::relaxed, class T>                      \
    T function(T* address, std::remove_cv_t<T> value, ARCBEAM_SITE) {                                  \
        return detail::update<scope, order>(address, site, [value](T before) -> T { return result; }); \
    }
ARCBEAM_ATOMIC(atomic_add, static_cast<T>(before + value))
ARCBEAM_ATOMIC(atomic_min, value < before ? value : before)
ARCBEAM_ATOMIC(atomic_max, before < value ? value : before)
ARCBEAM_ATOMIC(atomic_or, before | value)
ARCBEAM_ATOMIC(atomic_and, before& value)
#undef ARCBEAM_ATOMIC

template <Scope scope = Scope::device, Order order = Order::relaxed, class T>
T atomic_exchange(T* address, std::remove_cv_t<T> value, ARCBEAM_SITE) {
    detail::check_atomic<T>();
    emulator::atomic_access(Access::exchange, address, sizeof(T), scope, order, site);
    return std::exchange(*address, value);
}

template <Scope scope = Scope::device, Order order = Order::relaxed, class T>
T atomic_cas(T* address, std::remove_cv_t<T> expected, std::remove_cv_t<T> value, ARCBEAM_SITE) {
    return detail::update<scope, order>(address, site,
                                        [=](T before) { return before == expected ? value : before; });
}

// ---- clusters, asynchronous copies

inline std::uint32_t cluster_rank() { return emulator::position.block % emulator::position.cluster_size; }
inline std::uint32_t cluster_size() { return emulator::position.cluster_size; }
inline void cluster_barrier_arrive(ARCBEAM_SITE) { emulator::cluster_arrive(site); }
inline void cluster_barrier_wait(ARCBEAM_SITE) { emulator::cluster_wait(site); }
inline void cluster_barrier(ARCBEAM_SITE) {
    emulator::cluster_arrive(site);
    emulator::cluster_wait(site);
}
template <class T>
T* map_shared(T* address, std::uint32_t rank, ARCBEAM_SITE) {
    return static_cast<T*>(emulator::map_shared(address, rank, site));
}

template <std::uint32_t bytes>
void copy_async(void* shared, const void* global, ARCBEAM_SITE) {
    static_assert(bytes == 4U || bytes == 8U || bytes == 16U, "4, 8 or 16 bytes");
    emulator::copy_async(shared, global, bytes, site);
}
inline void copy_commit() { emulator::copy_commit(); }
template <std::uint32_t groups>
void copy_wait(ARCBEAM_SITE) {
    emulator::copy_wait(groups, site);
}

}  // namespace arcbeam::simt
