// A map from a key to its slot among those of the frame: open addressing, never cleared.
//
// Slots are numbered on from frame to frame, and an entry whose slot lies outside the current frame counts as
// empty. Key has operator== and hash().
#pragma once

#include <algorithm>
#include <cstdint>

#include "decode/buffer.hpp"
#include "decode/tokens.hpp"

namespace arcbeam::twin {

// A state of the graph as the key.
struct StateKey {
    std::uint32_t state;
    bool operator==(const StateKey& other) const { return state == other.state; }
    [[nodiscard]] std::uint32_t hash() const { return state * 0x9e3779b1U; }
};

template <typename Key>
class SlotTable {
  public:
    // Starts a frame that will hold about `expected` keys.
    void begin_frame(std::size_t expected) {
        first_slot_ += count_;
        count_ = 0;
        if (first_slot_ > 0x80000000U) {  // long before slot numbers wrap around
            first_slot_ = 0;
            entries_.fill(entries_.size(), Entry{Key{}, kEmpty});
        }
        set_size(std::max<std::size_t>(256, expected * 2));
    }

    void look_ahead(const Key& key) const { prefetch(&entries_[home(key)]); }

    // The slot of the key; a new key gets the next one.
    [[gnu::always_inline]] std::uint32_t find_or_add(const Key& key, bool& added) {
        if (count_ * std::size_t{2} >= size_) {
            rehash();
        }
        for (std::size_t i = home(key);; i = (i + 1) & (size_ - 1)) {
            Entry& entry = entries_[i];
            const std::uint32_t slot = entry.slot - first_slot_;
            if (slot >= count_) {
                entry = {key, first_slot_ + count_};
                added = true;
                return count_++;
            }
            if (entry.key == key) {
                added = false;
                return slot;
            }
        }
    }

  private:
    static constexpr std::uint32_t kEmpty = 0xffffffffU;

    struct Entry {
        Key key;
        std::uint32_t slot;
    };

    [[nodiscard]] std::size_t home(const Key& key) const { return key.hash() >> shift_; }

    void set_size(std::size_t at_least) {
        shift_ = 32;
        size_ = 1;
        while (size_ < at_least) {
            size_ *= 2;
            --shift_;
        }
        const std::size_t before = entries_.size();
        if (size_ > before) {
            entries_.resize(size_);
            std::fill(entries_.begin() + before, entries_.end(), Entry{Key{}, kEmpty});
        }
    }

    // Doubles the table within a frame. It clears only the part in use: an earlier frame may have left a larger
    // table.
    void rehash() {
        old_.clear();
        for (std::size_t i = 0; i < size_; ++i) {
            if (entries_[i].slot - first_slot_ < count_) {
                old_.add(entries_[i]);
            }
        }
        set_size(size_ * 2);
        std::fill(entries_.begin(), entries_.begin() + size_, Entry{Key{}, kEmpty});
        for (const Entry& entry : old_) {
            std::size_t i = home(entry.key);
            while (entries_[i].slot != kEmpty) {
                i = (i + 1) & (size_ - 1);
            }
            entries_[i] = entry;
        }
    }

    Buffer<Entry> entries_;
    Buffer<Entry> old_;
    std::size_t size_ = 0;
    unsigned shift_ = 32;
    std::uint32_t first_slot_ = 0;
    std::uint32_t count_ = 0;
};

}  // namespace arcbeam::twin
