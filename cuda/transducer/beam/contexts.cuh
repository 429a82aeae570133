// Contexts of histories: those that count as one where hypotheses are merged although their older labels differ.
// Its twin is cpu_reference/transducer/beam/contexts.hpp.
//
// in    new histories, one of each thread, with their labels and the states of automata after them
// out   the number of each one's context: the first history that has it
// rule  two histories have one context if their last labels are equal, as many as the search compares, and the
// state
//       of each automaton; a history with fewer labels is alone
//
// Contexts are found in a table by a hash, and compared label by label.
#pragma once

#include "transducer/beam/copy_words.cuh"
#include "transducer/beam/lattice_memory.hpp"
#include "transducer/beam/utterance.cuh"

namespace arcbeam::transducer::beam {

class Contexts {
  public:
    ARCBEAM_DEVICE explicit Contexts(const LatticeParams& params) : params_(params) {}

    [[nodiscard]] ARCBEAM_DEVICE bool merges() const { return params_.merge_context > 0U; }

    // Of a history.
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t number(const Utterance& of, std::uint32_t node) const {
        return merges() ? simt::load(params_.memory.contexts + of.node_at(node)) : node;
    }

    // Numbers the history of each thread that has made one. A warp_sync must come before it and after it.
    ARCBEAM_DEVICE void add(const Utterance& of, bool is_new, std::uint32_t node) const {
        if (merges() && is_new) {
            simt::store(params_.memory.contexts + of.node_at(node), first_with(of, node));
        }
    }

    // Takes over those of the launch before; the table is empty. A warp_sync must come before it and after it.
    ARCBEAM_DEVICE void take_over(const Utterance& old, const Utterance& of) const {
        if (!merges()) {
            return;
        }
        const std::uint32_t nodes = simt::load(&of.state().nodes);
        for (std::uint32_t i = simt::warp_thread(); i < nodes; i += simt::kWarpSize) {
            const std::uint32_t first = simt::load(params_.before.contexts + old.node_at(i));
            simt::store(params_.memory.contexts + of.node_at(i), first);
            if (first == i && i != kRoot) {
                first_with(of, i);
            }
        }
    }

  private:
    // The first history with the context of one, which is that one if there has been none.
    ARCBEAM_DEVICE std::uint32_t first_with(const Utterance& of, std::uint32_t node) const {
        const std::uint32_t last = 2U * of.rooms().nodes - 1U;
        for (std::uint32_t entry = hash(of, node) & last;; entry = (entry + 1U) & last) {
            std::uint32_t* const at = params_.memory.firsts + of.table_at(entry);
            std::uint32_t there = simt::load_relaxed<simt::Scope::block>(at);
            there = there == 0U ? simt::atomic_cas(at, std::uint32_t{0}, node + 1U) : there;
            if (there == 0U || is_one(of, there - 1U, node)) {
                return there == 0U ? node : there - 1U;
            }
        }
    }

    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t hash(const Utterance& of, std::uint32_t node) const {
        constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15ULL;
        std::uint64_t mixed = 1U;
        for (std::uint32_t model = 0U; model < kBeamModels; ++model) {
            mixed = (mixed ^ state(of, node, model)) * kFactor;
            mixed ^= mixed >> 32U;
        }
        for (std::uint32_t i = 0U; i < params_.merge_context && node != kRoot; ++i) {
            const Piece one = simt::load(reinterpret_cast<const Piece*>(of.node(node)));
            mixed = (mixed ^ one.words[1]) * kFactor;
            mixed ^= mixed >> 32U;
            node = one.words[0];
        }
        return static_cast<std::uint32_t>(mixed);
    }

    // Whether two histories have one context.
    [[nodiscard]] ARCBEAM_DEVICE bool is_one(const Utterance& of, std::uint32_t a, std::uint32_t b) const {
        for (std::uint32_t model = 0U; model < kBeamModels; ++model) {
            if (state(of, a, model) != state(of, b, model)) {
                return false;
            }
        }
        for (std::uint32_t i = 0U; i < params_.merge_context && a != b; ++i) {
            const Piece of_a = simt::load(reinterpret_cast<const Piece*>(of.node(a)));
            const Piece of_b = simt::load(reinterpret_cast<const Piece*>(of.node(b)));
            if (of_a.words[1] != of_b.words[1]) {  // the first history has the blank, which no other has
                return false;
            }
            a = of_a.words[0];
            b = of_b.words[0];
        }
        return true;
    }

    [[nodiscard]] ARCBEAM_DEVICE static std::uint32_t state(const Utterance& of, std::uint32_t node,
                                                            std::uint32_t model) {
        return simt::load(&of.memory.fused[of.node_at(node)].states[model]);
    }

    const LatticeParams& params_;
};

}  // namespace arcbeam::transducer::beam
