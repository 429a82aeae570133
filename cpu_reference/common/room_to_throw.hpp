// A thread's first exception takes memory of the C++ runtime; where there is none, glibc ends the process.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <exception>

namespace arcbeam {

// Takes that memory now; a thread calls it when it begins. False if there is none: the thread must not throw then.
[[nodiscard]] inline bool has_room_to_throw() noexcept {
    constexpr std::size_t kRoom = 1U << 14U;         // several times what the runtime is about to take
    void* const volatile room = std::malloc(kRoom);  // volatile: else the compiler leaves the call out
    std::free(room);
    return room != nullptr && std::uncaught_exceptions() >= 0;
}

}  // namespace arcbeam
