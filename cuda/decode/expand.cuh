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
//
// Work is shared out in chunks of eight arcs, the columns of which are one load:
//
//     a warp's tokens   t0: 3 chunks   t1: 0 (cannot be within the bound)   t2: 70   ...
//     first chunk of     0              3                                    3         73
//     its lanes         t0 t0 t0 t2 t2 t2 ...   in rounds of 32 chunks, each finding its token in the prefix sum
//
// so a state of many arcs is spread over the warp, and states of few arcs share a round.
#pragma once

#include "decode/team.cuh"
#include "decode/workspace.cuh"

namespace arcbeam {

struct ExpandInput {
    const Tokens& tokens;
    std::uint32_t num_tokens;
    std::uint32_t first_log;
    float cutoff;
    const Array<float>& acoustic;
    float smallest_acoustic;
    float known_bound;
};

// What a lane must know of a token to follow its arcs.
struct Leaving {
    float cost;
    float smallest_weight;
    std::uint32_t first;
    std::uint32_t end;
};

template <class Team>
ARCBEAM_DEVICE float running_bound(const ExpandInput& in, float beam, Control& control) {
    const std::uint32_t best = simt::load_relaxed<Team::kScope>(&control.best);
    if (best == kNoCost) {
        return in.known_bound;
    }
    const float bound = beam_bound(from_ordered(best), beam);
    return bound < in.known_bound ? bound : in.known_bound;
}

template <class Team>
ARCBEAM_DEVICE void follow(const SearchParams& params, const ExpandInput& in, const Leaving& from,
                           std::uint32_t token, std::uint32_t arc, float acoustic, const Workspace& work,
                           Control& control) {
    const ArcTarget target = simt::load_readonly(params.graph.targets + arc);
    const float reached = extend(from.cost, acoustic, target.weight);
    if (!admits(running_bound<Team>(in, params.beam, control), reached)) {
        return;
    }
    const std::uint32_t key = ordered(reached);
    if (key < simt::load_relaxed<Team::kScope>(&control.best)) {
        simt::atomic_min<Team::kScope>(&control.best, key);
    }
    const std::uint32_t at = simt::atomic_add<Team::kScope>(&control.num_candidates, 1U);
    if (at < work.candidate.size) {
        work.candidate[at] = pack(reached, arc);
        work.candidate_place[at] = target.next_state;
        work.candidate_source[at] = in.first_log + token;
    }
}

// The arcs of chunk `first_arc / kChunk` that belong to the token.
template <class Team>
ARCBEAM_DEVICE void leave(const SearchParams& params, const ExpandInput& in, const Leaving& from,
                          std::uint32_t token, std::uint32_t first_arc, const Workspace& work, Control& control) {
    const auto columns =
        simt::load_readonly(reinterpret_cast<const ColumnChunk*>(params.graph.columns + first_arc));
    std::uint32_t left = 0U;  // arcs of the token, a bit each
    float acoustic[kChunk];
    float least = kInfiniteCost;
    std::uint32_t cheapest = 0U;
    for (std::uint32_t i = 0U; i < kChunk; ++i) {
        const std::uint32_t arc = first_arc + i;
        const bool own = arc >= from.first && arc < from.end;
        left |= own ? 1U << i : 0U;
        acoustic[i] = own ? static_cast<float>(in.acoustic[columns.column(i)]) : kInfiniteCost;
        cheapest = acoustic[i] < least ? i : cheapest;
        least = acoustic[i] < least ? acoustic[i] : least;
    }
    float bound = running_bound<Team>(in, params.beam, control);
    if (bound == kInfiniteCost && least < kInfiniteCost) {
        // Nothing is known yet, so all are affordable: the cheapest label goes first, and the others may fall to
        // it.
        follow<Team>(params, in, from, token, first_arc + cheapest, least, work, control);
        left &= ~(1U << cheapest);
        bound = running_bound<Team>(in, params.beam, control);
    }
    for (std::uint32_t i = 0U; i < kChunk; ++i) {
        if (!(extend(from.cost, acoustic[i], from.smallest_weight) <= bound)) {
            left &= ~(1U << i);
        }
    }
    for (; left != 0U; left &= left - 1U) {
        const std::uint32_t i = simt::lowest_bit(left);
        follow<Team>(params, in, from, token, first_arc + i, in.acoustic[columns.column(i)], work, control);
    }
}

template <class Team>
ARCBEAM_DEVICE void expand(const SearchParams& params, const ExpandInput& in, const Workspace& work,
                           Control& control, Counts& counts) {
    const std::uint32_t lane = simt::lane();
    const std::uint32_t warps = Team::size() / simt::kWarpSize;
    const std::uint32_t share = (in.num_tokens + warps - 1U) / warps;  // all warps work, also when tokens are few
    const std::uint32_t width = share < simt::kWarpSize ? share : simt::kWarpSize;
    for (std::uint32_t base = Team::rank() / simt::kWarpSize * width; base < in.num_tokens; base += warps * width) {
        const std::uint32_t token = base + lane;
        Leaving own{0.0F, 0.0F, 0U, 0U};
        std::uint32_t chunks = 0U;
        if (lane < width && token < in.num_tokens && in.tokens.cost[token] <= in.cutoff) {
            own = {in.tokens.cost[token], in.tokens.smallest_weight[token], in.tokens.first_emitting[token],
                   in.tokens.arcs_end[token]};
            counts.leaving_arcs += own.end - own.first;
            if (own.first < own.end && extend(own.cost, in.smallest_acoustic, own.smallest_weight) <=
                                           running_bound<Team>(in, params.beam, control)) {
                chunks = (own.end - 1U) / kChunk - own.first / kChunk + 1U;
            }
        }
        std::uint32_t ends = chunks;  // the sum up to this lane's token
        for (std::uint32_t distance = 1U; distance < simt::kWarpSize; distance *= 2U) {
            const std::uint32_t before = simt::shuffle_up(simt::kAllLanes, ends, distance);
            ends += lane >= distance ? before : 0U;
        }
        const std::uint32_t all = simt::shuffle(simt::kAllLanes, ends, simt::kWarpSize - 1U);
        for (std::uint32_t round = 0U; round < all; round += simt::kWarpSize) {
            const std::uint32_t chunk = round + lane;
            std::uint32_t owner = 0U;  // the first lane whose chunks end behind this one
            for (std::uint32_t step = simt::kWarpSize / 2U; step != 0U; step /= 2U) {
                owner += simt::shuffle(simt::kAllLanes, ends, owner + step - 1U) <= chunk ? step : 0U;
            }
            const Leaving from{simt::shuffle(simt::kAllLanes, own.cost, owner),
                               simt::shuffle(simt::kAllLanes, own.smallest_weight, owner),
                               simt::shuffle(simt::kAllLanes, own.first, owner),
                               simt::shuffle(simt::kAllLanes, own.end, owner)};
            const std::uint32_t first_chunk = simt::shuffle(simt::kAllLanes, ends - chunks, owner);
            if (chunk < all) {
                leave<Team>(params, in, from, base + owner, (from.first / kChunk + chunk - first_chunk) * kChunk,
                            work, control);
            }
            simt::warp_sync(simt::kAllLanes);
        }
    }
}

}  // namespace arcbeam
