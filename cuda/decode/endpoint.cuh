// Looks for the end of a stream's sentence between two frames. The rule is the twin's,
// cpu_reference/decode/endpoint.hpp.
//
// bounds_of  how many frames are to be decoded before something else happens
// look       in: so many frames of the chunk have been decoded, or the search died before; out: the next bounds,
// and
//            result.fired if the sentence has ended; or what the lane lacks first
//
// Where a sentence is stands in its result, not in the lane, whose words are in registers while frames are decoded.
// After the search has died nothing changes but the number of silent frames, so one call finds the end among all
// frames of the chunk. Others look again when it is time.
#pragma once

#include "decode/backtrack.cuh"

namespace arcbeam {

// The words of the state that the chunk before has left; null: there is none.
ARCBEAM_DEVICE const StreamState* words_before(const StreamView& view) {
    return reinterpret_cast<const StreamState*>(view.before);
}

ARCBEAM_DEVICE std::uint64_t dead_before(const StreamView& view) {
    return view.before == nullptr ? 0U : simt::load(&words_before(view)->dead_frames);
}

// Frames of silence at the end of the path to an entry of the log; kNoIndex: to what has left the log. One thread
// calls this.
ARCBEAM_DEVICE std::uint64_t silence_at(const StreamView& view, const LogEntry* log, std::uint32_t end) {
    if (view.columns == nullptr) {
        return 0U;
    }
    std::uint64_t silence = 0U;
    ARCBEAM_ROLLED
    for (std::uint32_t at = end; at != kNoIndex;) {
        const LogEntry entry = simt::load(log + at);
        at = entry.source;
        const std::uint16_t column =
            entry.arc == kNoIndex ? kEpsilonColumn : simt::load_readonly(view.columns + entry.arc);
        if (column == kEpsilonColumn) {
            continue;
        }
        if (!reads_silence(view.rules, column)) {
            return silence;
        }
        ++silence;
    }
    return silence + (view.before == nullptr ? 0U : simt::load(&words_before(view)->settled_silence));
}

struct Bounds {
    std::uint32_t end;   // the frames that the utterance has
    std::uint32_t look;  // the frames before the next look, or before the end if that comes first
    bool looks;
};

ARCBEAM_DEVICE Bounds bounds_of(const SearchParams& params, const Lane& lane) {
    if (params.streams == nullptr) {
        return {lane.utterance.frames, lane.utterance.frames, false};
    }
    const UtteranceResult& result = params.results[lane.state.utterance];
    const std::uint32_t end = simt::load(&result.taken);
    const std::uint32_t look = simt::load(&result.next_look);
    return look <= end ? Bounds{end, look, true} : Bounds{end, end, false};
}

// The rule that ends a sentence, if any does, after so many frames of the chunk.
struct Ending {
    std::uint32_t rule;
    std::uint32_t frames;
};

// The first look within these bounds at which a rule holds, whatever the end costs that a live search would find;
// the last look if there is none. One thread calls this. `silence`: that of the best path.
ARCBEAM_DEVICE Ending first_ending(const StreamView& view, const LaneState& state, const Bounds& bounds,
                                   std::uint64_t silence) {
    const bool alive = state.alive != 0U;
    Ending found{kNoEndpoint, bounds.look};
    ARCBEAM_ROLLED
    for (;;) {
        const std::uint32_t dead = alive ? 0U : found.frames - state.frame;
        found.rule = rule_that_holds(view.rules, view.frames + found.frames, silence + dead,
                                     alive ? -kInfiniteCost : kInfiniteCost);
        if (alive || found.rule != kNoEndpoint || view.rules.every > bounds.end - found.frames) {
            return found;
        }
        found.frames += view.rules.every;
    }
}

template <class Search>
ARCBEAM_DEVICE Need look(const typename Search::Params& params, typename Search::Lane& lane, const Bounds& bounds) {
    const SearchParams& common = Search::common(params);
    const StreamView& view = common.streams[lane.state.utterance];
    Control& control = *lane.control;
    std::uint64_t silence = 0U;  // thread 0 alone knows it
    float best = 0.0F;
    ARCBEAM_ROLLED
    for (bool of_end = false;;
         of_end = true) {  // the best token without final weights; then with them, if asked for
        bool reached_final;
        if (!Search::find_end(params, lane, of_end, reached_final)) {
            return Search::lacks(lane);
        }
        const float cost = packed_cost(simt::load(&control.best_end));
        if (simt::thread_rank() == 0U) {
            Ending found;
            if (!of_end) {
                const std::uint32_t first_token = lane.state.log_size - lane.state.num_tokens;
                silence = dead_before(view) +
                          silence_at(view, lane.state.log, first_token + simt::load(&control.end_index));
                found = first_ending(view, lane.state, bounds, silence);
            } else {
                const float relative = relative_cost(reached_final ? cost : kInfiniteCost, best);
                found = {rule_that_holds(view.rules, view.frames + bounds.look, silence, relative), bounds.look};
            }
            simt::store(&control.selected, found.rule);
            simt::store(&control.rank, found.frames);
        }
        simt::block_barrier();
        const Ending found{simt::load(&control.selected), simt::load(&control.rank)};
        best = cost;
        const bool holds = found.rule != kNoEndpoint;
        const bool alive = lane.state.alive != 0U;
        if (!of_end && holds && alive && asks_for_end(view.rules.rules[found.rule - 1U])) {
            continue;
        }
        if (simt::thread_rank() == 0U) {
            UtteranceResult& result = common.results[lane.state.utterance];
            simt::store(&result.fired, found.rule);
            simt::store(&result.taken, holds ? found.frames : bounds.end);
            simt::store(&result.next_look, holds || !alive ? kNoIndex : found.frames + view.rules.every);
        }
        simt::block_barrier();
        return Need::nothing;
    }
}

}  // namespace arcbeam
