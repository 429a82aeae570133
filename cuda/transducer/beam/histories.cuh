// The histories of an utterance: a tree in which equal sequences of labels are one node, and the predictions that
// are kept for some of them. Its twin is cpu_reference/transducer/beam/prefix_tree.hpp.
//
// A history gets its prediction when it is first tested; it is kept while the history or its parent is needed. One
// that comes back later is predicted again, to the same bytes.
#pragma once

#include "transducer/beam/utterance.cuh"

namespace arcbeam::transducer::beam {

struct Histories {
    const Utterance& of;

    ARCBEAM_DEVICE void store_node(std::uint32_t i, std::uint32_t parent, std::uint32_t token,
                                   std::uint32_t slot) const {
        simt::store(reinterpret_cast<Piece*>(of.node(i)), Piece{{parent, token, slot, 0U}});
    }

    // The history of each thread with one token more, where `wants`. No two threads want the same. A new one is
    // given to made(history). A warp_sync follows.
    template <class Made>
    ARCBEAM_DEVICE std::uint32_t child(bool wants, std::uint32_t parent, std::uint32_t token,
                                       const Made& made) const {
        std::uint32_t entry = 0U;
        const bool is_new = wants && !find(key_of(parent, token), entry);
        const std::uint32_t makers = simt::ballot(simt::kAllThreads, is_new);
        const std::uint32_t nodes = simt::load(&of.state().nodes);
        std::uint32_t found = kNowhere;
        if (is_new) {
            found = nodes + simt::place_in(makers);
            simt::store(of.memory.children + of.table_at(entry), found);
            store_node(found, parent, token, kNowhere);
            for (std::uint32_t b = 0U; b < buckets_of(of.beam.sizes); ++b) {
                simt::store(of.place(found, b), kNowhere);
            }
            made(found);
        } else if (wants) {
            found = simt::load(of.memory.children + of.table_at(entry));
        }
        simt::warp_sync(simt::kAllThreads);
        if (simt::warp_thread() == 0U) {
            simt::store(&of.state().nodes, nodes + simt::popcount(makers));
        }
        return found;
    }

    // Puts all histories into a table that is empty.
    ARCBEAM_DEVICE void fill_table() const {
        const std::uint32_t nodes = simt::load(&of.state().nodes);
        for (std::uint32_t i = 1U + simt::warp_thread(); i < nodes; i += simt::kWarpSize) {
            const Piece node = simt::load(reinterpret_cast<const Piece*>(of.node(i)));
            std::uint32_t entry = 0U;
            find(key_of(node.words[0], node.words[1]), entry);
            simt::store(of.memory.children + of.table_at(entry), i);
        }
    }

    // Frees the predictions that no hypothesis in a bucket or alive needs, and no child of one, unless
    // `with_children` is false.
    ARCBEAM_DEVICE void keep(std::uint32_t live, bool with_children) const {
        for (std::uint32_t i = simt::warp_thread(); i < live; i += simt::kWarpSize) {
            mark(simt::load(&of.live(i)->node));
        }
        for (std::uint32_t b = 0U; b < of.beam.sizes.frames; ++b) {
            const std::uint32_t count = simt::load(of.count(b));
            for (std::uint32_t i = simt::warp_thread(); i < count; i += simt::kWarpSize) {
                mark(simt::load(&of.bucket(b, i)->node));
            }
        }
        simt::warp_sync(simt::kAllThreads);
        const std::uint32_t slots = of.rooms().slots;
        for (std::uint32_t first = 0U; first < slots; first += simt::kWarpSize) {
            const std::uint32_t slot = first + simt::warp_thread();
            const std::uint32_t owner = slot < slots ? simt::load(of.memory.slots + of.slot_at(slot)) : 0U;
            bool is_needed = owner == 0U || is_marked(slot);
            if (!is_needed && with_children && owner != 1U + kRoot) {
                const std::uint32_t parents = slot_of(simt::load(&of.node(owner - 1U)->parent));
                is_needed = parents != kNowhere && is_marked(parents);
            }
            simt::warp_sync(simt::kAllThreads);  // the parent's slot is read before it is freed
            if (!is_needed) {
                simt::store(of.memory.slots + of.slot_at(slot), 0U);
                simt::store(&of.node(owner - 1U)->slot, kNowhere);
            }
            simt::warp_sync(simt::kAllThreads);
        }
        for (std::uint32_t slot = simt::warp_thread(); slot < slots; slot += simt::kWarpSize) {
            simt::store(of.memory.marks + of.slot_at(slot), 0U);
        }
        simt::warp_sync(simt::kAllThreads);
    }

    // Gives each thread that `wants` one a free slot, if there are enough for all.
    ARCBEAM_DEVICE bool take_slots(bool wants, std::uint32_t node, std::uint32_t& slot) const {
        const std::uint32_t takers = simt::ballot(simt::kAllThreads, wants);
        const std::uint32_t slots = of.rooms().slots;
        std::uint32_t found = 0U;  // free ones before `first`
        bool is_served = !wants;
        for (std::uint32_t first = 0U; first < slots && found < simt::popcount(takers); first += simt::kWarpSize) {
            const std::uint32_t at = first + simt::warp_thread();
            std::uint32_t free =
                simt::ballot(simt::kAllThreads, at < slots && simt::load(of.memory.slots + of.slot_at(at)) == 0U);
            const std::uint32_t there = simt::popcount(free);
            const std::uint32_t mine = simt::place_in(takers);
            if (!is_served && mine >= found && mine < found + there) {
                for (std::uint32_t skip = mine - found; skip > 0U; --skip) {
                    free &= free - 1U;
                }
                slot = first + simt::lowest_bit(free);
                is_served = true;
            }
            found += there;
        }
        if (!simt::all(simt::kAllThreads, is_served)) {
            return false;
        }
        simt::warp_sync(simt::kAllThreads);
        if (wants) {
            simt::store(of.memory.slots + of.slot_at(slot), node + 1U);
            simt::store(&of.node(node)->slot, slot);
        }
        simt::warp_sync(simt::kAllThreads);
        return true;
    }

    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t slot_of(std::uint32_t node) const {
        return simt::load(&of.node(node)->slot);
    }

  private:
    [[nodiscard]] ARCBEAM_DEVICE static std::uint64_t key_of(std::uint32_t parent, std::uint32_t token) {
        return (std::uint64_t{parent} << 32U | token) + 1U;
    }

    // The entry of a key in the table; if it is new, its place is taken, and the result is false.
    ARCBEAM_DEVICE bool find(std::uint64_t key, std::uint32_t& entry) const {
        const std::uint32_t last = 2U * of.rooms().nodes - 1U;
        entry = static_cast<std::uint32_t>(key * 0x9e3779b97f4a7c15ULL >> 32U) & last;
        for (;;) {  // at most half of the entries are taken
            std::uint64_t* const at = of.memory.keys + of.table_at(entry);
            std::uint64_t there = simt::load_relaxed<simt::Scope::block>(at);
            there = there == 0U ? simt::atomic_cas(at, std::uint64_t{0}, key) : there;
            if (there == 0U || there == key) {
                return there == key;
            }
            entry = (entry + 1U) & last;
        }
    }

    // What a hypothesis needs: its prediction, or that of its parent.
    ARCBEAM_DEVICE void mark(std::uint32_t node) const {
        const std::uint32_t own = slot_of(node);
        const std::uint32_t needed =
            own != kNowhere || node == kRoot ? own : slot_of(simt::load(&of.node(node)->parent));
        if (needed != kNowhere) {
            simt::atomic_or<simt::Scope::block>(of.memory.marks + of.slot_at(needed), 1U);
        }
    }

    [[nodiscard]] ARCBEAM_DEVICE bool is_marked(std::uint32_t slot) const {
        return simt::load(of.memory.marks + of.slot_at(slot)) != 0U;
    }
};

}  // namespace arcbeam::transducer::beam
