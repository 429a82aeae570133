// One frame of one utterance: calls the stages in order and holds no arithmetic of its own.
#pragma once

#include "decode/acoustic.cuh"
#include "decode/closure.cuh"
#include "decode/cutoff.cuh"
#include "decode/expand.cuh"
#include "decode/lattice.cuh"
#include "decode/prune.cuh"
#include "decode/recombine.cuh"

namespace arcbeam {

// waits: the frame was given up because an answer that it has requested has not come.
enum class FrameEnd : std::uint32_t { committed, dead, no_room, log_full, waits };

constexpr std::uint32_t kLookFrames = 8U;  // frames between checks of the other lanes

// What a block keeps while it works in a lane.
struct Lane {
    LaneState state;  // every thread has a copy; thread 0 writes it back
    Control* control;
    Array<float> acoustic;
    Array<std::uint32_t> histogram;
    WarpRoom warp_room;
    Array<std::uint64_t> rounds;
    Array<unsigned char> shared_tokens;
    std::uint32_t shared_capacity;
    Workspace shared_work;
    Array<unsigned char> large_table;  // the shared memory of the table, for a frame that has only its table there
    bool large_table_is_free;          // of entries, after every such frame so far
    Tokens tokens;                     // where the tokens are now: shared_tokens, or the tokens of the spill
    UtteranceView utterance;           // log_probs is where row 0 of the current piece would be
    std::uint32_t rows_end;            // of that piece
    std::uint32_t num_milestones;      // since the log was last moved
    Counts counts;
    std::uint32_t log_needed;  // entries, and links, that the frame which found the log full may add
};

// Lays out, in the dynamic shared memory at `memory`, what lanes of all searches have after their counters.
ARCBEAM_DEVICE void carve_rooms(const SearchParams& params, unsigned char*& memory, Lane& lane) {
    lane.histogram = carve<std::uint32_t>(memory, kHistogramBins);
    lane.rounds = carve<std::uint64_t>(memory, kSharedRounds);
    lane.warp_room = carve_warp_room(memory);
    memory += simt::num_warps() * kWarpRoomBytes;
    lane.acoustic = carve<float>(memory, params.columns);
    lane.shared_tokens = {memory, static_cast<std::uint32_t>(tokens_bytes(params.shared_capacity))};
    memory += lane.shared_tokens.size;
}

// Lays a lane's arrays out in the dynamic shared memory at `memory`.
ARCBEAM_DEVICE void carve_lane(const SearchParams& params, unsigned char* memory, Lane& lane) {
    lane.control = reinterpret_cast<Control*>(memory);
    memory += kControlBytes;
    carve_rooms(params, memory, lane);
    lane.shared_capacity = params.shared_capacity;
    lane.shared_work =
        carve_workspace(memory, params.shared_capacity, params.shared_candidates, params.shared_table_size);
    const std::uint64_t bytes =
        workspace_bytes(params.shared_capacity, params.shared_candidates, params.shared_table_size);
    lane.large_table = {memory, static_cast<std::uint32_t>(bytes)};
    lane.large_table_is_free = false;
}

ARCBEAM_DEVICE Workspace spilled_workspace(const SpillView& spill) {
    return carve_workspace(spill.memory, spill.capacity, spill.candidates, spill.table_size);
}

// The same with a table that takes all of shared_work's memory. The table of frames in shared memory lies in it,
// too.
ARCBEAM_DEVICE Workspace mixed_workspace(const Lane& lane) {
    Workspace work = spilled_workspace(lane.state.spill);
    unsigned char* memory = lane.large_table.data;
    carve_table(memory, lane.large_table.size / 64U * 4U, work);
    const std::uint32_t most = work.table_state.size - work.table_state.size / 4U;
    work.reached.size = work.reached.size < most ? work.reached.size : most;
    return work;
}

// Whether an utterance has to end in a final state: not where the search died, nor where a sentence goes on.
ARCBEAM_DEVICE bool finals_count(const SearchParams& params, const LaneState& state) {
    return state.alive != 0U && (params.streams == nullptr || params.streams[state.utterance].is_last != 0U ||
                                 simt::load(&params.results[state.utterance].fired) != kNoEndpoint);
}

// Where the n tokens of the frame `number` are kept; frames count from the closure of the start state.
ARCBEAM_DEVICE Tokens room_for(const Lane& lane, std::uint32_t n, std::uint32_t number) {
    if (n > lane.shared_capacity) {
        return spilled_tokens(lane.state.spill, number);
    }
    unsigned char* memory = lane.shared_tokens.data;
    return carve_tokens(memory, lane.shared_capacity, number);
}

ARCBEAM_DEVICE Milestone* milestones(const LaneState& lane) {
    return reinterpret_cast<Milestone*>(reinterpret_cast<unsigned char*>(lane.log) + log_bytes(lane.log_capacity)) -
           milestones_of(lane.log_capacity);
}

// Call this after the log has moved: no token has a milestone any more. A barrier must follow.
ARCBEAM_DEVICE void forget_milestones(Lane& lane) {
    lane.num_milestones = 0U;
    for (std::uint32_t i = simt::thread_rank(); i < lane.state.num_tokens; i += simt::block_size()) {
        lane.tokens.milestone[i] = kNoIndex;
    }
}

// Resets everything that a frame counts from zero. The table is free already.
ARCBEAM_DEVICE void reset_counts(Control& control) {
    simt::store(&control.best, kNoCost);
    simt::store(&control.num_candidates, 0U);
    for (std::uint32_t slot = 0U; slot < 3U; ++slot) {
        simt::store(&control.added[slot], 0U);
        simt::store(&control.epsilons[slot], 0U);
        simt::store(&control.levels[slot], 0U);
    }
    simt::store(&control.num_rounds, 0U);
    simt::store(&control.best_token, kNoIndex);
}

template <class Team>
ARCBEAM_DEVICE void reset_frame(Control& control) {
    if (Team::rank() == 0U) {
        reset_counts(control);
        simt::store(&control.best_survivor[0], kNoCost);
        simt::store(&control.best_survivor[1], kNoCost);
    }
}

template <class Team>
ARCBEAM_DEVICE void free_table(const Workspace& work) {
    for (std::uint32_t place = Team::rank(); place < work.table_state.size; place += Team::size()) {
        work.table_state[place] = kNoIndex;
        work.table_best[place] = kNoPacked;
    }
}

// Gives a frame up without a trace: its tokens are as they were. Thread 0 passes the smallest acoustic cost.
template <class Team>
ARCBEAM_DEVICE FrameEnd give_up(const Workspace& work, Control& control, std::uint32_t smallest_acoustic,
                                FrameEnd why) {
    Team::barrier();
    if (Team::rank() == 0U) {
        simt::store(&control.smallest_acoustic, smallest_acoustic);
    }
    free_table<Team>(work);
    reset_frame<Team>(control);
    Team::barrier();
    return why;
}

// How many links there is room for. A barrier must follow before links are noted.
template <bool lattices>
ARCBEAM_DEVICE std::uint32_t room_for_links(const Lane& lane) {
    if constexpr (lattices) {
        const LatticeLane& lattice = lane.control->lattice;
        return simt::load(&lattice.link_capacity) - simt::load(&lattice.num_links);
    }
    return 0U;
}

// Whether a frame fits the log of tokens, and its candidates the links. If not, the frame is given up.
template <bool lattices>
ARCBEAM_DEVICE bool log_has_room(Lane& lane, std::uint32_t num_tokens, std::uint32_t num_candidates,
                                 std::uint32_t link_room) {
    bool has_room = num_tokens <= lane.state.log_capacity - lane.state.log_size;
    std::uint32_t needed = num_tokens;
    if constexpr (lattices) {
        has_room = has_room && num_candidates <= link_room;
        needed = num_candidates > num_tokens ? num_candidates : num_tokens;
    }
    if (!has_room) {
        lane.log_needed = needed;
    }
    return has_room;
}

// Takes the smallest acoustic cost away, which thread 0 alone gets. A barrier must follow.
template <class Team>
ARCBEAM_DEVICE std::uint32_t take_smallest_acoustic(Control& control) {
    std::uint32_t smallest = kNoCost;
    if (Team::rank() == 0U) {
        smallest = simt::load(&control.smallest_acoustic);
        simt::store(&control.smallest_acoustic, kNoCost);
    }
    return smallest;
}

// Loads the row whose acoustic costs are needed next. A barrier must follow.
template <class Team>
ARCBEAM_DEVICE void load_next_row(const SearchParams& params, const Lane& lane, std::uint32_t row) {
    if (Team::owns_lane() && row < lane.utterance.frames) {
        load_acoustic(params, lane.utterance, row, lane.acoustic, *lane.control);
        if (row + 1U < lane.rows_end) {
            prefetch_row(params, lane.utterance, row + 1U);
        }
    }
}

// Where the n tokens of the frame `number` enter the log, with milestones if they have any.
template <bool lattices>
ARCBEAM_DEVICE LogPlace place_in_log(Lane& lane, std::uint32_t n, std::uint32_t number) {
    LogPlace place{lane.state.log, lane.state.log_size, lane.state.log_size - lane.state.num_tokens, nullptr,
                   lane.num_milestones};
    if constexpr (lattices) {
        place.costs = simt::load(&lane.control->lattice.costs);
    }
    if (number % kMilestoneFrames == kMilestoneFrames - 1U &&
        n <= milestones_of(lane.state.log_capacity) - lane.num_milestones) {
        place.milestones = milestones(lane.state);
        lane.num_milestones += n;
    }
    return place;
}

// The lane goes on with the n tokens of a frame, whose best cost becomes 0.
ARCBEAM_DEVICE void go_on_with(Lane& lane, const Tokens& tokens, std::uint32_t n, float best) {
    lane.tokens = tokens;
    lane.state.num_tokens = n;
    lane.state.log_size += n;
    lane.state.offset += static_cast<double>(best);
    lane.state.tokens_seen += n;
}

// Turns candidates into tokens. `next_frame` is the row whose acoustic costs are needed next.
template <class Team, bool lattices>
ARCBEAM_DEVICE FrameEnd commit_frame(const SearchParams& params, Lane& lane, std::uint32_t num_candidates,
                                     float bound, const Workspace& work, std::uint32_t next_frame) {
    Control& control = *lane.control;
    Counts counts = lane.counts;
    const std::uint32_t link_room = room_for_links<lattices>(lane);
    recombine<Team>(params.graph, num_candidates, bound, work, control, counts);
    const std::uint32_t smallest_acoustic = take_smallest_acoustic<Team>(control);
    Team::barrier();
    Step step{0U, simt::load(&control.added[0]), simt::load(&control.epsilons[0])};
    std::uint32_t levels = simt::load(&control.levels[0]);
    for (std::uint32_t level = 0U; level < levels && step.states_before <= work.reached.size; ++level) {
        step.slot = step.next_slot();
        close_level<Team>(params.graph, level, step, bound, lane.state.log_size, work, control);
        Team::barrier();
        step.states_before += simt::load(&control.added[step.slot]);
        step.epsilons_before += simt::load(&control.epsilons[step.slot]);
        const std::uint32_t deeper = simt::load(&control.levels[step.slot]);
        levels = deeper > levels ? deeper : levels;
    }
    const std::uint32_t num_states = step.states_before;
    const std::uint32_t all_candidates = simt::load(&control.num_candidates);
    if (num_states > work.reached.size || all_candidates > work.candidate.size) {
        return give_up<Team>(work, control, smallest_acoustic, FrameEnd::no_room);
    }
    if (!log_has_room<lattices>(lane, num_states, all_candidates, link_room)) {
        return give_up<Team>(work, control, smallest_acoustic, FrameEnd::log_full);
    }
    const std::uint32_t number = lane.state.frame + lane.state.started;
    std::uint32_t* const best_survivor = &control.best_survivor[number & 1U];
    if constexpr (lattices) {
        const Capture<Team> capture{work.table_index, lane.state.log_size, params.lattice->beam, &control.lattice};
        find_sources<Team>(all_candidates, work, best_survivor, capture);
    } else {
        find_sources<Team>(all_candidates, work, best_survivor, ForgetLosers{});
    }
    load_next_row<Team>(params, lane, next_frame);
    Team::barrier();
    const float best = from_ordered(simt::load(best_survivor));
    if (Team::rank() == 0U) {  // for the next frame; after this only the best survivor is read
        reset_counts(control);
        simt::store(&control.best_survivor[~number & 1U], kNoCost);
    }
    const Tokens tokens = room_for(lane, num_states, number);
    const LogPlace place = place_in_log<lattices>(lane, num_states, number);
    commit<Team, lattices>(num_states, best, work, lane.tokens, tokens, place);
    go_on_with(lane, tokens, num_states, best);
    lane.counts = counts;
    Team::barrier();
    return FrameEnd::committed;
}

// The candidates of a frame. None within the bound is missing.
struct Expanded {
    FrameEnd end;  // committed means here that the frame can be committed, not that it has been
    std::uint32_t num_candidates;
    float bound;
};

// Frame 0: the start state of the utterance alone.
ARCBEAM_DEVICE Expanded begin_search(const SearchParams& params, const Workspace& work, const Lane& lane) {
    if (simt::thread_rank() == 0U) {
        simt::store(&lane.control->num_candidates, 1U);
        // Read here, once: kept in the lane it would take a register of all frames
        const std::uint32_t start = simt::load(&params.utterances[lane.state.utterance].start);
        work.candidate[0] = Candidate{pack(0.0F, kNoIndex), start, kNoIndex};
    }
    simt::block_barrier();
    return {FrameEnd::committed, 1U, beam_bound(0.0F, params.beam)};
}

// Expands a frame whose acoustic costs and cut-off are known.
template <class Team, class Params, class Beside = NothingBeside>
ARCBEAM_DEVICE Expanded leave_tokens(const Params& params, Lane& lane, float cut, const Workspace& work,
                                     const Beside& beside = {}) {
    Control& control = *lane.control;
    const Counts before = lane.counts;
    ExpandInput in{lane.tokens.token,
                   lane.state.num_tokens,
                   lane.state.log_size - lane.state.num_tokens,
                   cut,
                   lane.acoustic,
                   from_ordered(simt::load(&control.smallest_acoustic)),
                   kInfiniteCost,
                   lane.warp_room,
                   lane.rounds,
                   ArcLabels::of(params)};
    for (;;) {
        expand<Team>(params, in, work, control, lane.counts, beside);
        const std::uint32_t best = simt::load(&control.best);
        if (best == kNoCost) {
            Team::barrier();
            return {FrameEnd::dead, 0U, 0.0F};
        }
        const float bound = beam_bound(from_ordered(best), params.beam);
        const std::uint32_t num_candidates = simt::load(&control.num_candidates);
        if (num_candidates <= work.candidate.size) {
            return {FrameEnd::committed, num_candidates, bound};
        }
        Team::barrier();
        lane.counts = before;
        if (in.known_bound == bound) {
            const std::uint32_t smallest_acoustic = simt::load(&control.smallest_acoustic);
            return {give_up<Team>(work, control, smallest_acoustic, FrameEnd::no_room), 0U, 0.0F};
        }
        in.known_bound = bound;  // there were too many while the bound was loose; repeat with the exact one
        reset_frame<Team>(control);
        Team::barrier();
    }
}

template <class Team, bool lattices>
ARCBEAM_DEVICE FrameEnd advance(const SearchParams& params, Lane& lane, float cut, Room room) {
    const Counts before = lane.counts;
    const bool started = lane.state.started != 0U;
    const Workspace work = room == Room::shared ? lane.shared_work : spilled_workspace(lane.state.spill);
    const Expanded expanded =
        started ? leave_tokens<Team>(params, lane, cut, work) : begin_search(params, work, lane);
    if (expanded.end != FrameEnd::committed) {
        return expanded.end;
    }
    const std::uint32_t next_frame = lane.state.frame + lane.state.started;
    const Workspace mixed = mixed_workspace(lane);
    // There are seldom more states than candidates.
    const bool in_mixed = room == Room::mixed && expanded.num_candidates <= mixed.reached.size;
    const FrameEnd end = commit_frame<Team, lattices>(params, lane, expanded.num_candidates, expanded.bound,
                                                      in_mixed ? mixed : work, next_frame);
    if (end != FrameEnd::committed) {
        lane.counts = before;
    }
    return end;
}

}  // namespace arcbeam
