// The work of a block of a search with a large language model in a launch: the queue of utterances, and its lane.
#pragma once

#include "rescore/utterance.cuh"

namespace arcbeam {

// Takes the next utterance of the queue; false if there is none.
ARCBEAM_DEVICE bool take_utterance(const SearchParams& params, RescoringLane& lane) {
    if (simt::thread_rank() == 0U) {
        const std::uint32_t next = simt::atomic_add<Scope::device>(params.next_in_order, 1U);
        simt::store(&lane.control->utterance,
                    next < params.num_utterances ? simt::load_readonly(params.order + next) : kNoIndex);
    }
    if (simt::thread_rank() == 0U) {
        simt::store(&lane.words->of_helpers, LookupCounts{});  // left by an utterance that had a bad row
    }
    reset_rescoring_frame<BlockTeam>(lane);
    simt::block_barrier();
    const std::uint32_t utterance = simt::load(&lane.control->utterance);
    simt::block_barrier();
    lane.state.utterance = utterance;
    if (utterance == kNoIndex) {
        return false;
    }
    lane.lookups = LookupCounts{};
    begin_utterance(params, lane, utterance);
    return true;
}

template <bool kClusters>
ARCBEAM_DEVICE void work(const RescoringParams& params) {
    const SearchParams& search = params.search;
    RescoringLane lane;
    carve_rescoring_lane(search, simt::shared_memory(), lane);
    lane.tokens = room_for(lane, 0U, 0U);
    lane.histories = lane.shared_histories;
    lane.state = search.lanes[lane_number()];
    lane.state.need = Need::nothing;
    lane.counts = Counts{};
    if (kLanesAsk && simt::thread_rank() == 0U) {
        open_requests(params.views[lane_number()], *lane.words);
    }
    free_tables<BlockTeam>(lane.room);
    reset_rescoring_frame<BlockTeam>(lane);
    if (simt::thread_rank() == 0U) {
        simt::store(&lane.control->bad_column, kNoIndex);
        simt::store(&lane.control->smallest_acoustic, kNoCost);
        simt::store(&lane.control->leaving_arcs, std::uint64_t{0});
        simt::store(&lane.control->admitted, std::uint64_t{0});
        simt::store(&lane.words->of_helpers, LookupCounts{});
    }
    simt::block_barrier();
    const bool stopped = lane.state.utterance != kNoIndex;
    Need need = stopped ? resume_rescoring(params, lane) : Need::nothing;
    bool more = stopped || take_utterance(search, lane);
    while (more) {
        if (need == Need::nothing) {
            need = rescore_utterance<kClusters>(params, lane);
        }
        if (need != Need::nothing) {
            stop_rescoring<kClusters>(params, lane, need);
            break;
        }
        more = take_utterance(search, lane);
    }
    if constexpr (kClusters) {
        call(*lane.control, Task::leave);
    }
    if (simt::thread_rank() == 0U) {
        if (kLanesAsk) {
            close_requests(params, *lane.words);
        }
        search.lanes[lane_number()] = lane.state;
        simt::atomic_add<Scope::device>(search.resting_lanes, 1U);
    }
}

}  // namespace arcbeam
