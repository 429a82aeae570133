// Stage backtrack: the best token of the last live frame, and its path. The rule is the twin's,
// cpu_reference/decode/backtrack.hpp.
//
// best_end    finds control.best_end and control.end_index; returns in all threads whether a final state was
// reached write_path  copies the path's arcs, last one first, to the path pool; false if the pool is full
//
// A path is a chain of loads, each of which waits for the one before. The milestones that it passes, one in
// kMilestoneFrames frames, cut it into stretches that threads follow side by side:
//
//     milestones      m3 ----------> m2 ----------> m1 -> none        followed by one thread
//     log        end > > > > > > m3 > > > > > m2 > > > > > m1 > > > > first entry
//     thread         0                1              2            3
#pragma once

#include "decode/frame.cuh"

namespace arcbeam {

ARCBEAM_DEVICE std::uint64_t end_key(const DeviceGraphView& graph, const Tokens& tokens, std::uint32_t index,
                                     bool final_only) {
    const std::uint32_t state = tokens.state[index];
    float cost = simt::load(&tokens.token.at(index)->cost);
    if (final_only) {
        cost = extend_epsilon(cost, simt::load_readonly(graph.finals + state));
        if (!is_finite(cost)) {
            return kNoPacked;
        }
    }
    return pack(cost, state);
}

ARCBEAM_DEVICE bool best_end(const DeviceGraphView& graph, const Tokens& tokens, std::uint32_t n, bool alive,
                             Control& control) {
    bool reached_final = alive;
    for (;;) {
        if (simt::thread_rank() == 0U) {
            simt::store(&control.best_end, kNoPacked);
        }
        simt::block_barrier();
        for (std::uint32_t i = simt::thread_rank(); i < n; i += simt::block_size()) {
            simt::atomic_min<Scope::block>(&control.best_end, end_key(graph, tokens, i, reached_final));
        }
        simt::block_barrier();
        const std::uint64_t best = simt::load(&control.best_end);
        if (best != kNoPacked || !reached_final) {
            for (std::uint32_t i = simt::thread_rank(); i < n; i += simt::block_size()) {
                if (end_key(graph, tokens, i, reached_final) == best) {
                    simt::store(&control.end_index, i);
                }
            }
            simt::block_barrier();
            return reached_final;
        }
        reached_final = false;
        simt::block_barrier();
    }
}

constexpr std::uint32_t kStretches = 128U;

// Finds where the stretches of the path to `end` begin: at the end, and at milestones, of which several may be
// skipped so that there are no more than kStretches. One thread does it. Returns how many there are.
ARCBEAM_DEVICE std::uint32_t find_stretches(const Lane& lane, std::uint32_t end,
                                            const Array<std::uint32_t>& first) {
    const Milestone* all = milestones(lane.state);
    const std::uint32_t last = lane.tokens.milestone[end];
    std::uint32_t passed = 0U;
    for (std::uint32_t at = last; at != kNoIndex; at = simt::load(all + at).before) {
        ++passed;
    }
    const std::uint32_t step = passed / (kStretches - 1U) + 1U;
    const std::uint32_t end_entry = lane.state.log_size - lane.state.num_tokens + end;
    std::uint32_t found = 0U;
    first[found++] = end_entry;
    std::uint32_t skipped = 0U;
    for (std::uint32_t at = last; at != kNoIndex;) {
        const Milestone milestone = simt::load(all + at);
        if (++skipped == step && milestone.entry != end_entry) {
            first[found++] = milestone.entry;
        }
        skipped = skipped == step ? 0U : skipped;
        at = milestone.before;
    }
    return found;
}

// The arcs of a stretch, last one first: calls write(i, arc) for each and returns their number.
template <class Write>
ARCBEAM_DEVICE std::uint32_t follow_stretch(const LogEntry* log, std::uint32_t from, std::uint32_t to,
                                            const Write& write) {
    std::uint32_t arcs = 0U;
    for (std::uint32_t at = from; at != to; ++arcs) {
        const LogEntry entry = simt::load(log + at);
        if (entry.arc == kNoIndex) {
            break;
        }
        write(arcs, entry.arc);
        at = entry.source;
    }
    return arcs;
}

ARCBEAM_DEVICE bool write_path(const SearchParams& params, Lane& lane) {
    Control& control = *lane.control;
    const std::uint32_t thread = simt::thread_rank();
    const Array<std::uint32_t> first{lane.histogram.data, kStretches};
    const Array<std::uint32_t> length{lane.histogram.data + kStretches, kStretches};
    if (thread == 0U) {
        simt::store(&control.rank, find_stretches(lane, simt::load(&control.end_index), first));
    }
    simt::block_barrier();
    const std::uint32_t stretches = simt::load(&control.rank);
    for (std::uint32_t i = thread; i < stretches; i += simt::block_size()) {
        const std::uint32_t to = i + 1U < stretches ? static_cast<std::uint32_t>(first[i + 1U]) : kNoIndex;
        length[i] = follow_stretch(lane.state.log, first[i], to, [](std::uint32_t, std::uint32_t) {});
    }
    simt::block_barrier();
    if (thread == 0U) {
        std::uint32_t arcs = 0U;
        for (std::uint32_t i = 0U; i < stretches; ++i) {
            const std::uint32_t own = length[i];
            length[i] = arcs;
            arcs += own;
        }
        const std::uint32_t begin = simt::atomic_add<Scope::device>(params.path_pool_used, arcs);
        const bool fits = begin <= params.path_pool_capacity && arcs <= params.path_pool_capacity - begin;
        simt::store(&control.selected, fits ? begin : kNoIndex);
        if (fits) {
            UtteranceResult& result = params.results[lane.state.utterance];
            result.path_begin = begin;
            result.path_length = arcs;
        }
    }
    simt::block_barrier();
    const std::uint32_t begin = simt::load(&control.selected);
    if (begin == kNoIndex) {
        return false;
    }
    for (std::uint32_t i = thread; i < stretches; i += simt::block_size()) {
        const std::uint32_t to = i + 1U < stretches ? static_cast<std::uint32_t>(first[i + 1U]) : kNoIndex;
        std::uint32_t* const into = params.path_pool + begin + length[i];
        follow_stretch(lane.state.log, first[i], to,
                       [into](std::uint32_t at, std::uint32_t arc) { simt::store(into + at, arc); });
    }
    return true;
}

}  // namespace arcbeam
