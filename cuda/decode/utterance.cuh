// An utterance from its first frame to its result; how a lane stops and resumes.
#pragma once

#include "decode/arrival.cuh"
#include "decode/backtrack.cuh"
#include "decode/collect.cuh"
#include "decode/endpoint.cuh"
#include "decode/launch/cluster.cuh"
#include "decode/small/small_frame.cuh"
#include "decode/stream.cuh"
#include "decode/utterance_lattice.cuh"

namespace arcbeam {

ARCBEAM_DEVICE void copy_tokens(const Tokens& from, const Tokens& to, std::uint32_t n) {
    for (std::uint32_t i = simt::thread_rank(); i < n; i += simt::block_size()) {
        to.token[i] = static_cast<Token>(from.token[i]);
        to.state[i] = static_cast<std::uint32_t>(from.state[i]);
    }
}

// Adds what the whole cluster has counted for this utterance to the lane's state. A barrier must follow.
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

// Stops the lane until the next launch.
template <class Search, bool kClusters>
ARCBEAM_DEVICE void stop(const typename Search::Params& params, typename Search::Lane& lane, Need need) {
    if (simt::thread_rank() == 0U && (need == Need::spill || need == Need::log || need == kNeedsLinks)) {
        // The other lanes should not go on for long without it
        simt::store_relaxed<Scope::device>(Search::common(params).stop, 1U);
    }
    if (lane.state.num_tokens <= lane.shared_capacity) {
        Search::save_tokens(lane, lane.state.spill);
    }
    collect_counts<kClusters>(lane);
    Search::template report_counts<kClusters>(params, lane);
    lane.state.need = need;
}

template <class Search>
ARCBEAM_DEVICE void begin_utterance(const SearchParams& params, Lane& lane, std::uint32_t utterance) {
    lane.state.utterance = utterance;
    lane.state.frame = 0U;
    lane.state.started = 0U;
    lane.state.alive = 1U;
    lane.state.num_tokens = 0U;
    lane.state.log_size = 0U;
    lane.state.settled = 0U;
    lane.state.offset = 0.0;
    lane.state.tokens_seen = 0U;
    lane.state.leaving_arcs = 0U;
    lane.state.admitted = 0U;
    lane.state.stream = of_streams<Search>(params) ? StreamStep::to_load : StreamStep::none;
    lane.state.known = 0U;
    lane.counts = Counts{};
    lane.num_milestones = 0U;
    if (Search::kLattices && simt::thread_rank() == 0U) {
        simt::store(&lane.control->lattice.num_links, 0U);
    }
    open_utterance(params, lane);
    if (of_streams<Search>(params) && simt::thread_rank() == 0U) {
        const StreamView& view = params.streams[utterance];
        UtteranceResult& result = params.results[utterance];
        simt::store(&result.taken, view.fired != kNoEndpoint ? 0U : lane.utterance.frames);
        simt::store(&result.fired, view.fired);
        simt::store(&result.next_check, view.next_check);
    }
}

// Puts the state of a stream into the lane, as if it had stopped there. Returns what it lacks for that.
template <class Search>
ARCBEAM_DEVICE Need begin_stream(const typename Search::Params& params, typename Search::Lane& lane) {
    LaneState& state = lane.state;
    const StreamView& view = Search::common(params).streams[state.utterance];
    if (view.before == nullptr) {
        state.stream = StreamStep::loaded;
        return Need::nothing;
    }
    const StreamMemory memory = stream_memory(view.before, view.before_tokens, view.before_entries);
    const StreamCounts counts = simt::load(&memory.words->counts);
    if (counts.num_tokens > state.spill.capacity) {
        return Need::spill;
    }
    if (counts.log_size > state.log_capacity) {
        return Need::log;
    }
    if constexpr (Search::kLattices) {
        const SearchParams& common = Search::common(params);
        if (!load_links(*common.lattice, state.utterance, counts.log_size,
                        steps_before<Search>(common, state.utterance) + 1U, &lane.control->lattice)) {
            return kNeedsLinks;
        }
    }
    load_stream<Search>(params, state.utterance, memory, state.spill, state.log);
    state.started = 1U;
    state.alive = counts.alive;
    state.offset = simt::load(&memory.words->offset);
    state.num_tokens = counts.num_tokens;
    state.log_size = counts.log_size;
    state.known = counts.known;
    state.stream = counts.alive != 0U ? StreamStep::loaded : StreamStep::dead_before;
    simt::block_barrier();
    return Need::nothing;
}

// Resumes a lane that stopped; its tokens wait in the spill. Or begins a chunk. Returns what it still lacks.
template <class Search>
ARCBEAM_DEVICE Need resume_utterance(const typename Search::Params& params, typename Search::Lane& lane) {
    const SearchParams& common = Search::common(params);
    open_utterance(common, lane);
    if (Search::kStreams && lane.state.stream == StreamStep::to_load) {
        const Need lacking = begin_stream<Search>(params, lane);
        if (lacking != Need::nothing) {
            return lacking;
        }
    }
    Search::place_tokens(lane, lane.state.num_tokens, lane.state.frame);
    forget_milestones(lane);
    if (lane.state.num_tokens <= lane.shared_capacity) {
        Search::restore_tokens(lane, lane.state.spill);
    }
    if (lane.state.frame < lane.utterance.frames) {
        if (!have_row(common, lane, lane.state.frame)) {
            return Need::log_probs;
        }
        load_acoustic(common, lane.utterance, lane.state.frame, lane.acoustic, *lane.control);
    }
    simt::block_barrier();
    return Search::resumed(params, lane);
}

template <class Search, bool kClusters>
ARCBEAM_DEVICE FrameEnd one_frame_in(const typename Search::Params& params, typename Search::Lane& lane, float cut,
                                     Room room) {
    if constexpr (kClusters) {
        if (lane.state.started != 0U && lane.state.num_tokens >= Search::common(params).team_tokens) {
            return advance_together<Search>(params, lane, cut, room);
        }
    }
    return Search::template advance<BlockTeam>(params, lane, cut, room);
}

// Decodes one frame, in shared memory if it is likely to fit there.
template <class Search, bool kClusters>
ARCBEAM_DEVICE FrameEnd one_frame(const typename Search::Params& params, typename Search::Lane& lane) {
    const SearchParams& common = Search::common(params);
    const float cut = cutoff(Search::order(params, lane), lane.state.num_tokens, common.beam, common.max_active,
                             lane.histogram, *lane.control);
    // The next frame may have more tokens.
    const bool few = lane.state.num_tokens <= lane.shared_capacity - lane.shared_capacity / 4U;
    Room room = Room::mixed;
    if (few) {
        lane.large_table_is_free = false;
        if constexpr (Search::kSharedApart) {
            const FrameEnd end = one_frame_in<Search, kClusters>(params, lane, cut, Room::shared);
            if (end != FrameEnd::no_room) {
                return end;
            }
        } else {
            room = Room::shared;
        }
    }
    for (;;) {
        if (room != Room::shared && !lane.large_table_is_free) {
            Search::free_large_tables(lane);
            simt::block_barrier();
            lane.large_table_is_free = true;
        }
        const FrameEnd end = one_frame_in<Search, kClusters>(params, lane, cut, room);
        if (end != FrameEnd::no_room || room == Room::spilled) {
            return end;
        }
        room = room == Room::shared ? Room::mixed : Room::spilled;
    }
}

constexpr std::uint32_t kManyTokens = 512U;  // with so many tokens every frame checks, because a frame takes long

// Whether the lane should stop for another launch: because another lane waits for more room, or because the last
// utterances are hot and should go on in clusters. All lanes stop then, so that none waits for the longest.
ARCBEAM_DEVICE bool should_stop(const SearchParams& params, const Lane& lane) {
    if (lane.state.frame % kLookFrames != kLookFrames - 1U && lane.state.num_tokens < kManyTokens) {
        return false;
    }
    if (simt::thread_rank() == 0U) {
        bool stops = simt::load_relaxed<Scope::device>(params.stop) != 0U;
        const std::uint64_t frames = lane.state.frame + kLookFrames;
        if (!stops && params.hot_lanes != 0U && lane.state.tokens_seen >= params.hot_tokens * frames &&
            lane.utterance.frames - lane.state.frame >= params.hot_frames) {
            const bool queue_is_empty =
                simt::load_relaxed<Scope::device>(params.next_in_order) >= params.num_utterances;
            const std::uint32_t at_work =
                simt::grid_size() - simt::load_relaxed<Scope::device>(params.resting_lanes);
            stops = queue_is_empty && at_work <= params.hot_lanes;
            if (stops) {
                simt::store_relaxed<Scope::device>(params.stop, 1U);
            }
        }
        simt::store(&lane.control->stop, stops ? 1U : 0U);
    }
    simt::block_barrier();
    const bool stops = simt::load(&lane.control->stop) != 0U;
    simt::block_barrier();
    return stops;
}

template <bool kClusters>
ARCBEAM_DEVICE void report_bad_row(const SearchParams& params, Lane& lane, std::uint32_t frame) {
    collect_counts<kClusters>(lane);  // otherwise the next utterance would count them
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

// Checks the remaining rows after the search has died, or the sentence has ended.
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

// Writes the result of an utterance whose end has been found. If that is not possible, returns what the lane lacks.
template <class Search, bool kClusters>
ARCBEAM_DEVICE Need finish_utterance(const typename Search::Params& params, typename Search::Lane& lane,
                                     bool reached_final) {
    const SearchParams& common = Search::common(params);
    if (!write_path<Search::kLattices>(common, lane)) {
        return Need::paths;
    }
    const std::uint64_t best = simt::load(&lane.control->best_end);
    if constexpr (Search::kLattices) {
        simt::block_barrier();
        if (Search::kStreams && lane.state.stream != StreamStep::none) {
            const Need lacking = finish_stream_with_lattice<Search>(params, lane, reached_final);
            if (lacking != Need::nothing) {
                return lacking;
            }
        } else if (!finish_lattice<Search>(params, lane, reached_final)) {
            return kNeedsLatticePool;
        }
    }
    if (!Search::kLattices && lane.state.stream != StreamStep::none) {
        simt::block_barrier();
        LaneState& state = lane.state;
        UtteranceResult* const result = common.results + state.utterance;
        const SettledLog log = settle_stream(
            {state.log, state.log_capacity, state.log_size, state.num_tokens, state.settled}, result, state.known,
            simt::load(&lane.control->end_index), lane.histogram, &lane.control->selected);
        state.log_size = log.size;
        state.settled = log.settled;
        forget_milestones(lane);
        if (state.num_tokens <= lane.shared_capacity) {
            Search::save_tokens(lane, state.spill);
        }
        simt::block_barrier();
        if (!save_stream<Search>(params, state, log, &result->taken)) {
            return kNeedsStreamRoom;
        }
    }
    collect_counts<kClusters>(lane);
    Search::template report_counts<kClusters>(params, lane);
    if (simt::thread_rank() == 0U) {
        UtteranceResult& result = common.results[lane.state.utterance];
        result.total_cost = lane.state.offset + static_cast<double>(packed_cost(best));
        result.end_state = packed_arc(best);
        result.reached_final = reached_final ? 1U : 0U;
        result.outcome = Outcome::decoded;
        result.frames = lane.state.frame;
        result.tokens = lane.state.tokens_seen;
        result.leaving_arcs = lane.state.leaving_arcs;
        result.admitted = lane.state.admitted;
        result.alive = lane.state.alive;
    }
    simt::block_barrier();
    return Need::nothing;
}

// Makes room in a log that is full. Returns whether the log has to grow: it grows unless half of it is free,
// because otherwise the next collection would come soon.
template <class Search>
ARCBEAM_DEVICE Need make_room_in_log(const SearchParams& params, Lane& lane) {
    if constexpr (Search::kLattices) {
        return make_room_in_lattice<Search>(params, lane);
    }
    LaneState& state = lane.state;
    const Collected left =
        collect({state.log, state.log_capacity, state.log_size, state.num_tokens, state.settled}, lane.histogram);
    state.log_size = left.size;
    state.settled = left.settled;
    forget_milestones(lane);
    simt::block_barrier();
    const std::uint32_t room = state.log_capacity - state.log_size;
    return room >= state.log_capacity / 2U && room >= lane.log_needed ? Need::nothing : Need::log;
}

// In place of what a lane lacks: nothing, but the utterance goes on after a check of endpoints. The loop is that of
// the block's work, because a loop of its own around the frames made nvcc spill much more.
constexpr Need kEndpointChecked = Need{21U};

// Decodes the lane's utterance to its end, or to the next check, which may need the end with final weights
// (`of_end`). If that is not possible, returns what the lane lacks.
template <class Search, bool kClusters>
ARCBEAM_DEVICE Need decode_utterance(const typename Search::Params& params, typename Search::Lane& lane,
                                     bool& of_end) {
    const SearchParams& common = Search::common(params);
    const std::uint32_t until = bounds_of<Search>(common, lane).check;
    while (lane.state.alive != 0U && (lane.state.started == 0U || lane.state.frame < until)) {
        if (simt::load(&lane.control->bad_column) != kNoIndex) {
            simt::block_barrier();
            report_bad_row<kClusters>(common, lane, lane.state.frame);
            return Need::nothing;
        }
        // A frame fetches the row of the next one.
        const std::uint32_t row = lane.state.frame + lane.state.started;
        if (row < lane.utterance.frames && !have_row(common, lane, row)) {
            return Need::log_probs;
        }
        if (should_stop(common, lane)) {
            return Need::launch;
        }
        if constexpr (Search::kSmallFrames) {
            if (small_frames<Search>(params, lane, until)) {
                continue;
            }
        }
        const FrameEnd end = one_frame<Search, kClusters>(params, lane);
        if (end == FrameEnd::no_room) {
            return Need::spill;
        }
        if (end == FrameEnd::waits) {
            return Search::lacks(lane);
        }
        if (end == FrameEnd::log_full) {
            const Need lacking = make_room_in_log<Search>(common, lane);
            if (lacking != Need::nothing) {
                return lacking;
            }
        } else if (end == FrameEnd::dead) {
            simt::block_barrier();
            Search::template reset_frame<BlockTeam>(lane);
            lane.state.alive = 0U;
            simt::block_barrier();
        } else {
            lane.state.frame += lane.state.started;
            lane.state.started = 1U;
            if (Search::kLattices && simt::thread_rank() == 0U) {
                note_step(*common.lattice, lane.control->lattice, lane.state,
                          steps_before<Search>(common, lane.state.utterance) + lane.state.frame);
            }
            Search::committed(lane);
        }
    }
    const Bounds bounds = bounds_of<Search>(common, lane);
    const bool all_taken = bounds.end == lane.utterance.frames;
    const bool finals = bounds.has_check ? of_end : finals_count(common, lane.state);
    bool reached_final;
    if (!Search::find_end(params, lane, finals, reached_final)) {
        return Search::lacks(lane);
    }
    if (bounds.has_check) {
        of_end = check_endpoint<Search>(params, lane, bounds, of_end, reached_final);
        return kEndpointChecked;
    }
    const bool dead = lane.state.alive == 0U;
    const bool row_is_known = dead && lane.state.stream != StreamStep::dead_before;
    const std::uint32_t unchecked = lane.state.frame + (row_is_known ? 1U : 0U);
    const Rows rows = dead || !all_taken ? check_rows<kClusters>(common, lane, unchecked) : Rows::good;
    if (rows != Rows::good) {
        return rows == Rows::bad ? Need::nothing : Need::log_probs;
    }
    return finish_utterance<Search, kClusters>(params, lane, reached_final);
}

}  // namespace arcbeam
