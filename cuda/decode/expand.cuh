// Stage expand: the emitting arcs of the tokens within the cut-off. Contract and rule are the twin's,
// cpu_reference/decode/expand.hpp.
//
// in   tokens[n] with log indices first_log + i, the cut-off, the acoustic costs and the smallest of them,
//      a bound that the next frame's is known not to exceed (+inf: nothing known)
// out  control.best: the exact smallest cost; candidates: every arc within the final bound and some above it;
//      control.num_candidates: how many there were, room or no room. A barrier must follow.
//
// The bound that filters candidates falls while threads read it. That changes which candidates above the final
// bound are noted, never which are within it; what is admitted is decided after the barrier, by the exact bound.
// States of few arcs are shared by groups of 8 lanes, the others by whole warps.
#pragma once

#include "decode/workspace.cuh"

namespace arcbeam {

constexpr std::uint32_t kGroup = 8U;  // lanes
constexpr std::uint32_t kFewArcs = 16U;

struct ExpandInput {
    const Tokens& tokens;
    std::uint32_t num_tokens;
    std::uint32_t first_log;
    float cutoff;
    const Array<float>& acoustic;
    float smallest_acoustic;
    float known_bound;
};

ARCBEAM_DEVICE float running_bound(const ExpandInput& in, float beam, Control& control) {
    const std::uint32_t best = simt::load_relaxed<Scope::block>(&control.best);
    if (best == kNoCost) {
        return in.known_bound;
    }
    const float bound = beam_bound(from_ordered(best), beam);
    return bound < in.known_bound ? bound : in.known_bound;
}

ARCBEAM_DEVICE void leave(const SearchParams& params, const ExpandInput& in, std::uint32_t token,
                          std::uint32_t first, std::uint32_t step, const Workspace& work, Control& control) {
    const float cost = in.tokens.cost[token];
    const float smallest_weight = in.tokens.smallest_weight[token];
    if (extend(cost, in.smallest_acoustic, smallest_weight) > running_bound(in, params.beam, control)) {
        return;
    }
    const std::uint32_t end = in.tokens.arcs_end[token];
    for (std::uint32_t arc = in.tokens.first_emitting[token] + first; arc < end; arc += step) {
        const std::uint32_t column = simt::load_readonly(params.graph.columns + arc);
        const float acoustic = in.acoustic[column];
        if (extend(cost, acoustic, smallest_weight) > running_bound(in, params.beam, control)) {
            continue;
        }
        const ArcTarget target = simt::load_readonly(params.graph.targets + arc);
        const float reached = extend(cost, acoustic, target.weight);
        if (!admits(running_bound(in, params.beam, control), reached)) {
            continue;
        }
        const std::uint32_t key = ordered(reached);
        if (key < simt::load_relaxed<Scope::block>(&control.best)) {
            simt::atomic_min<Scope::block>(&control.best, key);
        }
        const std::uint32_t at = simt::atomic_add<Scope::block>(&control.num_candidates, 1U);
        if (at < work.candidate.size) {
            work.candidate[at] = pack(reached, arc);
            work.candidate_place[at] = target.next_state;
            work.candidate_source[at] = in.first_log + token;
        }
    }
}

ARCBEAM_DEVICE void expand(const SearchParams& params, const ExpandInput& in, const Workspace& work,
                           Control& control, Counts& counts) {
    const std::uint32_t lane = simt::lane();
    // States of many arcs first, a warp each: a warp looks at as many tokens as it has lanes.
    for (std::uint32_t base = simt::warp() * simt::kWarpSize; base < in.num_tokens; base += simt::block_size()) {
        const std::uint32_t token = base + lane;
        bool many = false;
        if (token < in.num_tokens && in.tokens.cost[token] <= in.cutoff) {
            const std::uint32_t arcs = in.tokens.arcs_end[token] - in.tokens.first_emitting[token];
            counts.leaving_arcs += arcs;
            many = arcs > kFewArcs;
        }
        for (std::uint32_t left = simt::ballot(simt::kAllLanes, many); left != 0U; left &= left - 1U) {
            leave(params, in, base + simt::lowest_bit(left), lane, simt::kWarpSize, work, control);
        }
    }
    const std::uint32_t groups = simt::block_size() / kGroup;
    for (std::uint32_t token = simt::thread_rank() / kGroup; token < in.num_tokens; token += groups) {
        if (in.tokens.cost[token] <= in.cutoff &&
            in.tokens.arcs_end[token] - in.tokens.first_emitting[token] <= kFewArcs) {
            leave(params, in, token, simt::thread_rank() % kGroup, kGroup, work, control);
        }
    }
}

}  // namespace arcbeam
