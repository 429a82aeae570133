// What each thread knows of the others' past: vector clocks. row(t)[u] is how much of thread u's past thread t has
// been told of. Agents of the host are threads, too, numbered after those of the kernel.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime.hpp"

namespace arcbeam::emulator {

using Clock = std::vector<std::uint32_t>;

// One access in the shadow of a 4-byte word.
struct Mark {
    std::uint16_t thread = 0;
    std::uint8_t bytes = 0;  // which of the four; 0: no access
    std::uint8_t scope = 0;  // of an atomic one
    std::uint32_t time = 0;  // the thread's own clock then
    Site site;
};

// Of an access of so many bytes the part that lies in the word at `word`, a bit each.
inline std::uint8_t bytes_within(std::uintptr_t word, std::uintptr_t address, std::uint32_t bytes) {
    const std::uintptr_t end = address + bytes;
    const std::uint32_t first = word < address ? static_cast<std::uint32_t>(address - word) : 0U;
    const std::uint32_t last = end < word + 4U ? static_cast<std::uint32_t>(end - word) : 4U;
    return static_cast<std::uint8_t>((1U << last) - (1U << first));
}

class Clocks {
  public:
    explicit Clocks(std::uint32_t num_threads)
        : num_threads_(num_threads), clocks_(std::size_t{num_threads} * num_threads, 0U) {
        for (std::uint32_t t = 0; t < num_threads; ++t) row(t)[t] = 1U;
    }

    // All of them leave knowing what each knew.
    void meet(const std::vector<std::uint32_t>& threads) {
        Clock told(num_threads_, 0U);
        for (const std::uint32_t t : threads) join(told.data(), row(t), num_threads_);
        for (const std::uint32_t t : threads) {
            std::copy(told.begin(), told.end(), row(t));
            ++row(t)[t];
        }
    }
    // Adds what the thread knows; it moves on.
    void tell(std::uint32_t thread, Clock& told) {
        join(told, row(thread), num_threads_);
        ++row(thread)[thread];
    }
    void hear(std::uint32_t thread, const Clock& told) {
        if (!told.empty()) join(row(thread), told.data(), num_threads_);
    }
    bool knows(std::uint32_t thread, std::uint32_t other) const { return row(thread)[other] != 0U; }

  protected:
    static void join(std::uint32_t* into, const std::uint32_t* from, std::uint32_t count) {
        for (std::uint32_t i = 0; i < count; ++i) into[i] = into[i] < from[i] ? from[i] : into[i];
    }
    static void join(Clock& into, const std::uint32_t* from, std::uint32_t count) {
        if (into.empty()) into.assign(count, 0U);
        join(into.data(), from, count);
    }
    std::uint32_t* row(std::uint32_t thread) { return &clocks_[std::size_t{thread} * num_threads_]; }
    const std::uint32_t* row(std::uint32_t thread) const { return &clocks_[std::size_t{thread} * num_threads_]; }
    bool before(const Mark& mark, std::uint32_t thread) const { return row(thread)[mark.thread] >= mark.time; }
    bool clashes(const Mark& mark, const Mark& now) const {
        return (mark.bytes & now.bytes) != 0U && !before(mark, now.thread);
    }

    std::uint32_t num_threads_;

  private:
    std::vector<std::uint32_t> clocks_;
};

}  // namespace arcbeam::emulator
