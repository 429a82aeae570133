// Checks for the end of a stream's sentence between two frames. The rule is the twin's,
// cpu_reference/decode/streams/endpoint.hpp.
//
// bounds_of  how many frames are to be decoded before something else happens
// look       in: so many frames of the chunk have been decoded, or the search died before; the best token has been
//            found without final weights, or for a second call with them
//            out: the next bounds, and result.fired if the sentence has ended. A barrier was passed.
//
// Where a sentence is stands in its result, not in the lane, whose words are in registers while frames are decoded.
// After the search has died nothing changes but the number of silent frames, so one call finds the end among all
// frames of the chunk. Others check again when it is time.
#pragma once

#include "decode/backtrack.cuh"

namespace arcbeam {

// Whether the utterances of a launch are chunks of streams.
template <class Search>
ARCBEAM_DEVICE bool of_streams(const SearchParams& params) {
    return Search::kStreams && params.streams != nullptr;
}

// The words of the state that the chunk before has left; null: there is none.
ARCBEAM_DEVICE const StreamState* words_before(const StreamView& view) {
    return reinterpret_cast<const StreamState*>(view.before);
}

ARCBEAM_DEVICE std::uint64_t dead_before(const StreamView& view) {
    return view.before == nullptr ? 0U : simt::load(&words_before(view)->dead_frames);
}

// Frames of silence at the end of the path to an entry of the log; kNoIndex: to what has left the log. One thread
// calls this.
template <class Search>
ARCBEAM_DEVICE std::uint64_t silence_at(const typename Search::Params& params, std::uint32_t utterance,
                                        const StreamView& view, const LogEntry* log, std::uint32_t end) {
    if (view.columns == nullptr) {
        return 0U;
    }
    std::uint64_t silence = 0U;
    ARCBEAM_ROLLED
    for (std::uint32_t at = end; at != kNoIndex;) {
        const LogEntry entry = simt::load(log + at);
        at = entry.source;
        const std::uint16_t column =
            entry.arc == kNoIndex ? kEpsilonColumn
                                  : simt::load_readonly(Search::columns(params, utterance, view) + entry.arc);
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
    std::uint32_t end;    // the frames that the utterance has
    std::uint32_t check;  // the frames before the next check, or before the end if that comes first
    bool has_check;
};

template <class Search>
ARCBEAM_DEVICE Bounds bounds_of(const SearchParams& params, const Lane& lane) {
    if (!of_streams<Search>(params)) {
        return {lane.utterance.frames, lane.utterance.frames, false};
    }
    const UtteranceResult& result = params.results[lane.state.utterance];
    const std::uint32_t end = simt::load(&result.taken);
    const std::uint32_t check = simt::load(&result.next_check);
    return check <= end ? Bounds{end, check, true} : Bounds{end, end, false};
}

// The rule that ends a sentence, if any does, after so many frames of the chunk.
struct Ending {
    std::uint32_t rule;
    std::uint32_t frames;
};

// The first check within these bounds at which a rule holds, whatever the end costs that a live search would find;
// the last check if there is none. One thread calls this. `silence`: that of the best path.
ARCBEAM_DEVICE Ending first_ending(const StreamView& view, const LaneState& state, const Bounds& bounds,
                                   std::uint64_t silence) {
    const bool alive = state.alive != 0U;
    Ending found{kNoEndpoint, bounds.check};
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

// Returns whether the end has to be found with final weights, and judged again. `of_end`: it has been. What is
// known by then waits in the histogram.
template <class Search>
ARCBEAM_DEVICE bool check_endpoint(const typename Search::Params& given, const Lane& lane, const Bounds& bounds,
                                   bool of_end, bool reached_final) {
    const SearchParams& params = Search::common(given);
    Control& control = *lane.control;
    const Array<std::uint32_t> kept = lane.histogram;
    if (simt::thread_rank() == 0U) {
        const StreamView& view = params.streams[lane.state.utterance];
        const bool alive = lane.state.alive != 0U;
        const float cost = packed_cost(simt::load(&control.best_end));
        Ending found;
        bool needs_final = false;
        if (!of_end) {
            const std::uint32_t first_token = lane.state.log_size - lane.state.num_tokens;
            const std::uint64_t silence =
                dead_before(view) + silence_at<Search>(given, lane.state.utterance, view, lane.state.log,
                                                       first_token + simt::load(&control.end_index));
            found = first_ending(view, lane.state, bounds, silence);
            needs_final = alive && found.rule != kNoEndpoint && needs_end_cost(view.rules.rules[found.rule - 1U]);
            kept[0] = static_cast<std::uint32_t>(silence);
            kept[1] = static_cast<std::uint32_t>(silence >> 32U);
            kept[2] = ordered(cost);
        } else {
            const std::uint64_t silence = std::uint64_t{kept[1]} << 32U | kept[0];
            const float relative = relative_cost(reached_final ? cost : kInfiniteCost, from_ordered(kept[2]));
            found = {rule_that_holds(view.rules, view.frames + bounds.check, silence, relative), bounds.check};
        }
        if (!needs_final) {
            const bool holds = found.rule != kNoEndpoint;
            UtteranceResult& result = params.results[lane.state.utterance];
            simt::store(&result.fired, found.rule);
            simt::store(&result.taken, holds ? found.frames : bounds.end);
            simt::store(&result.next_check, holds || !alive ? kNoIndex : found.frames + view.rules.every);
        }
        simt::store(&control.selected, needs_final ? 1U : 0U);
    }
    simt::block_barrier();
    const bool needs_final = simt::load(&control.selected) != 0U;
    simt::block_barrier();
    return needs_final;
}

}  // namespace arcbeam
