// The states of streams (law 12, streams): an utterance goes on from one, and leaves one at the end of its chunk.
// Their twin is cpu_reference/transducer/beam/lane_state.cpp.
//
// in    packed states, whose predictions are in the first slots
// out   packed: all that an utterance has. The host numbers it, and drops what leads to no hypothesis.
//
// A state lacks what follows from the rest: the prediction network's part of hidden layers, and what models add to
// the scores of labels. The loop computes these before its first round.
#pragma once

#include "transducer/beam/histories.cuh"
#include "transducer/beam/take_over.cuh"
#include "transducer/beam/utterance.cuh"

namespace arcbeam::transducer::beam {

class States {
  public:
    ARCBEAM_DEVICE explicit States(const Utterance& of) : of_(of) {}

    // Fills the arrays of an utterance, which have room, by one warp.
    ARCBEAM_DEVICE void restore() const {
        PackedLane* const from = packed_lane();
        const PackedArrays arrays =
            at(simt::load(&from->at), simt::load(&from->arrivals), simt::load(&from->lane.nodes),
               simt::load(&from->lane.labels), simt::load(&from->predictions));
        const std::uint32_t nodes = simt::load(&from->lane.nodes);
        const std::uint32_t predictions = simt::load(&from->predictions);
        copy_words(&from->lane, &of_.state(), 1U);
        copy_words(arrays.nodes, of_.node(0U), nodes);
        copy_words(arrays.log, of_.log(0U), simt::load(&from->lane.labels));
        if (of_.beam.sizes.addends > 0U) {
            copy_words(arrays.fused, of_.memory.fused + of_.node_at(0U), nodes);
        }
        for (std::uint32_t i = simt::warp_thread(); i < nodes * buckets_of(of_.beam.sizes); i += simt::kWarpSize) {
            simt::store(of_.place(0U, 0U) + i, kNowhere);
        }
        for (std::uint32_t i = simt::warp_thread(); i < predictions; i += simt::kWarpSize) {
            simt::store(of_.memory.slots + of_.slot_at(i), simt::load(arrays.owners + i) + 1U);
        }
        copy_words(arrays.contexts, contexts(0U), static_cast<std::size_t>(predictions) * of_.beam.sizes.context);
        copy_words(arrays.cell, cell(0U), static_cast<std::size_t>(predictions) * values());
        copy_words(arrays.hidden, hidden(0U), static_cast<std::size_t>(predictions) * hidden_bytes());
        simt::warp_sync(simt::kAllThreads);
        if (simt::warp_thread() == 0U) {
            simt::store(&of_.node(kRoot)->token, of_.loop.blank);  // with which a sentence begins
        }
        std::uint32_t before = 0U;
        for (std::uint32_t b = 0U; b < of_.beam.sizes.frames; ++b) {
            const std::uint32_t count = simt::load(arrays.counts + b);
            copy_words(arrays.arrivals + before, of_.bucket(b, 0U), count);
            for (std::uint32_t i = simt::warp_thread(); i < count; i += simt::kWarpSize) {
                simt::store(of_.place(simt::load(&arrays.arrivals[before + i].node), b), i);
            }
            if (simt::warp_thread() == 0U) {
                simt::store(of_.count(b), count);
            }
            before += count;
        }
        Histories{of_}.fill_table();
        simt::warp_sync(simt::kAllThreads);
    }

    // Packs what an utterance has at the end of its chunk, by one warp.
    ARCBEAM_DEVICE void leave() const {
        PackedLane* const to = packed_lane();
        Lane& lane = of_.state();
        copy_words(&lane, &to->lane, 1U);
        std::uint32_t arrivals = 0U;
        for (std::uint32_t b = 0U; b < of_.beam.sizes.frames; ++b) {
            arrivals += simt::load(of_.count(b));
        }
        std::uint32_t predictions = 0U;
        for (std::uint32_t first = 0U; first < of_.rooms().slots; first += simt::kWarpSize) {
            predictions +=
                simt::popcount(simt::ballot(simt::kAllThreads, owner(first + simt::warp_thread()) != 0U));
        }
        const std::uint32_t nodes = simt::load(&lane.nodes);
        const std::uint32_t labels = simt::load(&lane.labels);
        const bool is_good = simt::load(&lane.outcome) == LaneOutcome::decoded;
        const std::uint64_t bytes = at(0U, arrivals, nodes, labels, predictions).bytes;
        std::uint32_t piece = 0U;
        if (simt::warp_thread() == 0U) {
            if (is_good) {
                piece = simt::atomic_add(of_.beam.packed_pieces, static_cast<std::uint32_t>(bytes / 16U));
            }
            simt::store(&to->at, is_good ? first_byte() + 16U * std::uint64_t{piece} : 0U);
            simt::store(&to->arrivals, arrivals);
            simt::store(&to->predictions, predictions);
        }
        piece = simt::shuffle(simt::kAllThreads, piece, 0U);
        if (!is_good) {
            return;
        }
        const PackedArrays arrays =
            at(first_byte() + 16U * std::uint64_t{piece}, arrivals, nodes, labels, predictions);
        const std::uint32_t frame = simt::load(&lane.frames);
        std::uint32_t before = 0U;
        for (std::uint32_t k = 0U; k < of_.beam.sizes.frames; ++k) {
            const std::uint32_t bucket = of_.bucket_of(frame + k);
            const std::uint32_t count = simt::load(of_.count(bucket));
            copy_words(of_.bucket(bucket, 0U), arrays.arrivals + before, count);
            if (simt::warp_thread() == 0U) {
                simt::store(arrays.counts + k, count);
            }
            before += count;
        }
        copy_words(of_.node(0U), arrays.nodes, nodes);
        copy_words(of_.log(0U), arrays.log, labels);
        if (of_.beam.sizes.addends > 0U) {
            copy_words(of_.memory.fused + of_.node_at(0U), arrays.fused, nodes);
        }
        std::size_t number = 0U;
        for (std::uint32_t slot = 0U; slot < of_.rooms().slots; ++slot) {
            const std::uint32_t of_slot = owner(slot);
            if (of_slot == 0U) {
                continue;
            }
            if (simt::warp_thread() == 0U) {
                simt::store(arrays.owners + number, of_slot - 1U);
            }
            const std::size_t context = of_.beam.sizes.context;
            copy_words(contexts(slot), arrays.contexts + number * context, context);
            copy_words(cell(slot), arrays.cell + number * values(), values());
            copy_words(hidden(slot), arrays.hidden + number * hidden_bytes(), hidden_bytes());
            ++number;
        }
    }

  private:
    [[nodiscard]] ARCBEAM_DEVICE PackedLane* packed_lane() const {
        return reinterpret_cast<PackedLane*>(of_.beam.packed) + of_.lane;
    }

    // Where the arrays begin.
    [[nodiscard]] ARCBEAM_DEVICE std::uint64_t first_byte() const {
        return (std::uint64_t{of_.beam.sizes.lanes} * sizeof(PackedLane) + 15U) / 16U * 16U;
    }

    [[nodiscard]] ARCBEAM_DEVICE PackedArrays at(std::uint64_t byte, std::uint32_t arrivals, std::uint32_t nodes,
                                                 std::uint32_t labels, std::uint32_t predictions) const {
        const Sizes& sizes = of_.beam.sizes;
        const PackedSizes packed{sizes.frames,      sizes.addends > 0U ? 1U : 0U, of_.loop.network.num_layers,
                                 sizes.unit_stride, value_bytes(sizes.precision), sizes.context};
        return packed_arrays(of_.beam.packed + byte, packed, arrivals, nodes, labels, predictions);
    }

    // The history that has a slot, plus 1; 0 if none has it.
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t owner(std::uint32_t slot) const {
        return slot < of_.rooms().slots ? simt::load(of_.memory.slots + of_.slot_at(slot)) : 0U;
    }

    // Of an LSTM's state; a stateless network has none.
    [[nodiscard]] ARCBEAM_DEVICE std::size_t values() const {
        return static_cast<std::size_t>(of_.loop.network.num_layers) * of_.beam.sizes.unit_stride;
    }
    [[nodiscard]] ARCBEAM_DEVICE std::size_t hidden_bytes() const {
        return values() * value_bytes(of_.beam.sizes.precision);
    }
    [[nodiscard]] ARCBEAM_DEVICE std::int32_t* contexts(std::uint32_t slot) const {
        return of_.memory.contexts + of_.slot_at(slot) * of_.beam.sizes.context;
    }
    [[nodiscard]] ARCBEAM_DEVICE float* cell(std::uint32_t slot) const {
        return of_.memory.cell + of_.slot_at(slot) * of_.beam.sizes.layers * of_.beam.sizes.unit_stride;
    }
    [[nodiscard]] ARCBEAM_DEVICE unsigned char* hidden(std::uint32_t slot) const {
        const std::size_t row = of_.slot_at(slot) * of_.beam.sizes.layers * of_.beam.sizes.unit_stride;
        return static_cast<unsigned char*>(of_.memory.hidden) + row * value_bytes(of_.beam.sizes.precision);
    }

    const Utterance& of_;
};

// Calls, so that whole utterances pay nothing.
ARCBEAM_DEVICE_NOINLINE void restore_apart(const Utterance of) { States(of).restore(); }
ARCBEAM_DEVICE_NOINLINE void leave_apart(const Utterance of) { States(of).leave(); }

}  // namespace arcbeam::transducer::beam
