// KenLM's histories under numbers that all lanes share, given and found by any thread without a lock.
//
// Room is made while no thread is here; in between nothing moves and nothing is freed. Numbers are found by a table
// of open addressing: a slot has the upper half of a history's hash, and its number + 1. Who numbers a history
// writes it and its words down, and then releases the slot. Of two threads that meet the same new history one comes
// second: it keeps its number for the next one, or wastes it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "arcbeam/ctc/gpu/_requests/pages.hpp"

namespace arcbeam::requests {

// KenLM's state: words, newest first; their back-off weights; how many, a byte.
struct StateLayout {
    std::size_t words;    // that a state of this model has at most
    std::size_t context;  // that it has room for
};

class Histories {
  public:
    static constexpr std::uint32_t kNone = 0xffffffffU;

    // `ranks[word]` is the place of a word in the order of words, by the model's number of it.
    Histories(const StateLayout& layout, const std::uint32_t* ranks)
        : layout_(layout), stride_((1 + 2 * layout.words + 7) / 8 * 8), ranks_(ranks) {}

    // Of a row of words: how many there are, and their ranks, newest first; zeros behind them.
    [[nodiscard]] std::size_t words_a_row() const { return 1 + layout_.words; }

    // What a history takes, beside its row of words.
    [[nodiscard]] std::size_t bytes_each() const { return 4 * stride_ + kSlots * sizeof(std::uint64_t); }

    // Numbers that are taken lie below it, while no thread is here.
    [[nodiscard]] std::size_t size() const { return std::min<std::size_t>(next_.load(), capacity_); }

    // Forgets all numbers but that of `start`, which is 0; rows of words go to `words` from now on, which has room
    // for so many.
    void begin(const void* start, std::uint32_t* words, std::size_t capacity) {
        have(Pages<std::uint32_t>(capacity * stride_), Pages<std::uint64_t>(slots_for(capacity)), words, capacity);
        next_.store(0);
        std::uint32_t spare = kNone;
        number(start, hash(start), spare);
    }

    // The same numbers, and room for more of them.
    void move(std::uint32_t* words, std::size_t capacity) {
        Pages<std::uint32_t> rows(capacity * stride_);
        Pages<std::uint64_t> slots(slots_for(capacity));
        std::copy(rows_.get(), rows_.get() + size() * stride_, rows.get());
        std::copy(words_, words_ + size() * words_a_row(), words);
        for (std::size_t i = 0; i <= mask_; ++i) {
            if (slots_[i] != 0) {
                const std::uint32_t* const row = rows_.get() + number_in(slots_[i]) * stride_;
                std::size_t at = mixed(row + 1, row[0]) & (slots_for(capacity) - 1);
                while (slots[at] != 0) {
                    at = (at + 1) & (slots_for(capacity) - 1);
                }
                slots[at] = slots_[i];
            }
        }
        next_.store(static_cast<std::uint32_t>(size()));
        have(std::move(rows), std::move(slots), words, capacity);
    }

    // What is about to be read, or looked for.
    void prefetch(std::uint32_t number) const { __builtin_prefetch(rows_.get() + number * stride_); }
    void prefetch_slot(std::uint64_t hash) const { __builtin_prefetch(slots_.get() + (hash & mask_)); }

    // A history as KenLM takes it.
    void read(std::uint32_t number, void* state) const {
        const std::uint32_t* const row = rows_.get() + number * stride_;
        auto* const bytes = static_cast<unsigned char*>(state);
        std::memcpy(bytes, row + 1, 4 * layout_.words);
        std::memcpy(bytes + 4 * layout_.context, row + 1 + layout_.words, 4 * layout_.words);
        bytes[8 * layout_.context] = static_cast<unsigned char>(row[0]);
    }

    // Equal states have equal ones.
    [[nodiscard]] std::uint64_t hash(const void* state) const { return mixed(state, length(state)); }

    // The number of a state, a new one if it has none; kNone if there is no room. `spare`: kNone, or what the call
    // before has left there.
    std::uint32_t number(const void* state, std::uint64_t hash, std::uint32_t& spare) {
        for (std::size_t at = hash & mask_;; at = (at + 1) & mask_) {
            std::uint64_t slot = __atomic_load_n(slots_.get() + at, __ATOMIC_ACQUIRE);
            if (slot == 0) {
                if (!have_spare(spare)) {
                    return kNone;
                }
                write(state, spare);
                const std::uint64_t mine = (hash >> 32U << 32U) | (spare + 1U);
                if (__atomic_compare_exchange_n(slots_.get() + at, &slot, mine, false, __ATOMIC_ACQ_REL,
                                                __ATOMIC_ACQUIRE)) {
                    const std::uint32_t taken = spare;
                    spare = kNone;
                    return taken;
                }
            }
            if (slot >> 32U == hash >> 32U && is_at(number_in(slot), state)) {
                return number_in(slot);
            }
        }
    }

  private:
    static constexpr std::size_t kSlots = 4;  // a history, at most: a power of two that is twice as many at least

    static std::size_t slots_for(std::size_t capacity) {
        std::size_t slots = 2;
        while (slots < 2 * capacity) {
            slots *= 2;
        }
        return slots;
    }

    static std::uint32_t number_in(std::uint64_t slot) { return static_cast<std::uint32_t>(slot) - 1U; }

    static std::uint64_t mixed(const void* words, std::size_t length) {
        std::uint64_t mixed = length;
        for (std::size_t i = 0; i < length; ++i) {
            std::uint32_t word;
            std::memcpy(&word, static_cast<const unsigned char*>(words) + 4 * i, sizeof word);
            mixed = (mixed ^ word) * 0x9e3779b97f4a7c15U;
            mixed ^= mixed >> 32U;
        }
        return mixed;
    }

    [[nodiscard]] std::size_t length(const void* state) const {
        return static_cast<const unsigned char*>(state)[8 * layout_.context];
    }

    [[nodiscard]] bool is_at(std::uint32_t number, const void* state) const {
        const std::uint32_t* const row = rows_.get() + number * stride_;
        return row[0] == length(state) && std::memcmp(row + 1, state, 4 * length(state)) == 0;
    }

    bool have_spare(std::uint32_t& spare) {
        if (spare != kNone) {
            return true;
        }
        if (next_.load(std::memory_order_relaxed) >= capacity_) {
            return false;
        }
        const std::uint32_t taken = next_.fetch_add(1, std::memory_order_relaxed);
        if (taken >= capacity_) {
            return false;
        }
        spare = taken;
        return true;
    }

    void write(const void* state, std::uint32_t number) {
        const auto* const bytes = static_cast<const unsigned char*>(state);
        std::uint32_t* const row = rows_.get() + number * stride_;
        std::uint32_t* const words = words_ + number * words_a_row();
        const std::size_t count = length(state);
        row[0] = static_cast<std::uint32_t>(count);
        std::memcpy(row + 1, bytes, 4 * count);
        std::memcpy(row + 1 + layout_.words, bytes + 4 * layout_.context, 4 * count);
        words[0] = row[0];
        for (std::size_t i = 0; i < layout_.words; ++i) {
            words[1 + i] = i < count ? ranks_[row[1 + i]] : 0U;
        }
    }

    void have(Pages<std::uint32_t> rows, Pages<std::uint64_t> slots, std::uint32_t* words, std::size_t capacity) {
        rows_ = std::move(rows);
        slots_ = std::move(slots);
        words_ = words;
        capacity_ = capacity;
        mask_ = slots_for(capacity) - 1;
    }

    StateLayout layout_;
    std::size_t stride_;  // 4-byte words: how many words, they, their back-off weights
    const std::uint32_t* ranks_;
    Pages<std::uint32_t> rows_;   // [capacity][stride]
    Pages<std::uint64_t> slots_;  // [mask + 1]
    std::size_t mask_ = 0;
    std::uint32_t* words_ = nullptr;  // [capacity][words_a_row]
    std::size_t capacity_ = 0;
    std::atomic<std::uint32_t> next_{0};
};

}  // namespace arcbeam::requests
