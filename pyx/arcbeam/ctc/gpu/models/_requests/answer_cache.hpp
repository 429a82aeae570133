// The answers of KenLM by (history's number, word), for all threads, without a lock. This cache may be far larger
// than the arc cache of a GPU, and a look-up reads one line of memory where KenLM reads several.
//
// A line has three answers and a count, which is odd while a thread writes. A reader that finds the count odd, or
// changed after reading, treats the answer as missing; a writer that finds it odd does not write. No answer depends
// on the cache.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "arcbeam/ctc/gpu/models/_requests/pages.hpp"
#include "shared/requests.hpp"

namespace arcbeam::requests {

class AnswerCache {
  public:
    static constexpr std::size_t kLineBytes = 64;

    AnswerCache() = default;
    explicit AnswerCache(std::size_t lines) : lines_(std::max<std::size_t>(1, lines)), memory_(lines_) {}

    void prefetch(const Question& question) const { __builtin_prefetch(line_of(question)); }

    bool find(const Question& question, Answer& answer) const {
        const Line& line = *line_of(question);
        const std::uint64_t count = load(line.count);
        const std::uint64_t key = key_of(question);
        if (count % 2U != 0) {
            return false;
        }
        for (const Entry& entry : line.entries) {
            if (load(entry.key) == key) {
                const std::uint64_t bits = load(entry.answer);
                std::memcpy(&answer, &bits, sizeof answer);
                return load(line.count) == count;
            }
        }
        return false;
    }

    // Writes over the oldest answer of its line.
    void keep(const Question& question, const Answer& answer) {
        Line& line = *line_of(question);
        std::uint64_t count = load(line.count);
        if (count % 2U != 0 || !__atomic_compare_exchange_n(&line.count, &count, count + 1, false, __ATOMIC_ACQ_REL,
                                                            __ATOMIC_RELAXED)) {
            return;
        }
        Entry& entry = line.entries[count / 2U % kEntries];
        std::uint64_t bits;
        std::memcpy(&bits, &answer, sizeof bits);
        __atomic_store_n(&entry.key, key_of(question), __ATOMIC_RELEASE);
        __atomic_store_n(&entry.answer, bits, __ATOMIC_RELEASE);
        __atomic_store_n(&line.count, count + 2, __ATOMIC_RELEASE);
    }

  private:
    static constexpr std::size_t kEntries = 3;

    struct Entry {
        std::uint64_t key;  // 0: none
        std::uint64_t answer;
    };
    struct alignas(kLineBytes) Line {
        std::uint64_t count;
        Entry entries[kEntries];
    };
    static_assert(sizeof(Line) == kLineBytes);

    static std::uint64_t load(const std::uint64_t& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }
    static std::uint64_t key_of(const Question& question) {
        return (std::uint64_t{question.state} + 1U) << 32U | question.label;  // there are fewer than 2^31 states
    }
    [[nodiscard]] Line* line_of(const Question& question) const {
        const std::uint64_t mixed = key_of(question) * 0x9e3779b97f4a7c15U;
        const std::uint64_t upper = ((mixed ^ mixed >> 29U) * 0xbf58476d1ce4e5b9U) >> 32U;
        return memory_.get() + (upper * lines_ >> 32U);
    }

    std::size_t lines_ = 0;
    Pages<Line> memory_;
};

}  // namespace arcbeam::requests
