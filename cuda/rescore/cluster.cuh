// A lane that has a whole cluster, as in decode/cluster.cuh: its first block owns it and rescores frames of few
// tokens alone; on a frame of many tokens all blocks work as one team.
#pragma once

#include "rescore/frame.cuh"

namespace arcbeam {

// The lane as any block of its cluster sees it; see shared_lane().
ARCBEAM_DEVICE RescoringLane shared_rescoring_lane(const SearchParams& params) {
    RescoringLane lane;
    carve_rescoring_lane(params, simt::shared_memory(), lane);
    const Array<float> own = lane.acoustic;
    const WarpRoom own_room = lane.warp_room;
    carve_rescoring_lane(params, simt::map_shared(simt::shared_memory(), 0U), lane);
    if (!ClusterTeam::owns_lane()) {
        for (std::uint32_t column = simt::thread_rank(); column < params.columns; column += simt::block_size()) {
            own[column] = static_cast<float>(lane.acoustic[column]);
        }
        simt::block_barrier();
    }
    lane.acoustic = own;
    lane.warp_room = own_room;
    return lane;
}

// A frame by all blocks of the cluster. They have met at a barrier since it was posted.
ARCBEAM_DEVICE TeamFrame rescoring_team_frame(const RescoringParams& params, Counts& counts,
                                              LookupCounts& lookups) {
    const SearchParams& search = params.search;
    RescoringLane lane = shared_rescoring_lane(search);
    const Posted& posted = lane.control->posted;
    lane.state = search.lanes[lane_number()];
    lane.utterance = search.utterances[simt::load(&posted.utterance)];
    lane.utterance.log_probs = simt::load(&posted.log_probs);
    lane.rows_end = simt::load(&posted.rows_end);
    lane.state.frame = simt::load(&posted.frame);
    lane.state.num_tokens = simt::load(&posted.num_tokens);
    lane.state.log_size = simt::load(&posted.log_size);
    lane.state.offset = 0.0;
    lane.state.started = 1U;
    lane.tokens = room_for(lane, lane.state.num_tokens, lane.state.frame);
    lane.histories = room_for_histories(lane, lane.state.num_tokens);
    lane.num_milestones = simt::load(&posted.num_milestones);
    lane.counts = counts;
    lane.lookups = lookups;
    lane.log_wanted = 0U;
    const FrameEnd end =
        advance_rescoring<ClusterTeam>(params, lane, simt::load(&posted.cutoff), simt::load(&posted.room));
    counts = lane.counts;
    lookups = lane.lookups;
    return {
        end, lane.state.num_tokens, lane.state.log_size, lane.log_wanted, lane.num_milestones, lane.state.offset};
}

// The owner's side of a frame by the team.
ARCBEAM_DEVICE FrameEnd rescore_together(const RescoringParams& params, RescoringLane& lane, float cut, Room room) {
    if (simt::thread_rank() == 0U) {
        Posted& posted = lane.control->posted;
        simt::store(&posted.task, Task::frame);
        simt::store(&posted.utterance, lane.state.utterance);
        simt::store(&posted.log_probs, lane.utterance.log_probs);
        simt::store(&posted.rows_end, lane.rows_end);
        simt::store(&posted.frame, lane.state.frame);
        simt::store(&posted.num_tokens, lane.state.num_tokens);
        simt::store(&posted.log_size, lane.state.log_size);
        simt::store(&posted.num_milestones, lane.num_milestones);
        simt::store(&posted.room, room);
        simt::store(&posted.cutoff, cut);
    }
    simt::cluster_barrier();
    Counts counts = lane.counts;
    LookupCounts lookups = lane.lookups;
    const TeamFrame done = rescoring_team_frame(params, counts, lookups);
    lane.counts = counts;
    lane.lookups = lookups;
    lane.log_wanted = done.log_wanted;
    if (done.end == FrameEnd::committed) {
        lane.state.num_tokens = done.num_tokens;
        lane.state.log_size = done.log_size;
        lane.state.tokens_seen += done.num_tokens;
        lane.state.offset += done.best;
        lane.num_milestones = done.num_milestones;
        lane.tokens = room_for(lane, done.num_tokens, lane.state.frame + 1U);
        lane.histories = room_for_histories(lane, done.num_tokens);
    }
    return done.end;
}

ARCBEAM_DEVICE LookupCounts warp_sums(const LookupCounts& counts) {
    return {simt::reduce_add(simt::kAllThreads, counts.lookups),
            simt::reduce_add(simt::kAllThreads, counts.distinct),
            simt::reduce_add(simt::kAllThreads, counts.misses), simt::reduce_add(simt::kAllThreads, counts.reads)};
}

// The loop of every block but the owner, until the owner lets it leave.
ARCBEAM_DEVICE void help_to_rescore(const RescoringParams& params) {
    unsigned char* const of_owner = simt::map_shared(simt::shared_memory(), 0U);
    auto& control = *reinterpret_cast<Control*>(of_owner);
    auto& words = *reinterpret_cast<RescoringControl*>(of_owner + kControlBytes);
    Counts counts;
    LookupCounts lookups;
    for (Task task = Task::frame; task != Task::leave;) {
        simt::cluster_barrier();
        task = simt::load(&control.posted.task);
        if (task == Task::frame) {
            rescoring_team_frame(params, counts, lookups);
        } else {
            add_counts<ClusterTeam>(control, counts);
            const LookupCounts sums = warp_sums(lookups);
            if (simt::warp_thread() == 0U) {
                simt::atomic_add<Scope::cluster>(&words.of_helpers.lookups, sums.lookups);
                simt::atomic_add<Scope::cluster>(&words.of_helpers.distinct, sums.distinct);
                simt::atomic_add<Scope::cluster>(&words.of_helpers.misses, sums.misses);
                simt::atomic_add<Scope::cluster>(&words.of_helpers.reads, sums.reads);
            }
            lookups = LookupCounts{};
            simt::cluster_barrier();
        }
    }
}

}  // namespace arcbeam
