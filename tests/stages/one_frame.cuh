// What the kernels that run stages on one frame share: how its tokens are given, the clock of a stage, and the
// turns.
#pragma once

#include "decode/backtrack.cuh"

namespace arcbeam {

struct FrameToken {  // as the twin has them
    std::uint32_t state;
    float cost;
};

// Sums the clock cycles of each stage between its barriers, over all turns.
class StageClock {
  public:
    ARCBEAM_DEVICE explicit StageClock(std::uint64_t* cycles) : cycles_(cycles) {}

    ARCBEAM_DEVICE void start() {
        simt::block_barrier();
        began_ = simt::cycles();
    }

    template <class Stage>
    ARCBEAM_DEVICE void stop(Stage stage) const {
        simt::block_barrier();
        if (simt::thread_rank() == 0U) {
            std::uint64_t* const sum = cycles_ + static_cast<std::uint32_t>(stage);
            simt::store(sum, simt::load(sum) + (simt::cycles() - began_));
        }
    }

  private:
    std::uint64_t* cycles_;
    std::uint64_t began_ = 0U;
};

// The tokens of the frame before, in the order of the log, which they end. The lane's words are reset already.
ARCBEAM_DEVICE void set_tokens(const SearchParams& params, const FrameToken* tokens, std::uint32_t num_tokens,
                               std::uint32_t log_size, Lane& lane) {
    Control& control = *lane.control;
    lane.state.num_tokens = num_tokens;
    lane.state.log_size = log_size;
    lane.num_milestones = 0U;
    lane.tokens = room_for(lane, num_tokens, 0U);
    if (simt::thread_rank() == 0U) {
        simt::store(&control.bad_column, kNoIndex);
        simt::store(&control.smallest_acoustic, kNoCost);
        simt::store(params.path_pool_used, 0U);
    }
    for (std::uint32_t i = simt::thread_rank(); i < num_tokens; i += simt::block_size()) {
        const FrameToken token = simt::load(tokens + i);
        const StateArcs arcs = load_row(params.graph, token.state).arcs;
        lane.tokens.token[i] = Token{token.cost, arcs.first_emitting, arcs.arcs_end, arcs.smallest_weight};
        lane.tokens.state[i] = token.state;
        lane.tokens.milestone[i] = kNoIndex;
    }
    simt::block_barrier();
    load_acoustic(params, lane.utterance, 0U, lane.acoustic, control);
}

// Runs the stages so many times, the last time writing down what they make: `run(write)` is false where something
// had no room, or nothing was to be admitted. The lane is carved already, and gets the rest of what a frame needs.
template <class Params, class Run>
ARCBEAM_DEVICE void run_turns(const Params& params, const SearchParams& search, Lane& lane, const Run& run) {
    const std::uint64_t began = simt::cycles();
    lane.counts = Counts{};
    lane.state = LaneState{};
    lane.state.spill = params.spill;
    lane.state.log = params.log;
    lane.state.log_capacity = params.log_capacity;
    lane.state.started = 1U;
    lane.state.alive = 1U;
    lane.utterance = UtteranceView{params.log_probs,  static_cast<std::int64_t>(search.columns), 1U, 0U, kNoIndex,
                                   search.graph.start};
    bool ended = true;
    for (std::uint32_t turn = 0U; turn < params.turns && ended; ++turn) {
        ended = run(turn + 1U == params.turns);
        simt::block_barrier();
    }
    if (simt::thread_rank() == 0U) {
        params.result->ended = ended ? 1U : 0U;
        params.result->all_cycles = simt::cycles() - began;
    }
}

}  // namespace arcbeam
