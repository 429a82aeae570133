// An utterance in the memory of a launch. All of it belongs to one block, and what changes it is done by one warp.
#pragma once

#include <cmath>

#include "shared/simt.cuh"
#include "shared/transducer_beam.hpp"
#include "transducer/beam/beam_memory.hpp"
#include "transducer/lanes.cuh"

namespace arcbeam::transducer::beam {

ARCBEAM_DEVICE Hypothesis load_hypothesis(const Hypothesis* from) {
    const Piece first = simt::load(reinterpret_cast<const Piece*>(from));
    const Piece second = simt::load(reinterpret_cast<const Piece*>(from) + 1);
    return {first.words[0],  from_bits(first.words[1]), from_bits(first.words[2]),  first.words[3],
            second.words[0], second.words[1],           from_bits(second.words[2]), from_bits(second.words[3])};
}

ARCBEAM_DEVICE void store_hypothesis(Hypothesis* to, const Hypothesis& one) {
    simt::store(reinterpret_cast<Piece*>(to), Piece{{one.node, bits_of(one.score), bits_of(one.path), one.log}});
    simt::store(reinterpret_cast<Piece*>(to) + 1,
                Piece{{one.frame, one.duration, bits_of(one.log_prob), bits_of(one.confidence)}});
}

// The largest value of a warp's threads.
ARCBEAM_DEVICE float largest_of(float value) {
    for (std::uint32_t d = 1U; d < simt::kWarpSize; d *= 2U) {
        const float other = simt::shuffle_xor(simt::kAllThreads, value, d);
        value = other > value ? other : value;
    }
    return value;
}

struct Utterance {
    const LoopParams& loop;
    const BeamParams& beam;
    const Memory& memory;
    std::uint32_t lane;

    [[nodiscard]] ARCBEAM_DEVICE Lane& state() const { return memory.lanes[lane]; }
    [[nodiscard]] ARCBEAM_DEVICE const Rooms& rooms() const { return memory.rooms; }
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t most() const { return beam.sizes.hypotheses; }

    [[nodiscard]] ARCBEAM_DEVICE Hypothesis* live(std::uint32_t rank) const {
        return memory.live + static_cast<std::size_t>(lane) * most() + rank;
    }
    [[nodiscard]] ARCBEAM_DEVICE Label* log(std::uint32_t i) const {
        return memory.log + static_cast<std::size_t>(lane) * rooms().labels + i;
    }
    // The bucket of the labels that stay on their frame is number `frames`.
    [[nodiscard]] ARCBEAM_DEVICE Hypothesis* bucket(std::uint32_t number, std::uint32_t i) const {
        const std::size_t before = static_cast<std::size_t>(lane) * buckets_of(beam.sizes) + number;
        return memory.buckets + before * rooms().bucket + i;
    }
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t* count(std::uint32_t number) const {
        return memory.counts + static_cast<std::size_t>(lane) * buckets_of(beam.sizes) + number;
    }
    [[nodiscard]] ARCBEAM_DEVICE Node* node(std::uint32_t i) const { return memory.nodes + node_at(i); }
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t* place(std::uint32_t node, std::uint32_t bucket) const {
        return memory.places + node_at(node) * buckets_of(beam.sizes) + bucket;
    }
    [[nodiscard]] ARCBEAM_DEVICE std::uint64_t* best(std::uint32_t node) const {
        return memory.best + node_at(node);
    }
    [[nodiscard]] ARCBEAM_DEVICE std::size_t table_at(std::uint32_t i) const {
        return 2U * static_cast<std::size_t>(lane) * rooms().nodes + i;
    }
    [[nodiscard]] ARCBEAM_DEVICE std::size_t node_at(std::uint32_t i) const {
        return static_cast<std::size_t>(lane) * rooms().nodes + i;
    }
    [[nodiscard]] ARCBEAM_DEVICE std::size_t slot_at(std::uint32_t slot) const {
        return static_cast<std::size_t>(lane) * rooms().slots + slot;
    }
    [[nodiscard]] ARCBEAM_DEVICE RowSums* sums(std::uint32_t rank) const {
        return memory.sums + static_cast<std::size_t>(lane) * most() + rank;
    }
    [[nodiscard]] ARCBEAM_DEVICE float* durations(std::uint32_t rank) const {
        return memory.durations + (static_cast<std::size_t>(lane) * most() + rank) * beam.sizes.durations;
    }
    // The best labels of a row with a duration, as keys.
    [[nodiscard]] ARCBEAM_DEVICE std::uint64_t* best_labels(std::uint32_t rank, std::uint32_t duration) const {
        const std::size_t row = static_cast<std::size_t>(lane) * most() + rank;
        return memory.best_labels + (row * beam.sizes.durations + duration) * most();
    }
    // As found (0), and in order (1).
    [[nodiscard]] ARCBEAM_DEVICE Candidate* candidate(std::uint32_t in_order, std::uint32_t i) const {
        const std::size_t room = 2U * static_cast<std::size_t>(most()) * beam.sizes.durations;
        return memory.candidates + (2U * static_cast<std::size_t>(lane) + in_order) * room + i;
    }
    // The test of a live hypothesis on this frame.
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t* test(std::uint32_t rank) const {
        return memory.tests + static_cast<std::size_t>(lane) * most() + rank;
    }
    [[nodiscard]] ARCBEAM_DEVICE const float* logits_of(std::uint32_t test) const {
        return loop.logits + static_cast<std::size_t>(test) * loop.network.output.rows;
    }
    [[nodiscard]] ARCBEAM_DEVICE const float* logits(std::uint32_t rank) const {
        return logits_of(simt::load(test(rank)));
    }

    [[nodiscard]] ARCBEAM_DEVICE bool is_active() const {
        return simt::load(&state().frame) < simt::load(&state().frames);
    }
    // Its live hypotheses, if they have been tested in this round; else 0.
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t tested(std::uint32_t round) const {
        return simt::load(&state().round) == round ? simt::load(&state().tests) : 0U;
    }
    // Whether it is a chunk, which begins with a state and leaves one.
    [[nodiscard]] ARCBEAM_DEVICE bool is_stream() const { return beam.packed != nullptr; }

    // The bucket of a later frame.
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t bucket_of(std::uint32_t frame) const {
        return frame % beam.sizes.frames;
    }
};

}  // namespace arcbeam::transducer::beam
