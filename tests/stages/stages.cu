// The stages of the search on one frame, one after the other, by one block: what each has made is written down, and
// how long it took. The search itself calls them from decode/frame.cuh and stops between none.
//
// in   the tokens of the frame before, in the order of the log; its entries and those before; a row of log-probs
// out  cut-off, candidates, winners, frontier, survivors, path; clock cycles of every stage, over all turns
#include "one_frame.cuh"

namespace arcbeam {

enum class Stage : std::uint32_t { cutoff, expand, recombine, closure, prune, backtrack };
constexpr std::uint32_t kStages = 6U;

struct Winner {
    std::uint64_t packed;  // pack(cost, arc)
    std::uint32_t state;
    std::uint32_t unused;
};

struct StagesResult {
    std::uint64_t cycles[kStages];
    std::uint64_t all_cycles;  // of all turns
    std::uint64_t end;         // pack(cost, state)
    float cutoff;
    float bound;
    float best;
    std::uint32_t num_candidates;
    std::uint32_t num_winners;
    std::uint32_t num_states;
    std::uint32_t reached_final;
    std::uint32_t ended;  // 1: all is there; 0: dead, or something had no room
};

struct StagesParams {
    SearchParams search;       // of which the graph, options, sizes, and where the path goes
    SpillView spill;           // its table is free
    const float* log_probs;    // [columns]
    const FrameToken* tokens;  // [num_tokens]
    LogEntry* log;             // log_bytes(log_capacity); [log_size] are there
    Candidate* candidates;     // [spill.candidates]
    Winner* winners;           // [spill.capacity], as the two below
    Winner* frontier;
    FrameToken* survivors;
    StagesResult* result;
    std::uint32_t num_tokens;
    std::uint32_t log_size;
    std::uint32_t log_capacity;
    std::uint32_t turns;
    Room room;
};

ARCBEAM_DEVICE void write_winners(const Workspace& work, std::uint32_t n, Winner* into) {
    for (std::uint32_t i = simt::thread_rank(); i < n; i += simt::block_size()) {
        const Reached reached = work.reached[i];
        const std::uint64_t packed = work.table_best[reached.place];
        simt::store(into + i, Winner{packed, reached.state, 0U});
    }
}

// All levels, as commit_frame() of decode/frame.cuh follows them. Gives the states of the frame.
ARCBEAM_DEVICE std::uint32_t close_frame(const StagesParams& params, float bound, const Workspace& work,
                                         Control& control) {
    Step step{0U, simt::load(&control.added[0]), simt::load(&control.epsilons[0])};
    std::uint32_t levels = simt::load(&control.levels[0]);
    for (std::uint32_t level = 0U; level < levels && step.states_before <= work.reached.size; ++level) {
        step.slot = step.next_slot();
        close_level<BlockTeam>(params.search.graph, level, step, bound, params.log_size, work, control);
        simt::block_barrier();
        step.states_before += simt::load(&control.added[step.slot]);
        step.epsilons_before += simt::load(&control.epsilons[step.slot]);
        const std::uint32_t deeper = simt::load(&control.levels[step.slot]);
        levels = deeper > levels ? deeper : levels;
    }
    return step.states_before;
}

// Every stage once; false if there was no room, or nothing to admit.
ARCBEAM_DEVICE bool run_stages(const StagesParams& params, Lane& lane, bool write) {
    Control& control = *lane.control;
    StagesResult* const result = params.result;
    Workspace work = params.room == Room::shared ? lane.shared_work : spilled_workspace(params.spill);
    if (params.room == Room::mixed) {
        work = mixed_workspace(lane);
    }
    const bool writes = write && simt::thread_rank() == 0U;
    StageClock clock(result->cycles);
    reset_frame<BlockTeam>(control);
    free_table<BlockTeam>(work);
    set_tokens(params.search, params.tokens, params.num_tokens, params.log_size, lane);

    clock.start();
    const float cut = cutoff(StateOrder{lane.tokens.token, lane.tokens.state}, params.num_tokens,
                             params.search.beam, params.search.max_active, lane.histogram, control);
    clock.stop(Stage::cutoff);

    clock.start();
    const Expanded expanded = leave_tokens<BlockTeam>(params.search, lane, cut, work);
    clock.stop(Stage::expand);
    if (expanded.end != FrameEnd::committed) {
        return false;
    }
    for (std::uint32_t i = simt::thread_rank(); write && i < expanded.num_candidates; i += simt::block_size()) {
        simt::store(params.candidates + i, static_cast<Candidate>(work.candidate[i]));
    }

    clock.start();
    recombine<BlockTeam>(params.search.graph, expanded.num_candidates, expanded.bound, work, control, lane.counts);
    clock.stop(Stage::recombine);
    const std::uint32_t num_winners = simt::load(&control.added[0]);
    if (num_winners > work.reached.size) {
        return false;
    }
    if (write) {
        write_winners(work, num_winners, params.winners);
    }

    clock.start();
    const std::uint32_t num_states = close_frame(params, expanded.bound, work, control);
    clock.stop(Stage::closure);
    const std::uint32_t all_candidates = simt::load(&control.num_candidates);
    if (num_states > work.reached.size || all_candidates > work.candidate.size ||
        num_states > params.log_capacity - params.log_size) {
        return false;
    }
    if (write) {
        write_winners(work, num_states, params.frontier);
    }

    clock.start();
    find_sources<BlockTeam>(all_candidates, work, &control.best_survivor[1], ForgetLosers{});
    simt::block_barrier();
    const float best = from_ordered(simt::load(&control.best_survivor[1]));
    const Tokens tokens = room_for(lane, num_states, 1U);
    const LogPlace place{params.log, params.log_size, params.log_size - params.num_tokens, nullptr, 0U};
    commit<BlockTeam>(num_states, best, work, lane.tokens, tokens, place);
    lane.tokens = tokens;
    lane.state.num_tokens = num_states;
    lane.state.log_size = params.log_size + num_states;
    clock.stop(Stage::prune);
    for (std::uint32_t i = simt::thread_rank(); write && i < num_states; i += simt::block_size()) {
        const Token token = tokens.token[i];
        const std::uint32_t state = tokens.state[i];
        simt::store(params.survivors + i, FrameToken{state, token.cost});
    }

    clock.start();
    const bool reached_final = best_end(params.search.graph, lane.tokens, num_states, true, control);
    const bool fits = write_path<false>(params.search, lane);
    clock.stop(Stage::backtrack);
    if (writes) {
        result->end = simt::load(&control.best_end);
        result->cutoff = cut;
        result->bound = expanded.bound;
        result->best = best;
        result->num_candidates = expanded.num_candidates;
        result->num_winners = num_winners;
        result->num_states = num_states;
        result->reached_final = reached_final ? 1U : 0U;
    }
    return fits;
}

}  // namespace arcbeam

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_stages, 512, 1, arcbeam::StagesParams) {
    using namespace arcbeam;
    Lane lane;
    carve_lane(params.search, simt::shared_memory(), lane);
    run_turns(params, params.search, lane, [&](bool write) { return run_stages(params, lane, write); });
}
