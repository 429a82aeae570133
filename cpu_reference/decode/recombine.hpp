// Stage recombine: admission, and one winner for each state.
//
// in   candidates, the bound
// out  frontier: for every state with a finite candidate within the bound, the smallest by (cost, arc id); every
// such
//      candidate with its slot also to `links` (lattice.hpp)
//
// StateTable maps a state to its slot in the frontier. It is never cleared: slots are numbered on from frame to
// frame, and an entry whose slot lies outside the current frame counts as empty.
#pragma once

#include <algorithm>

#include "decode/tokens.hpp"

namespace arcbeam::twin {

using Frontier = Buffer<Candidate>;

class StateTable {
  public:
    // Starts a frame that will hold about `expected` states.
    void begin_frame(std::size_t slots_of_last_frame, std::size_t expected) {
        first_slot_ += static_cast<std::uint32_t>(slots_of_last_frame);
        if (first_slot_ > 0x80000000U) {  // long before slot numbers wrap around
            first_slot_ = 0;
            entries_.fill(entries_.size(), Entry{0, 0xffffffffU});
        }
        set_size(std::max<std::size_t>(256, expected * 2));
    }

    void look_ahead(std::uint32_t state) const { prefetch(&entries_[home(state)]); }

    // The slot of the candidate's state in the frontier. A new state is added at its end, with the candidate as
    // winner.
    [[gnu::always_inline]] std::uint32_t find_or_add(const Candidate& candidate, Frontier& frontier, bool& added) {
        if (frontier.size() * 2 >= size_) {
            rehash(frontier);
        }
        const auto count = static_cast<std::uint32_t>(frontier.size());
        for (std::size_t i = home(candidate.state);; i = (i + 1) & (size_ - 1)) {
            Entry& entry = entries_[i];
            const std::uint32_t slot = entry.slot - first_slot_;
            if (slot >= count) {
                entry = {candidate.state, first_slot_ + count};
                frontier.add(candidate);
                added = true;
                return count;
            }
            if (entry.state == candidate.state) {
                added = false;
                return slot;
            }
        }
    }

  private:
    struct Entry {
        std::uint32_t state;
        std::uint32_t slot;
    };

    [[nodiscard]] std::size_t home(std::uint32_t state) const { return (state * 0x9e3779b1U) >> shift_; }

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
            std::fill(entries_.begin() + before, entries_.end(), Entry{0, 0xffffffffU});
        }
    }

    // Doubles the table within a frame. The slots get new numbers, so that every entry for the old size counts as
    // empty: probes would meet it.
    void rehash(const Frontier& frontier) {
        set_size(size_ * 2);
        const auto count = static_cast<std::uint32_t>(frontier.size());
        first_slot_ += count;
        for (std::uint32_t slot = 0; slot < count; ++slot) {
            std::size_t i = home(frontier[slot].state);
            while (entries_[i].slot - first_slot_ < count) {
                i = (i + 1) & (size_ - 1);
            }
            entries_[i] = {frontier[slot].state, first_slot_ + slot};
        }
    }

    Buffer<Entry> entries_;
    std::size_t size_ = 0;
    unsigned shift_ = 32;
    std::uint32_t first_slot_ = 0;
};

template <typename Links = NoLinks>
void recombine(const Buffer<Candidate>& candidates, float bound, StateTable& table, Frontier& frontier, Work& work,
               Links&& links = Links{}) {
    constexpr std::size_t kAhead = 8;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        if (i + kAhead < candidates.size()) {
            table.look_ahead(candidates[i + kAhead].state);
        }
        const Candidate& candidate = candidates[i];
        if (!admits(bound, candidate.cost)) {
            continue;
        }
        ++work.admitted;
        bool added;
        const std::uint32_t slot = table.find_or_add(candidate, frontier, added);
        links.add(candidate, slot);
        if (!added && wins(candidate.cost, candidate.arc, frontier[slot])) {
            frontier[slot] = candidate;
        }
    }
}

}  // namespace arcbeam::twin
