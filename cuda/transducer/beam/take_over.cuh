// An utterance's arrays, taken over from the memory of the launch before, which had less room.
#pragma once

#include "transducer/beam/copy_words.cuh"
#include "transducer/beam/histories.cuh"
#include "transducer/beam/utterance.cuh"

namespace arcbeam::transducer::beam {

template <bool kFused>
ARCBEAM_DEVICE void take_over(const Utterance& old, const Utterance& of) {
    const Sizes& sizes = of.beam.sizes;
    const Lane& lane = of.state();
    copy_words(old.live(0U), of.live(0U), of.most());
    copy_words(old.log(0U), of.log(0U), simt::load(&lane.labels));
    for (std::uint32_t b = 0U; b < buckets_of(sizes); ++b) {
        copy_words(old.bucket(b, 0U), of.bucket(b, 0U), simt::load(old.count(b)));
    }
    copy_words(old.count(0U), of.count(0U), buckets_of(sizes));
    copy_words(old.node(0U), of.node(0U), simt::load(&lane.nodes));
    copy_words(old.place(0U, 0U), of.place(0U, 0U),
               static_cast<std::size_t>(simt::load(&lane.nodes)) * buckets_of(sizes));
    const std::size_t slots = old.rooms().slots;
    copy_words(old.memory.slots + old.slot_at(0U), of.memory.slots + of.slot_at(0U), slots);
    const std::size_t hidden_bytes =
        static_cast<std::size_t>(sizes.layers) * sizes.unit_stride * value_bytes(sizes.precision);
    copy_words(static_cast<const unsigned char*>(old.memory.hidden) + old.slot_at(0U) * hidden_bytes,
               static_cast<unsigned char*>(of.memory.hidden) + of.slot_at(0U) * hidden_bytes, slots * hidden_bytes);
    const std::size_t cells = static_cast<std::size_t>(sizes.layers) * sizes.unit_stride;
    copy_words(old.memory.cell + old.slot_at(0U) * cells, of.memory.cell + of.slot_at(0U) * cells, slots * cells);
    copy_words(old.memory.predictions + old.slot_at(0U) * sizes.joint_stride,
               of.memory.predictions + of.slot_at(0U) * sizes.joint_stride, slots * sizes.joint_stride);
    copy_words(old.memory.contexts + old.slot_at(0U) * sizes.context,
               of.memory.contexts + of.slot_at(0U) * sizes.context, slots * sizes.context);
    if constexpr (kFused) {
        copy_words(old.memory.fused + old.node_at(0U), of.memory.fused + of.node_at(0U), simt::load(&lane.nodes));
        const std::size_t parts = static_cast<std::size_t>(of.most()) * kParts;
        copy_words(old.memory.parts + old.lane * parts, of.memory.parts + of.lane * parts, parts);
        copy_words(old.memory.addends + old.slot_at(0U) * sizes.addends,
                   of.memory.addends + of.slot_at(0U) * sizes.addends, slots * sizes.addends);
        if (sizes.has_ilm != 0U) {
            copy_words(old.memory.ilm + old.slot_at(0U) * sizes.addends,
                       of.memory.ilm + of.slot_at(0U) * sizes.addends, slots * sizes.addends);
        }
    }
    simt::warp_sync(simt::kAllThreads);
    Histories{of}.fill_table();
    simt::warp_sync(simt::kAllThreads);
}

}  // namespace arcbeam::transducer::beam
