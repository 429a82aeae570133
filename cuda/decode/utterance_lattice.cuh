// The lattice of an utterance, or of a stream's sentence, as the loops of utterance.cuh see it: it makes room by
// pruning, and is written where the utterance ends. A stream whose sentence goes on keeps it.
#pragma once

#include "decode/stream_lattice.cuh"

namespace arcbeam {

ARCBEAM_DEVICE LatticeRoom lattice_room(const Lane& lane) {
    return {rooms_of_warps(lane.warp_room), lane.histogram};
}

template <class Search>
ARCBEAM_DEVICE LatticeLog log_of_lattice(const SearchParams& params, const Lane& lane) {
    return lattice_log(*params.lattice, lane.control->lattice, lane.state,
                       steps_before<Search>(params, lane.state.utterance));
}

// Writes the lattice, once the best end has been found; false if the pool is full. The memory of the tokens'
// milestones is used, so the path has been written before.
template <class Search>
ARCBEAM_DEVICE bool finish_lattice(const typename Search::Params& params, const typename Search::Lane& lane,
                                   bool reached_final) {
    const SearchParams& common = Search::common(params);
    const LaneState& state = lane.state;
    const float best = packed_cost(simt::load(&lane.control->best_end));
    const LatticeEnds ends{lane.tokens.milestone,
                           state.num_tokens,
                           state.log_size - state.num_tokens + simt::load(&lane.control->end_index),
                           state.alive != 0U,
                           reached_final,
                           state.offset + static_cast<double>(best),
                           state.frame};
    const std::uint32_t of_warps = (ends.n + simt::kWarpSize - 1U) / simt::kWarpSize * simt::kWarpSize;
    for (std::uint32_t i = simt::thread_rank(); i < of_warps; i += simt::block_size()) {
        const std::uint64_t end = Search::end_of(params, lane, i, i < ends.n, reached_final);
        if (i < ends.n) {
            const float extra = end_extra(packed_cost(end), best);
            ends.extras[i] = end != kNoPacked && stays(common.lattice->beam, extra) ? ordered(extra) : kNoCost;
        }
    }
    simt::block_barrier();
    return write_lattice(*common.lattice, state.utterance, log_of_lattice<Search>(common, lane), ends,
                         lattice_room(lane), &lane.control->best_end);
}

// Kernels for streams prune in two places, which share this.
ARCBEAM_DEVICE_NOINLINE Kept prune_lattice_apart(const LatticeLog log, const LatticeRoom room) {
    return prune_lattice(log, room);
}

// Prunes the lattice in mid-utterance. Its tokens have no milestone any more. A barrier must follow.
template <class Search>
ARCBEAM_DEVICE Kept prune_lattice_of(const SearchParams& params, Lane& lane) {
    const LatticeLog log = log_of_lattice<Search>(params, lane);
    const LatticeRoom room = lattice_room(lane);
    const Kept left = Search::kStreams ? prune_lattice_apart(log, room) : prune_lattice(log, room);
    if (simt::thread_rank() == 0U) {
        simt::store(&lane.control->lattice.num_links, left.links);
    }
    lane.state.log_size = left.entries;
    if (left.entries != 0U) {  // else the start state's closure has found no room, and nothing is marked
        lane.state.known = log.entry_marks.place(lane.state.known);
    }
    forget_milestones(lane);
    return left;
}

// Leaves the state of a stream whose sentence goes on; false if there is too little room for it. `settled`: the
// entry that is settled now. In the lane that of the chunk before counts until the state is left, for the path
// begins there.
template <class Search>
ARCBEAM_DEVICE bool keep_lattice(const typename Search::Params& params, typename Search::Lane& lane,
                                 std::uint32_t settled, const std::uint32_t* taken) {
    const SearchParams& common = Search::common(params);
    const StreamLinksView& view = common.lattice->streams[lane.state.utterance];
    std::uint32_t pruned = view.before == nullptr ? 0U : simt::load(&links_before(view).words->pruned);
    const std::uint32_t most =
        pruned < common.lattice->prune_above / 2U ? common.lattice->prune_above : 2U * pruned;
    if (lane.state.log_size + simt::load(&lane.control->lattice.num_links) > most) {
        const LatticeLog log = log_of_lattice<Search>(common, lane);
        const Kept left = prune_lattice_of<Search>(common, lane);
        settled = log.entry_marks.place(settled);
        pruned = left.entries + left.links;
        simt::block_barrier();
    }
    if (lane.state.num_tokens <= lane.shared_capacity) {
        Search::save_tokens(lane, lane.state.spill);
        simt::block_barrier();
    }
    // This sees to it that there is room for the entries, and so for their costs.
    return save_stream<Search>(params, lane.state, SettledLog{lane.state.log_size, 0U, settled, kNoIndex}, taken) &&
           save_links(view, log_of_lattice<Search>(common, lane), pruned);
}

// Where a sentence ends, its lattice; where it goes on, the state of its stream, and the lattice so far if the
// chunk requests it. Where it has ended before the chunk there is neither: the host reads only whether the
// chunk is refused.
template <class Search>
ARCBEAM_DEVICE Need finish_stream_with_lattice(const typename Search::Params& params, typename Search::Lane& lane,
                                               bool reached_final) {
    const SearchParams& common = Search::common(params);
    const StreamView& view = common.streams[lane.state.utterance];
    UtteranceResult* const result = common.results + lane.state.utterance;
    const std::uint32_t settled =
        settle_links(log_of_lattice<Search>(common, lane), lane.state.num_tokens, lane.state.known,
                     simt::load(&lane.control->end_index), result, &lane.control->selected);
    if (view.fired != kNoEndpoint) {
        return Need::nothing;
    }
    const bool goes_on = view.is_last == 0U && simt::load(&result->fired) == kNoEndpoint;
    if (goes_on && !keep_lattice<Search>(params, lane, settled, &result->taken)) {
        return kNeedsStreamRoom;
    }
    // Last, because the host takes a lattice as soon as it is written, and what follows might have to be done
    // again.
    if (goes_on && view.shows_lattice == 0U) {
        return Need::nothing;
    }
    return finish_lattice<Search>(params, lane, reached_final) ? Need::nothing : kNeedsLatticePool;
}

// Makes room in a log that is full, by pruning the lattice. Returns what has to grow; see make_room_in_log().
template <class Search>
ARCBEAM_DEVICE Need make_room_in_lattice(const SearchParams& params, Lane& lane) {
    const Kept left = prune_lattice_of<Search>(params, lane);
    simt::block_barrier();
    const std::uint32_t link_capacity = simt::load(&lane.control->lattice.link_capacity);
    const std::uint32_t room = lane.state.log_capacity - left.entries;
    const std::uint32_t link_room = link_capacity - left.links;
    if (room < lane.state.log_capacity / 2U || room < lane.log_needed) {
        return Need::log;
    }
    return link_room >= link_capacity / 2U && link_room >= lane.log_needed ? Need::nothing : kNeedsLinks;
}

}  // namespace arcbeam
