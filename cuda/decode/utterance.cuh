// An utterance from its first frame to its result; how a lane is put down and taken up again.
#pragma once

#include "decode/arrival.cuh"
#include "decode/backtrack.cuh"
#include "decode/cluster.cuh"
#include "decode/collect.cuh"

namespace arcbeam {

ARCBEAM_DEVICE void copy_tokens(const Tokens& from, const Tokens& to, std::uint32_t n) {
    for (std::uint32_t i = simt::thread_rank(); i < n; i += simt::block_size()) {
        to.state[i] = static_cast<std::uint32_t>(from.state[i]);
        to.cost[i] = static_cast<float>(from.cost[i]);
        to.first_emitting[i] = static_cast<std::uint32_t>(from.first_emitting[i]);
        to.arcs_end[i] = static_cast<std::uint32_t>(from.arcs_end[i]);
        to.smallest_weight[i] = static_cast<float>(from.smallest_weight[i]);
    }
}

// Moves what was counted in this utterance, by the whole cluster, to the lane's state. A barrier must follow.
template <bool kClusters>
ARCBEAM_DEVICE void collect_counts(Lane& lane) {
    Control& control = *lane.control;
    add_counts<BlockTeam>(control, lane.counts);
    if constexpr (kClusters) {
        call(control, Task::counts);
    }
    simt::block_barrier();
    lane.state.leaving_arcs += simt::load(&control.leaving_arcs);
    lane.state.admitted += simt::load(&control.admitted);
    simt::block_barrier();
    if (simt::thread_rank() == 0U) {
        simt::store(&control.leaving_arcs, std::uint64_t{0});
        simt::store(&control.admitted, std::uint64_t{0});
    }
}

// Puts the lane down until the host has made room, sent more log-probs, or given it a cluster.
template <bool kClusters>
ARCBEAM_DEVICE void stop(Lane& lane, Need need) {
    if (lane.tokens.state.data == lane.shared_tokens.state.data) {
        copy_tokens(lane.tokens, spilled_tokens(lane.state.spill), lane.state.num_tokens);
    }
    collect_counts<kClusters>(lane);
    lane.state.need = need;
}

ARCBEAM_DEVICE void begin_utterance(const SearchParams& params, Lane& lane, std::uint32_t utterance) {
    lane.state.utterance = utterance;
    lane.state.frame = 0U;
    lane.state.started = 0U;
    lane.state.alive = 1U;
    lane.state.num_tokens = 0U;
    lane.state.log_size = 0U;
    lane.state.offset = 0.0;
    lane.state.tokens_seen = 0U;
    lane.state.leaving_arcs = 0U;
    lane.state.admitted = 0U;
    lane.counts = Counts{};
    lane.num_milestones = 0U;
    open_utterance(params, lane);
}

// Takes up a lane that stopped: its tokens wait in the spill. False if the log-probs of its frame are not there.
ARCBEAM_DEVICE bool resume_utterance(const SearchParams& params, Lane& lane) {
    open_utterance(params, lane);
    lane.counts = Counts{};
    lane.tokens = room_for(lane, lane.state.num_tokens, lane.state.frame);
    forget_milestones(lane);
    if (lane.tokens.state.data == lane.shared_tokens.state.data) {
        copy_tokens(spilled_tokens(lane.state.spill), lane.tokens, lane.state.num_tokens);
    }
    if (lane.state.frame < lane.utterance.frames) {
        if (!have_row(params, lane, lane.state.frame)) {
            return false;
        }
        load_acoustic(params, lane.utterance, lane.state.frame, lane.acoustic, *lane.control);
    }
    simt::block_barrier();
    return true;
}

template <bool kClusters>
ARCBEAM_DEVICE FrameEnd one_frame(const SearchParams& params, Lane& lane, bool in_shared, const Workspace& work) {
    const float cut =
        cutoff(lane.tokens, lane.state.num_tokens, params.beam, params.max_active, lane.histogram, *lane.control);
    if constexpr (kClusters) {
        if (lane.state.started != 0U && lane.state.num_tokens >= params.team_tokens) {
            return advance_together(params, lane, cut, in_shared);
        }
    }
    return advance<BlockTeam>(params, lane, cut, work);
}

// One frame, in shared memory if it fits, else in the spill.
template <bool kClusters>
ARCBEAM_DEVICE FrameEnd one_frame_anywhere(const SearchParams& params, Lane& lane) {
    FrameEnd end = FrameEnd::no_room;
    if (lane.state.num_tokens <= lane.shared_tokens.state.size) {
        end = one_frame<kClusters>(params, lane, true, lane.shared_work);
    }
    if (end == FrameEnd::no_room) {
        end = one_frame<kClusters>(params, lane, false, spilled_workspace(lane.state.spill));
    }
    return end;
}

// Whether the utterance had better go on in a cluster: it is hot, and few lanes are left at work.
ARCBEAM_DEVICE bool wants_cluster(const SearchParams& params, const Lane& lane) {
    if (params.hot_lanes == 0U || lane.state.num_tokens < params.hot_tokens) {
        return false;
    }
    if (simt::thread_rank() == 0U) {
        const bool queue_is_empty =
            simt::load_relaxed<Scope::device>(params.next_in_order) >= params.num_utterances;
        const std::uint32_t at_work = simt::grid_size() - simt::load_relaxed<Scope::device>(params.resting_lanes);
        simt::store(&lane.control->stop, queue_is_empty && at_work <= params.hot_lanes ? 1U : 0U);
    }
    simt::block_barrier();
    const bool wanted = simt::load(&lane.control->stop) != 0U;
    simt::block_barrier();
    return wanted;
}

template <bool kClusters>
ARCBEAM_DEVICE void report_bad_row(const SearchParams& params, Lane& lane, std::uint32_t frame) {
    collect_counts<kClusters>(lane);  // or they would be the next utterance's
    if (simt::thread_rank() == 0U) {
        UtteranceResult& result = params.results[lane.state.utterance];
        result.outcome = Outcome::bad_log_prob;
        result.bad_frame = frame;
        result.bad_column = simt::load(&lane.control->bad_column);
        result.bad_value = log_prob(lane.utterance, frame, result.bad_column);
        simt::store(&lane.control->bad_column, kNoIndex);
    }
    simt::block_barrier();
}

enum class Rows : std::uint32_t { good, bad, missing };

// The rows after the death of a search are checked all the same.
template <bool kClusters>
ARCBEAM_DEVICE Rows check_rows(const SearchParams& params, Lane& lane, std::uint32_t first) {
    for (std::uint32_t frame = first; frame < lane.utterance.frames; ++frame) {
        if (!have_row(params, lane, frame)) {
            return Rows::missing;
        }
        load_acoustic(params, lane.utterance, frame, lane.acoustic, *lane.control);
        simt::block_barrier();
        const bool bad = simt::load(&lane.control->bad_column) != kNoIndex;
        simt::block_barrier();
        if (bad) {
            report_bad_row<kClusters>(params, lane, frame);
            return Rows::bad;
        }
    }
    return Rows::good;
}

// Writes the result; false if the path pool is full.
template <bool kClusters>
ARCBEAM_DEVICE bool finish_utterance(const SearchParams& params, Lane& lane) {
    Control& control = *lane.control;
    const bool final_reached =
        best_end(params.graph, lane.tokens, lane.state.num_tokens, lane.state.alive != 0U, control);
    if (!write_path(params, lane)) {
        return false;
    }
    collect_counts<kClusters>(lane);
    if (simt::thread_rank() == 0U) {
        const std::uint64_t best = simt::load(&control.best_end);
        UtteranceResult& result = params.results[lane.state.utterance];
        result.total_cost = lane.state.offset + static_cast<double>(packed_cost(best));
        result.end_state = packed_arc(best);
        result.reached_final = final_reached ? 1U : 0U;
        result.outcome = Outcome::decoded;
        result.frames = lane.state.frame;
        result.tokens = lane.state.tokens_seen;
        result.leaving_arcs = lane.state.leaving_arcs;
        result.admitted = lane.state.admitted;
    }
    simt::block_barrier();
    return true;
}

// Decodes the lane's utterance to its end; says what it lacks if it cannot.
template <bool kClusters>
ARCBEAM_DEVICE Need decode_utterance(const SearchParams& params, Lane& lane) {
    Control& control = *lane.control;
    while (lane.state.alive != 0U && (lane.state.started == 0U || lane.state.frame < lane.utterance.frames)) {
        if (simt::load(&control.bad_column) != kNoIndex) {
            simt::block_barrier();
            report_bad_row<kClusters>(params, lane, lane.state.frame);
            return Need::nothing;
        }
        // A frame fetches the row of the next one.
        const std::uint32_t row = lane.state.frame + lane.state.started;
        if (row < lane.utterance.frames && !have_row(params, lane, row)) {
            return Need::log_probs;
        }
        if constexpr (!kClusters) {
            if (wants_cluster(params, lane)) {
                return Need::cluster;
            }
        }
        const FrameEnd end = one_frame_anywhere<kClusters>(params, lane);
        if (end == FrameEnd::no_room) {
            return Need::spill;
        }
        if (end == FrameEnd::log_full) {
            // Unless that frees half of the log, the next collection would come soon: a larger log then.
            lane.state.log_size = collect_log(lane.state, lane.histogram);
            forget_milestones(lane);
            simt::block_barrier();
            const std::uint32_t room = lane.state.log_capacity - lane.state.log_size;
            if (room < lane.state.log_capacity / 2U || room < lane.log_wanted) {
                return Need::log;
            }
            continue;
        }
        if (end == FrameEnd::dead) {
            simt::block_barrier();
            reset_frame<BlockTeam>(control);
            lane.state.alive = 0U;
            simt::block_barrier();
        } else {
            lane.state.frame += lane.state.started;
            lane.state.started = 1U;
        }
    }
    const Rows rows =
        lane.state.alive == 0U ? check_rows<kClusters>(params, lane, lane.state.frame + 1U) : Rows::good;
    if (rows != Rows::good) {
        return rows == Rows::bad ? Need::nothing : Need::log_probs;
    }
    return finish_utterance<kClusters>(params, lane) ? Need::nothing : Need::paths;
}

}  // namespace arcbeam
