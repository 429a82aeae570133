// The search kernel. Every block, or every cluster of blocks, has a lane and takes utterances from a queue, longest
// first, until none is left. It returns to the host when all is done, when a lane needs more room, when the last
// utterances should have a cluster each, or when log-probs have not come from the host in time. A later launch goes
// on where it stopped. Three entries differ in the shape of their launch:
//
// wide     few large blocks, one for each multiprocessor
// dense    smaller blocks, two for each multiprocessor, for more utterances than there are multiprocessors
// cluster  blocks as large as in wide, a cluster for each lane, for few utterances or hot ones
//
// launch  any number of lanes; blocks of any number of whole warps; shared_bytes() of dynamic shared memory
//
// The bytes of a result depend on none of these.
#include "decode/utterance.cuh"

namespace arcbeam {

// Takes the next utterance of the queue; false if there is none.
ARCBEAM_DEVICE bool take_utterance(const SearchParams& params, Lane& lane) {
    if (simt::thread_rank() == 0U) {
        const std::uint32_t next = simt::atomic_add<Scope::device>(params.next_in_order, 1U);
        simt::store(&lane.control->utterance,
                    next < params.num_utterances ? simt::load_readonly(params.order + next) : kNoIndex);
    }
    reset_frame<BlockTeam>(*lane.control);
    simt::block_barrier();
    const std::uint32_t utterance = simt::load(&lane.control->utterance);
    simt::block_barrier();
    lane.state.utterance = utterance;
    if (utterance == kNoIndex) {
        return false;
    }
    begin_utterance(params, lane, utterance);
    return true;
}

// The work that the block which owns a lane does in a launch.
template <bool kClusters>
ARCBEAM_DEVICE void work(const SearchParams& params) {
    Lane lane;
    carve_lane(params, simt::shared_memory(), lane);
    lane.tokens = room_for(lane, 0U, 0U);
    lane.state = params.lanes[lane_number()];
    lane.state.need = Need::nothing;
    lane.counts = Counts{};
    free_table<BlockTeam>(lane.shared_work);
    reset_frame<BlockTeam>(*lane.control);
    if (simt::thread_rank() == 0U) {
        simt::store(&lane.control->bad_column, kNoIndex);
        simt::store(&lane.control->smallest_acoustic, kNoCost);
        simt::store(&lane.control->leaving_arcs, std::uint64_t{0});
        simt::store(&lane.control->admitted, std::uint64_t{0});
    }
    simt::block_barrier();
    const bool stopped = lane.state.utterance != kNoIndex;
    bool ready = !stopped || resume_utterance(params, lane);
    bool more = stopped || take_utterance(params, lane);
    while (more) {
        const Need need = ready ? decode_utterance<kClusters>(params, lane) : Need::log_probs;
        if (need != Need::nothing) {
            stop<kClusters>(params, lane, need);
            break;
        }
        more = take_utterance(params, lane);
    }
    if constexpr (kClusters) {
        call(*lane.control, Task::leave);
    }
    if (simt::thread_rank() == 0U) {
        params.lanes[lane_number()] = lane.state;
        simt::atomic_add<Scope::device>(params.resting_lanes, 1U);
    }
}

}  // namespace arcbeam

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_search_wide, 512, 1, arcbeam::SearchParams) { arcbeam::work<false>(params); }

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_search_dense, 256, 2, arcbeam::SearchParams) { arcbeam::work<false>(params); }

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_search_cluster, 512, 1, arcbeam::SearchParams) {
    arcbeam::simt::cluster_barrier();  // before any block reads the shared memory of another
    if (arcbeam::ClusterTeam::owns_lane()) {
        arcbeam::work<true>(params);
    } else {
        arcbeam::help(params);
    }
}
