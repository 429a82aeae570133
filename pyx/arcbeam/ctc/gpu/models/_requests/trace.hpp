// Records what threads have answered and when, for measurements.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace arcbeam::requests {

// The part of a round that a thread has answered. Times are those of the monotonic clock.
struct Span {
    std::int64_t began_ns;
    std::int64_t ended_ns;
    std::uint32_t thread;  // kWatch: from watch() to stop(), all rounds
    std::uint32_t lane;
    std::uint32_t round;
    std::uint32_t questions;
};

constexpr std::uint32_t kWatch = 0xffffffffU;

// Each thread has its own list.
class Trace {
  public:
    // Forgets all spans; from now on each list has at most `most` spans.
    void begin(std::size_t lists, std::size_t most) {
        lists_.assign(most == 0 ? 0 : lists, {});
        for (std::vector<Span>& list : lists_) {
            list.reserve(most);
        }
    }

    // Returns 0 if nothing is being recorded.
    [[nodiscard]] std::int64_t now() const {
        return lists_.empty() ? 0
                              : std::chrono::duration_cast<std::chrono::nanoseconds>(
                                    std::chrono::steady_clock::now().time_since_epoch())
                                    .count();
    }

    void add(std::size_t list, const Span& span) {
        if (!lists_.empty() && lists_[list].size() < lists_[list].capacity()) {
            lists_[list].push_back(span);
        }
    }

    [[nodiscard]] std::vector<Span> all() const {
        std::vector<Span> all;
        for (const std::vector<Span>& list : lists_) {
            all.insert(all.end(), list.begin(), list.end());
        }
        return all;
    }

  private:
    std::vector<std::vector<Span>> lists_;
};

}  // namespace arcbeam::requests
