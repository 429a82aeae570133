// A lane that has a whole cluster. Its first block owns it and decodes frames of few tokens alone, in its own
// shared memory, while the other blocks wait. For a frame of many tokens the owner calls the others, and all work
// on it as one team, in the owner's shared memory or in global memory. control.posted is the work of
// the team.
//
//     owner    frame, frame, post |  frame by the team  |  frame, frame, ..., post |
//     others   wait               |  frame by the team  |  wait                    |     (| is a cluster barrier)
#pragma once

#include "decode/frame.cuh"

namespace arcbeam {

struct TeamFrame {
    FrameEnd end;
    std::uint32_t num_tokens;
    std::uint32_t log_size;
    std::uint32_t log_needed;
    std::uint32_t num_milestones;
    double best;  // the cost that the costs of the new tokens are relative to
};

ARCBEAM_DEVICE std::uint32_t lane_number() { return simt::block_rank() / simt::cluster_size(); }

// The lane as any block of its cluster sees it. Everything is the owner's except the acoustic costs, of which each
// block has a copy, and the memory that warps work in.
template <class Search>
ARCBEAM_DEVICE typename Search::Lane shared_lane(const SearchParams& params) {
    typename Search::Lane lane;
    Search::carve(params, simt::shared_memory(), lane);
    const Array<float> own = lane.acoustic;
    const WarpRoom own_room = lane.warp_room;
    Search::carve(params, simt::map_shared(simt::shared_memory(), 0U), lane);
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
template <class Search>
ARCBEAM_DEVICE TeamFrame make_team_frame(const typename Search::Params& params, typename Search::Counted& counted) {
    const SearchParams& common = Search::common(params);
    typename Search::Lane lane = shared_lane<Search>(common);
    const Posted& posted = lane.control->posted;
    lane.state = common.lanes[lane_number()];
    lane.state.utterance = simt::load(&posted.utterance);
    lane.utterance = common.utterances[simt::load(&posted.utterance)];
    lane.utterance.log_probs = simt::load(&posted.log_probs);
    lane.rows_end = simt::load(&posted.rows_end);
    lane.state.frame = simt::load(&posted.frame);
    lane.state.num_tokens = simt::load(&posted.num_tokens);
    lane.state.log_size = simt::load(&posted.log_size);
    lane.state.offset = 0.0;
    lane.state.started = 1U;
    Search::place_tokens(lane, lane.state.num_tokens, lane.state.frame);
    lane.num_milestones = simt::load(&posted.num_milestones);
    Search::set_counted(lane, counted);
    lane.log_needed = 0U;
    const FrameEnd end =
        Search::template advance<ClusterTeam>(params, lane, simt::load(&posted.cutoff), simt::load(&posted.room));
    counted = Search::counted(lane);
    return {
        end, lane.state.num_tokens, lane.state.log_size, lane.log_needed, lane.num_milestones, lane.state.offset};
}

// The owner's side of a frame by the team.
template <class Search>
ARCBEAM_DEVICE FrameEnd advance_together(const typename Search::Params& params, typename Search::Lane& lane,
                                         float cut, Room room) {
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
    typename Search::Counted counted = Search::counted(lane);
    const TeamFrame done = Search::team_frame(params, counted);
    Search::set_counted(lane, counted);
    lane.log_needed = done.log_needed;
    if (done.end == FrameEnd::committed) {
        lane.state.num_tokens = done.num_tokens;
        lane.state.log_size = done.log_size;
        lane.state.tokens_seen += done.num_tokens;
        lane.state.offset += done.best;
        lane.num_milestones = done.num_milestones;
        Search::place_tokens(lane, done.num_tokens, lane.state.frame + 1U);
    }
    return done.end;
}

ARCBEAM_DEVICE std::uint64_t warp_sum(std::uint64_t value) {
    for (std::uint32_t distance = simt::kWarpSize / 2U; distance != 0U; distance /= 2U) {
        value += simt::shuffle_xor(simt::kAllThreads, value, distance);
    }
    return value;
}

// Adds what the threads of a block have counted to the lane's sums.
template <class Team>
ARCBEAM_DEVICE void add_counts(Control& control, Counts& counts) {
    const std::uint64_t leaving_arcs = warp_sum(counts.leaving_arcs);
    const std::uint64_t admitted = warp_sum(counts.admitted);
    if (simt::warp_thread() == 0U) {
        simt::atomic_add<Team::kScope>(&control.leaving_arcs, leaving_arcs);
        simt::atomic_add<Team::kScope>(&control.admitted, admitted);
    }
    counts = Counts{};
}

// The owner has the others add their counts, and perhaps leave for good.
ARCBEAM_DEVICE void call(Control& control, Task task) {
    if (simt::thread_rank() == 0U) {
        simt::store(&control.posted.task, task);
    }
    simt::cluster_barrier();
    simt::cluster_barrier();
}

// The loop of every block but the owner, until the owner lets it leave.
template <class Search>
ARCBEAM_DEVICE void help(const typename Search::Params& params) {
    unsigned char* const of_owner = simt::map_shared(simt::shared_memory(), 0U);
    const Control& control = *reinterpret_cast<const Control*>(of_owner);
    typename Search::Counted counted;
    for (Task task = Task::frame; task != Task::leave;) {
        simt::cluster_barrier();
        task = simt::load(&control.posted.task);
        if (task == Task::frame) {
            Search::team_frame(params, counted);
        } else {
            Search::add_helpers_counts(of_owner, counted);
            simt::cluster_barrier();
        }
    }
}

}  // namespace arcbeam
