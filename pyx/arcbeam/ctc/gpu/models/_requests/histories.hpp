// KenLM's histories under numbers that all lanes share. Any thread can assign and find numbers without a lock.
//
// Room is made while no thread is in here; at other times nothing moves and nothing is freed. A table with open
// addressing finds the numbers: a slot has the upper half of a history's hash, and its number + 1. The thread that
// numbers a history also writes the history and its words, and then releases the slot. If two threads meet the same
// new history, the second one keeps its unused number for the next history, or wastes it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "arcbeam/ctc/gpu/models/_requests/pages.hpp"

namespace arcbeam::requests {

// KenLM's state: words, newest first; their back-off weights; the number of words, one byte.
struct StateLayout {
    std::size_t words;    // most words that a state of this model has
    std::size_t context;  // words that a state has room for
};

class Histories {
  public:
    static constexpr std::uint32_t kNone = 0xffffffffU;

    // `ranks[word]` is the place of a word in the order of words, where `word` is the model's number of it.
    Histories(const StateLayout& layout, const std::uint32_t* ranks)
        : layout_(layout), stride_((1 + 2 * layout.words + 7) / 8 * 8), ranks_(ranks) {}

    // A row has the number of words and their ranks, newest first, followed by zeros.
    [[nodiscard]] std::size_t words_a_row() const { return 1 + layout_.words; }

    // The memory that a history takes besides its row of words.
    [[nodiscard]] std::size_t bytes_each() const { return 4 * stride_ + kSlots * sizeof(std::uint64_t); }

    // All assigned numbers lie below it. Valid while no thread is in here.
    [[nodiscard]] std::size_t size() const { return std::min<std::size_t>(next_.load(), capacity_); }

    // Forgets all numbers except 0, which is that of `start`. From now on rows of words go to `words`, which has
    // room for `capacity` of them.
    void begin(const void* start, std::uint32_t* words, std::size_t capacity) {
        have(Pages<std::uint32_t>(capacity * stride_), Pages<std::uint64_t>(slots_for(capacity)), words, capacity);
        next_.store(0);
        std::uint32_t spare = kNone;
        number(start, hash(start), spare);
    }

    // Keeps the numbers and makes room for more.
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

    // Prefetches a history that is about to be read, or the slot that is about to be searched.
    void prefetch(std::uint32_t number) const { __builtin_prefetch(rows_.get() + number * stride_); }
    void prefetch_slot(std::uint64_t hash) const { __builtin_prefetch(slots_.get() + (hash & mask_)); }

    // Writes a history in KenLM's form.
    void read(std::uint32_t number, void* state) const {
        const std::uint32_t* const row = rows_.get() + number * stride_;
        auto* const bytes = static_cast<unsigned char*>(state);
        std::memcpy(bytes, row + 1, 4 * layout_.words);
        std::memcpy(bytes + 4 * layout_.context, row + 1 + layout_.words, 4 * layout_.words);
        bytes[8 * layout_.context] = static_cast<unsigned char>(row[0]);
    }

    // Equal states have equal hashes.
    [[nodiscard]] std::uint64_t hash(const void* state) const { return mixed(state, length(state)); }

    // The number of a state; a new one if it has none, kNone if there is no room. `spare`: kNone, or the number
    // that the last call has left there.
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
    // Slots of a history, at most: the table is a power of two that is at least twice the capacity
    static constexpr std::size_t kSlots = 4;

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
    std::size_t stride_;  // in 4-byte words: the number of words, the words, their back-off weights
    const std::uint32_t* ranks_;
    Pages<std::uint32_t> rows_;   // [capacity][stride]
    Pages<std::uint64_t> slots_;  // [mask + 1]
    std::size_t mask_ = 0;
    std::uint32_t* words_ = nullptr;  // [capacity][words_a_row]
    std::size_t capacity_ = 0;
    std::atomic<std::uint32_t> next_{0};
};

}  // namespace arcbeam::requests
