// Stage backtrack: the best token of the last live frame, and its path. The rule is the twin's,
// cpu_reference/decode/backtrack.hpp.
//
// best_end    finds control.best_end and control.end_index; returns in all threads whether a final state was
// reached write_path  copies the path's arcs, last one first, to the path pool; false if the pool is full
//
// A path is a chain of loads, each of which waits for the one before. It is cut into stretches that threads follow
// in parallel. In the part of the log that has not moved since, stretches begin at the milestones on the path, one
// in kMilestoneFrames frames. In the settled part they begin anywhere, because every settled entry is on the path:
//
//     milestones      m3 ----------> m2 -> none                          followed by one thread
//     log        end > > > > > > m3 > > > > > m2 > > > > | > > > > s2 > > > > s1 > > > > s0
//     thread         0                1             2      settled   3           4
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

ARCBEAM_DEVICE bool best_end(const DeviceGraphView& graph, const Tokens& tokens, std::uint32_t n, bool finals,
                             Control& control) {
    bool reached_final = finals;
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

constexpr std::uint32_t kStretches = 128U;  // of the young part of a path; the settled part has as many at most

// The stretches of a path, in the memory of a frame's rounds. Those of the settled part may be in another order
// than on the path, because the entries of one frame have no fixed order.
struct Stretches {
    Array<std::uint32_t> first;  // [young]: the entry at which each begins, from the end of the path on
    // [young + settled]: number of arcs; later the number of arcs that follow it on the path
    Array<std::uint32_t> length;
    Array<std::uint32_t> next;  // [young + settled]: the stretch that it leads to; kNoIndex: none
    std::uint32_t young;
    std::uint32_t settled;
    std::uint32_t settled_entries;
    std::uint32_t step;  // settled stretches begin at every step-th entry

    ARCBEAM_DEVICE std::uint32_t begin(std::uint32_t i) const { return i < young ? first[i] : (i - young) * step; }

    // The stretch that begins at an entry which stretch i has reached.
    ARCBEAM_DEVICE std::uint32_t at(std::uint32_t entry, std::uint32_t i) const {
        if (entry < settled_entries) {
            return entry % step == 0U ? young + entry / step : kNoIndex;
        }
        return i + 1U < young && entry == first[i + 1U] ? i + 1U : kNoIndex;
    }
};

ARCBEAM_DEVICE Stretches stretches_of(const Lane& lane) {
    static_assert(6U * kStretches <= 2U * kSharedRounds, "the rounds have room for the stretches");
    auto* const memory = reinterpret_cast<std::uint32_t*>(lane.rounds.data);
    const std::uint32_t step = lane.state.settled / kStretches + 1U;
    return {{memory, 2U * kStretches},
            {memory + 2U * kStretches, 2U * kStretches},
            {memory + 4U * kStretches, 2U * kStretches},
            0U,
            (lane.state.settled + step - 1U) / step,
            lane.state.settled,
            step};
}

// Finds where the young stretches of the path to `end` begin: at the end itself and at milestones. Some milestones
// may be skipped, so that there are no more than kStretches. One thread does this. Returns how many there are.
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

// Follows stretch i and calls write(n, arc) for each of its arcs, last one first. Returns their number, and in
// `next` the stretch that it leads to. With lattices the path begins after the entry state.known.
template <bool lattices, class Write>
ARCBEAM_DEVICE std::uint32_t follow_stretch(const LaneState& state, const Stretches& stretches, std::uint32_t i,
                                            std::uint32_t& next, const Write& write) {
    std::uint32_t arcs = 0U;
    next = kNoIndex;
    for (std::uint32_t at = stretches.begin(i); next == kNoIndex; ++arcs) {
        if (lattices && at == state.known) {
            break;
        }
        const LogEntry entry = simt::load(state.log + at);
        if (entry.arc == kNoIndex) {
            break;
        }
        write(arcs, entry.arc);
        at = entry.source;
        next = stretches.at(at, i);
    }
    return arcs;
}

template <bool lattices>
ARCBEAM_DEVICE bool write_path(const SearchParams& params, Lane& lane) {
    Control& control = *lane.control;
    const std::uint32_t thread = simt::thread_rank();
    Stretches stretches = stretches_of(lane);
    if (thread == 0U) {
        simt::store(&control.rank, find_stretches(lane, simt::load(&control.end_index), stretches.first));
    }
    simt::block_barrier();
    stretches.young = simt::load(&control.rank);
    const std::uint32_t all = stretches.young + stretches.settled;
    for (std::uint32_t i = thread; i < all; i += simt::block_size()) {
        std::uint32_t next;
        stretches.length[i] =
            follow_stretch<lattices>(lane.state, stretches, i, next, [](std::uint32_t, std::uint32_t) {});
        stretches.next[i] = next;
    }
    simt::block_barrier();
    if (thread == 0U) {
        std::uint32_t arcs = 0U;
        for (std::uint32_t i = 0U; i != kNoIndex; i = stretches.next[i]) {
            const std::uint32_t own = stretches.length[i];
            stretches.length[i] = arcs;
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
    for (std::uint32_t i = thread; i < all; i += simt::block_size()) {
        std::uint32_t next;
        std::uint32_t* const into = params.path_pool + begin + stretches.length[i];
        follow_stretch<lattices>(lane.state, stretches, i, next,
                                 [into](std::uint32_t n, std::uint32_t arc) { simt::store(into + n, arc); });
    }
    return true;
}

}  // namespace arcbeam
