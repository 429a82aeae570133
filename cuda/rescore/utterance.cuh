// An utterance from its first frame to its result, rescored; how a lane stops and resumes. Everything else is in
// decode/utterance.cuh, with the plain search.
#pragma once

#include "rescore/cluster.cuh"
#include "rescore/end.cuh"

namespace arcbeam {

// Adds the look-ups to the sums of the launch. The other blocks of the cluster have been asked for their counts.
template <bool kClusters>
ARCBEAM_DEVICE void add_lookups(const RescoringParams& params, RescoringLane& lane) {
    LookupCounts sums = warp_sums(lane.lookups);
    if (kClusters && simt::thread_rank() == 0U) {
        const LookupCounts more = simt::load(&lane.words->of_helpers);
        sums = {sums.lookups + more.lookups, sums.distinct + more.distinct, sums.misses + more.misses,
                sums.reads + more.reads};
        simt::store(&lane.words->of_helpers, LookupCounts{});
    }
    if (simt::warp_thread() == 0U) {
        simt::atomic_add<Scope::device>(&params.counters->lookups, std::uint64_t{sums.lookups});
        simt::atomic_add<Scope::device>(&params.counters->distinct, std::uint64_t{sums.distinct});
        simt::atomic_add<Scope::device>(&params.counters->misses, std::uint64_t{sums.misses});
        simt::atomic_add<Scope::device>(&params.counters->reads, std::uint64_t{sums.reads});
    }
    lane.lookups = LookupCounts{};
}

// Stops the lane until the next launch.
template <bool kClusters>
ARCBEAM_DEVICE void stop_rescoring(const RescoringParams& params, RescoringLane& lane, Need need) {
    if (lane.state.num_tokens <= lane.shared_capacity) {
        copy_histories(lane.histories, spilled_histories(lane.state.spill), lane.state.num_tokens);
    }
    stop<kClusters>(params.search, lane, need);
    add_lookups<kClusters>(params, lane);
}

// Resumes a lane that stopped; says what it still lacks.
ARCBEAM_DEVICE Need resume_rescoring(const RescoringParams& params, RescoringLane& lane) {
    lane.histories = room_for_histories(lane, lane.state.num_tokens);
    if (lane.state.num_tokens <= lane.shared_capacity) {
        copy_histories(spilled_histories(lane.state.spill), lane.histories, lane.state.num_tokens);
    }
    if (!resume_utterance(params.search, lane)) {
        return Need::log_probs;
    }
    const bool is_open = kLanesAsk && simt::load(&lane.words->request_open) != 0U;
    return is_open && !take_late_answers(params, *lane.words) ? kNeedsAnswers : Need::nothing;
}

// The reason why a question has no answer.
ARCBEAM_DEVICE Need unanswered(const RescoringLane& lane) {
    return simt::load(&lane.words->request_full) != 0U ? kNeedsRequestRoom : kNeedsAnswers;
}

template <bool kClusters>
ARCBEAM_DEVICE FrameEnd one_rescored_frame_in(const RescoringParams& params, RescoringLane& lane, float cut,
                                              Room room) {
    if constexpr (kClusters) {
        if (lane.state.started != 0U && lane.state.num_tokens >= params.search.team_tokens) {
            return rescore_together(params, lane, cut, room);
        }
    }
    return advance_rescoring<BlockTeam>(params, lane, cut, room);
}

// Decodes one frame, in shared memory if it is likely to fit there.
template <bool kClusters>
ARCBEAM_DEVICE FrameEnd one_rescored_frame(const RescoringParams& params, RescoringLane& lane) {
    const float cut = cutoff(lane.tokens.token, lane.state.num_tokens, params.search.beam, params.search.max_active,
                             lane.histogram, *lane.control);
    // The next frame may have more tokens.
    const bool few = lane.state.num_tokens <= lane.shared_capacity - lane.shared_capacity / 4U;
    for (Room room = few ? Room::shared : Room::mixed;;) {
        if (room != Room::shared && !lane.large_table_is_free) {
            free_tables<BlockTeam>(mixed_rescoring(lane));
            simt::block_barrier();
        }
        lane.large_table_is_free = room != Room::shared;
        const FrameEnd end = one_rescored_frame_in<kClusters>(params, lane, cut, room);
        if (end != FrameEnd::no_room || room == Room::spilled) {
            return end;
        }
        room = room == Room::shared ? Room::mixed : Room::spilled;
    }
}

// Writes the result. If that is not possible, says what the lane lacks.
template <bool kClusters>
ARCBEAM_DEVICE Need finish_rescoring(const RescoringParams& params, RescoringLane& lane) {
    Control& control = *lane.control;
    const Array<Candidate> scratch = lane.state.num_tokens <= lane.room.candidate().size
                                         ? lane.room.candidate()
                                         : spilled_rescoring(lane.state.spill).candidate();
    if (kLanesAsk && lane.state.alive != 0U && !ask_ends(params, lane)) {
        return unanswered(lane);
    }
    lane.large_table_is_free = false;  // the scratch lies in it
    const bool final_reached = best_rescored_end(params, lane, scratch);
    if (!write_path(params.search, lane)) {
        return Need::paths;
    }
    collect_counts<kClusters>(lane);
    add_lookups<kClusters>(params, lane);
    if (simt::thread_rank() == 0U) {
        const std::uint64_t best = simt::load(&control.best_end);
        UtteranceResult& result = params.search.results[lane.state.utterance];
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
    return Need::nothing;
}

// Decodes the lane's utterance to its end. If that is not possible, says what the lane lacks.
template <bool kClusters>
ARCBEAM_DEVICE Need rescore_utterance(const RescoringParams& params, RescoringLane& lane) {
    const SearchParams& search = params.search;
    while (lane.state.alive != 0U && (lane.state.started == 0U || lane.state.frame < lane.utterance.frames)) {
        if (simt::load(&lane.control->bad_column) != kNoIndex) {
            simt::block_barrier();
            report_bad_row<kClusters>(search, lane, lane.state.frame);
            return Need::nothing;
        }
        // The row that this frame fetches for the next one
        const std::uint32_t row = lane.state.frame + lane.state.started;
        if (row < lane.utterance.frames && !have_row(search, lane, row)) {
            return Need::log_probs;
        }
        if (should_stop(search, lane)) {
            return Need::launch;
        }
        const FrameEnd end = one_rescored_frame<kClusters>(params, lane);
        if (end == FrameEnd::no_room) {
            return Need::spill;
        }
        if (end == kFrameUnanswered) {
            return unanswered(lane);
        }
        if (end == FrameEnd::log_full) {
            if (!make_room_in_log(lane)) {
                return Need::log;
            }
        } else if (end == FrameEnd::dead) {
            simt::block_barrier();
            reset_rescoring_frame<BlockTeam>(lane);
            lane.state.alive = 0U;
            simt::block_barrier();
        } else {
            lane.state.frame += lane.state.started;
            lane.state.started = 1U;
            if (kLanesAsk) {
                make_room_for_requests(*lane.words);
            }
        }
    }
    const Rows rows =
        lane.state.alive == 0U ? check_rows<kClusters>(search, lane, lane.state.frame + 1U) : Rows::good;
    if (rows != Rows::good) {
        return rows == Rows::bad ? Need::nothing : Need::log_probs;
    }
    return finish_rescoring<kClusters>(params, lane);
}

}  // namespace arcbeam
