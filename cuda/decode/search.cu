// The search kernel: every block owns a lane and takes utterances from a queue, longest first, until none is left.
// It returns to the host only when all is done, or when a lane needs more room or log-probs that have not come from
// the host in time; a later launch goes on where it stopped.
//
// launch  any number of blocks (a lane each) of any number of whole warps; shared_bytes() of dynamic shared memory
// The bytes of a result depend on neither.
#include "decode/arrival.cuh"

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

// Puts the lane down until the host has made room, or sent more log-probs.
ARCBEAM_DEVICE void stop(const SearchParams& params, Lane& lane, Need need) {
    if (lane.tokens.state.data == lane.shared_tokens.state.data) {
        copy_tokens(lane.tokens, spilled_tokens(lane.state.spill), lane.state.num_tokens);
    }
    simt::atomic_add<Scope::block>(&lane.control->leaving_arcs, lane.counts.leaving_arcs);
    simt::atomic_add<Scope::block>(&lane.control->admitted, lane.counts.admitted);
    simt::block_barrier();
    lane.state.leaving_arcs += simt::load(&lane.control->leaving_arcs);
    lane.state.admitted += simt::load(&lane.control->admitted);
    lane.state.need = need;
    if (simt::thread_rank() == 0U) {
        params.lanes[simt::block_rank()] = lane.state;
    }
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
    open_utterance(params, lane);
}

// Takes up a lane that stopped: its tokens wait in the spill. False if the log-probs of its frame are not there.
ARCBEAM_DEVICE bool resume_utterance(const SearchParams& params, Lane& lane) {
    open_utterance(params, lane);
    lane.counts = Counts{};
    lane.tokens = spilled_tokens(lane.state.spill);
    if (lane.state.num_tokens <= lane.shared_tokens.state.size) {
        copy_tokens(lane.tokens, lane.shared_tokens, lane.state.num_tokens);
        lane.tokens = lane.shared_tokens;
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

// One frame, in shared memory if it fits, else in the spill.
ARCBEAM_DEVICE FrameEnd one_frame(const SearchParams& params, Lane& lane, const Workspace& work) {
    return lane.state.started != 0U ? advance(params, lane, work) : start(params, lane, work);
}

ARCBEAM_DEVICE FrameEnd one_frame_anywhere(const SearchParams& params, Lane& lane) {
    FrameEnd end = FrameEnd::no_room;
    if (lane.state.num_tokens <= lane.shared_tokens.state.size) {
        end = one_frame(params, lane, lane.shared_work);
    }
    if (end == FrameEnd::no_room) {
        const SpillView& spill = lane.state.spill;
        end = one_frame(params, lane,
                        carve_workspace(spill.memory, spill.capacity, spill.candidates, spill.table_size));
    }
    return end;
}

ARCBEAM_DEVICE void report_bad_row(const SearchParams& params, Lane& lane, std::uint32_t frame) {
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
            report_bad_row(params, lane, frame);
            return Rows::bad;
        }
    }
    return Rows::good;
}

// Writes the result; false if the path pool is full.
ARCBEAM_DEVICE bool finish_utterance(const SearchParams& params, Lane& lane) {
    Control& control = *lane.control;
    const bool final_reached =
        best_end(params.graph, lane.tokens, lane.state.num_tokens, lane.state.alive != 0U, control);
    const std::uint32_t end = simt::load(&control.end_index);
    const std::uint64_t best = simt::load(&control.best_end);
    if (simt::thread_rank() == 0U) {
        UtteranceResult result = params.results[lane.state.utterance];
        const bool written =
            write_path(params, lane.state.log, lane.state.log_size - lane.state.num_tokens + end, result);
        simt::store(&control.stop, static_cast<std::uint32_t>(written ? Need::nothing : Need::paths));
        if (written) {
            result.total_cost = lane.state.offset + static_cast<double>(packed_cost(best));
            result.end_state = packed_arc(best);
            result.reached_final = final_reached ? 1U : 0U;
            result.outcome = Outcome::decoded;
            result.frames = lane.state.frame;
            result.tokens = lane.state.tokens_seen;
            params.results[lane.state.utterance] = result;
        }
    }
    simt::block_barrier();
    const bool written = simt::load(&control.stop) == static_cast<std::uint32_t>(Need::nothing);
    if (written) {
        UtteranceResult& result = params.results[lane.state.utterance];
        simt::atomic_add<Scope::device>(&result.leaving_arcs, lane.counts.leaving_arcs);
        simt::atomic_add<Scope::device>(&result.admitted, lane.counts.admitted);
        if (simt::thread_rank() == 0U) {
            simt::atomic_add<Scope::device>(&result.leaving_arcs, lane.state.leaving_arcs);
            simt::atomic_add<Scope::device>(&result.admitted, lane.state.admitted);
        }
    }
    simt::block_barrier();
    return written;
}

// Decodes the lane's utterance to its end; says what it lacks if it cannot.
ARCBEAM_DEVICE Need decode_utterance(const SearchParams& params, Lane& lane) {
    Control& control = *lane.control;
    while (lane.state.alive != 0U && (lane.state.started == 0U || lane.state.frame < lane.utterance.frames)) {
        if (simt::load(&control.bad_column) != kNoIndex) {
            simt::block_barrier();
            report_bad_row(params, lane, lane.state.frame);
            return Need::nothing;
        }
        // A frame fetches the row of the next one.
        const std::uint32_t row = lane.state.frame + lane.state.started;
        if (row < lane.utterance.frames && !have_row(params, lane, row)) {
            return Need::log_probs;
        }
        const FrameEnd end = one_frame_anywhere(params, lane);
        if (end == FrameEnd::no_room) {
            return Need::spill;
        }
        if (end == FrameEnd::log_full) {
            // Unless that frees half of the log, the next collection would come soon: a larger log then.
            lane.state.log_size = collect_log(lane.state, lane.histogram);
            const std::uint32_t room = lane.state.log_capacity - lane.state.log_size;
            if (room < lane.state.log_capacity / 2U || room < lane.log_wanted) {
                return Need::log;
            }
            continue;
        }
        if (end == FrameEnd::dead) {
            simt::block_barrier();
            reset_frame(control);
            lane.state.alive = 0U;
            simt::block_barrier();
        } else {
            lane.state.frame += lane.state.started;
            lane.state.started = 1U;
        }
    }
    const Rows rows = lane.state.alive == 0U ? check_rows(params, lane, lane.state.frame + 1U) : Rows::good;
    if (rows != Rows::good) {
        return rows == Rows::bad ? Need::nothing : Need::log_probs;
    }
    return finish_utterance(params, lane) ? Need::nothing : Need::paths;
}

}  // namespace arcbeam

ARCBEAM_KERNEL(arcbeam_search, 1024, arcbeam::SearchParams) {
    using namespace arcbeam;
    const std::uint32_t thread = simt::thread_rank();
    unsigned char* memory = simt::shared_memory();
    Lane lane;
    lane.control = reinterpret_cast<Control*>(memory);
    memory += kControlBytes;
    lane.histogram = carve<std::uint32_t>(memory, 256U);
    lane.acoustic = carve<float>(memory, params.columns);
    lane.shared_tokens = carve_tokens(memory, params.shared_capacity);
    lane.shared_work =
        carve_workspace(memory, params.shared_capacity, params.shared_candidates, params.shared_table_size);
    lane.tokens = lane.shared_tokens;
    lane.state = params.lanes[simt::block_rank()];
    free_table(lane.shared_work);
    reset_frame(*lane.control);
    if (thread == 0U) {
        simt::store(&lane.control->bad_column, kNoIndex);
        simt::store(&lane.control->smallest_acoustic, kNoCost);
        simt::store(&lane.control->leaving_arcs, std::uint64_t{0});
        simt::store(&lane.control->admitted, std::uint64_t{0});
    }
    simt::block_barrier();
    bool stopped = lane.state.utterance != kNoIndex;
    for (;;) {
        if (stopped) {
            if (!resume_utterance(params, lane)) {
                stop(params, lane, Need::log_probs);
                return;
            }
            stopped = false;
        } else {
            if (thread == 0U) {
                const std::uint32_t next = simt::atomic_add<Scope::device>(params.next_in_order, 1U);
                simt::store(&lane.control->utterance,
                            next < params.num_utterances ? simt::load_readonly(params.order + next) : kNoIndex);
            }
            simt::block_barrier();
            const std::uint32_t utterance = simt::load(&lane.control->utterance);
            simt::block_barrier();
            lane.state.utterance = utterance;
            if (utterance == kNoIndex) {
                break;
            }
            begin_utterance(params, lane, utterance);
        }
        const Need need = decode_utterance(params, lane);
        if (need != Need::nothing) {
            stop(params, lane, need);
            return;
        }
    }
    lane.state.need = Need::nothing;
    if (thread == 0U) {
        params.lanes[simt::block_rank()] = lane.state;
    }
}
