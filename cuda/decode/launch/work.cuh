// What a block does in a launch: it takes utterances from the queue, longest first, for its lane. A Search defines
// what differs from search to search; plain.cuh has the simplest, and lists what one has to have.
#pragma once

#include "decode/utterance.cuh"

namespace arcbeam {

// Takes the next utterance of the queue; false if there is none.
template <class Search>
ARCBEAM_DEVICE bool take_utterance(const SearchParams& params, typename Search::Lane& lane) {
    if (simt::thread_rank() == 0U) {
        const std::uint32_t next = simt::atomic_add<Scope::device>(params.next_in_order, 1U);
        simt::store(&lane.control->utterance,
                    next < params.num_utterances ? simt::load_readonly(params.order + next) : kNoIndex);
        simt::store(&lane.control->smallest_acoustic, kNoCost);
    }
    Search::template reset_frame<BlockTeam>(lane);
    Search::forget_counts(lane);
    simt::block_barrier();
    const std::uint32_t utterance = simt::load(&lane.control->utterance);
    simt::block_barrier();
    lane.state.utterance = utterance;
    if (utterance == kNoIndex) {
        return false;
    }
    begin_utterance<Search>(params, lane, utterance);
    return true;
}

// The work of the block that owns a lane.
template <class Search, bool kClusters>
ARCBEAM_DEVICE void work(const typename Search::Params& params) {
    const SearchParams& common = Search::common(params);
    typename Search::Lane lane;
    Search::carve(common, simt::shared_memory(), lane);
    Search::place_tokens(lane, 0U, 0U);
    lane.state = common.lanes[lane_number()];
    lane.state.need = Need::nothing;
    lane.counts = Counts{};
    Search::forget_counts(lane);
    Search::open(params, lane);
    Search::free_shared_tables(lane);
    Search::template reset_frame<BlockTeam>(lane);
    if (simt::thread_rank() == 0U) {
        simt::store(&lane.control->bad_column, kNoIndex);
        simt::store(&lane.control->smallest_acoustic, kNoCost);
        simt::store(&lane.control->leaving_arcs, std::uint64_t{0});
        simt::store(&lane.control->admitted, std::uint64_t{0});
        if (Search::kLattices) {
            open_lattice(common.lattice->lanes[lane_number()], lane.control->lattice);
        }
    }
    simt::block_barrier();
    bool resumes = lane.state.utterance != kNoIndex;
    bool more = resumes || take_utterance<Search>(common, lane);
    bool checked = false;
    bool of_end = false;
    while (more) {
        Need need = Need::nothing;
        if (!checked && (resumes || of_streams<Search>(common))) {
            need = resume_utterance<Search>(params, lane);
            resumes = false;
        }
        if (need == Need::nothing) {
            need = decode_utterance<Search, kClusters>(params, lane, of_end);
        }
        checked = need == kEndpointChecked;
        if (checked) {
            continue;
        }
        if (need != Need::nothing) {
            stop<Search, kClusters>(params, lane, need);
            break;
        }
        more = take_utterance<Search>(common, lane);
    }
    if constexpr (kClusters) {
        call(*lane.control, Task::leave);
    }
    if (simt::thread_rank() == 0U) {
        Search::close(params, lane);
        common.lanes[lane_number()] = lane.state;
        if (Search::kLattices) {
            common.lattice->lanes[lane_number()].num_links = simt::load(&lane.control->lattice.num_links);
        }
        simt::atomic_add<Scope::device>(common.resting_lanes, 1U);
    }
}

// The work of every block of a launch in clusters.
template <class Search>
ARCBEAM_DEVICE void work_in_clusters(const typename Search::Params& params) {
    simt::cluster_barrier();  // before any block reads the shared memory of another
    if (ClusterTeam::owns_lane()) {
        work<Search, true>(params);
    } else {
        help<Search>(params);
    }
}

}  // namespace arcbeam
