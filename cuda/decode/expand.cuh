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
//     their first one    0                                                   3
//     its lanes         t0 t0 t0 t2 t2 t2 ...   in rounds of 32 chunks
//
// so a state of many arcs is spread over the warp, and states of few arcs share a round. The few arcs that a round
// finds affordable wait in a queue until there are 32, for to follow one takes a load that none should wait for
// alone.
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
    WarpRoom room;
};

// A chunk of a token's arcs, and what a lane must know to judge them.
struct Chunk {
    ColumnChunk columns;
    std::uint32_t owner;  // the token's place among those of the warp that have chunks
    std::uint32_t first;  // arc of the chunk
    std::uint32_t own;    // arcs of the chunk that are the token's, a bit each; 0: no chunk
    float cost;
    float smallest_weight;
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

// The lane's chunk in the round that begins with chunk `round` of `all`. `starts` has a bit for each chunk of the
// round that is the first of its token; `before` tokens begin before the round.
ARCBEAM_DEVICE Chunk find_chunk(const GraphView& graph, const ExpandInput& in, std::uint32_t round,
                                std::uint32_t all, std::uint32_t starts, std::uint32_t before) {
    Chunk chunk{};
    const std::uint32_t number = round + simt::lane();
    if (number < all) {
        const std::uint32_t up_to_here = starts & (simt::lanes_below() | 1U << simt::lane());
        chunk.owner = before + simt::popcount(up_to_here) - 1U;
        const std::uint32_t token = in.room.tokens[chunk.owner];
        chunk.cost = in.tokens.cost[token];
        chunk.smallest_weight = in.tokens.smallest_weight[token];
        const std::uint32_t first = in.tokens.first_emitting[token];
        const std::uint32_t end = in.tokens.arcs_end[token];
        chunk.first = (first / kChunk + number - in.room.starts[chunk.owner]) * kChunk;
        chunk.columns = simt::load_readonly(reinterpret_cast<const ColumnChunk*>(graph.columns + chunk.first));
        const std::uint32_t skipped = first > chunk.first ? first - chunk.first : 0U;
        const std::uint32_t used = end - chunk.first < kChunk ? end - chunk.first : kChunk;
        chunk.own = (1U << used) - (1U << skipped);
    }
    return chunk;
}

// Follows `count` queued arcs from place `from` of the queue on, one a lane.
template <class Team>
ARCBEAM_DEVICE void follow(const SearchParams& params, const ExpandInput& in, std::uint32_t from,
                           std::uint32_t count, const Workspace& work, Control& control) {
    const std::uint32_t lane = simt::lane();
    std::uint32_t key = kNoCost;
    std::uint32_t arc = 0U;
    std::uint32_t token = 0U;
    float reached = kInfiniteCost;
    ArcTarget target{0U, 0.0F};
    if (lane < count) {
        const std::uint32_t label = in.room.labels[from + lane];
        arc = in.room.arcs[from + lane];
        token = in.room.tokens[label >> 16U];
        const float cost = in.tokens.cost[token];
        const float acoustic = in.acoustic[label & 0xffffU];
        const float bound = running_bound<Team>(in, params.beam, control);  // may have fallen since it was queued
        if (extend(cost, acoustic, in.tokens.smallest_weight[token]) <= bound) {
            target = simt::load_readonly(params.graph.targets + arc);
            reached = extend(cost, acoustic, target.weight);
            key = admits(bound, reached) ? ordered(reached) : kNoCost;
        }
    }
    const std::uint32_t least = simt::reduce_min(simt::kAllLanes, key);
    const std::uint32_t noted = simt::ballot(simt::kAllLanes, key != kNoCost);
    if (noted == 0U) {
        return;
    }
    std::uint32_t at = 0U;
    if (lane == 0U) {
        if (least < simt::load_relaxed<Team::kScope>(&control.best)) {
            simt::atomic_min<Team::kScope>(&control.best, least);
        }
        at = simt::atomic_add<Team::kScope>(&control.num_candidates, simt::popcount(noted));
    }
    at = simt::shuffle(simt::kAllLanes, at, 0U) + simt::place_in(noted);
    if (key != kNoCost && at < work.candidate.size) {
        work.candidate[at] = pack(reached, arc);
        work.candidate_place[at] = target.next_state;
        work.candidate_source[at] = in.first_log + token;
        simt::prefetch(params.graph.states + target.next_state);
    }
}

// Puts one arc of every lane that has some left into the queue; follows 32 when there are so many. `arc` is the
// lane's choice among those left.
template <class Team>
ARCBEAM_DEVICE void queue_arcs(const SearchParams& params, const ExpandInput& in, const Chunk& chunk, bool has,
                               std::uint32_t arc, std::uint32_t& queued, const Workspace& work, Control& control) {
    const std::uint32_t lanes = simt::ballot(simt::kAllLanes, has);
    if (has) {
        const std::uint32_t at = queued + simt::place_in(lanes);
        in.room.arcs[at] = chunk.first + arc;
        in.room.labels[at] = chunk.owner << 16U | chunk.columns.column(arc);
    }
    queued += simt::popcount(lanes);
    simt::warp_sync(simt::kAllLanes);
    if (queued >= simt::kWarpSize) {
        queued -= simt::kWarpSize;
        follow<Team>(params, in, queued, simt::kWarpSize, work, control);
        simt::warp_sync(simt::kAllLanes);
    }
}

// The arc of the chunk with the cheapest label; kChunk if none can be read at all.
ARCBEAM_DEVICE std::uint32_t cheapest_label(const ExpandInput& in, const Chunk& chunk) {
    std::uint32_t cheapest = kChunk;
    float least = kInfiniteCost;
    for (std::uint32_t i = 0U; i < kChunk; ++i) {
        if ((chunk.own >> i & 1U) != 0U && in.acoustic[chunk.columns.column(i)] < least) {
            least = in.acoustic[chunk.columns.column(i)];
            cheapest = i;
        }
    }
    return cheapest;
}

template <class Team>
ARCBEAM_DEVICE void leave(const SearchParams& params, const ExpandInput& in, const Chunk& chunk,
                          std::uint32_t& queued, const Workspace& work, Control& control) {
    std::uint32_t left = chunk.own;
    float bound = running_bound<Team>(in, params.beam, control);
    if (simt::any(simt::kAllLanes, bound == kInfiniteCost)) {
        // Nothing is known yet, so all are affordable: the cheapest label goes first, and the others may fall to
        // it.
        const std::uint32_t cheapest = cheapest_label(in, chunk);
        queue_arcs<Team>(params, in, chunk, cheapest < kChunk, cheapest, queued, work, control);
        left &= ~(1U << cheapest);
        follow<Team>(params, in, 0U, queued, work, control);
        queued = 0U;
        simt::warp_sync(simt::kAllLanes);
        bound = running_bound<Team>(in, params.beam, control);
    }
    for (std::uint32_t i = 0U; i < kChunk; ++i) {
        if ((left >> i & 1U) != 0U &&
            !(extend(chunk.cost, in.acoustic[chunk.columns.column(i)], chunk.smallest_weight) <= bound)) {
            left &= ~(1U << i);
        }
    }
    while (simt::any(simt::kAllLanes, left != 0U)) {
        const bool has = left != 0U;
        queue_arcs<Team>(params, in, chunk, has, has ? simt::lowest_bit(left) : 0U, queued, work, control);
        left &= left - 1U;
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
        std::uint32_t chunks = 0U;
        if (lane < width && token < in.num_tokens && in.tokens.cost[token] <= in.cutoff) {
            const std::uint32_t first = in.tokens.first_emitting[token];
            const std::uint32_t end = in.tokens.arcs_end[token];
            counts.leaving_arcs += end - first;
            if (first < end &&
                extend(in.tokens.cost[token], in.smallest_acoustic, in.tokens.smallest_weight[token]) <=
                    running_bound<Team>(in, params.beam, control)) {
                chunks = (end - 1U) / kChunk - first / kChunk + 1U;
            }
        }
        std::uint32_t ends = chunks;  // the sum up to this lane's token
        for (std::uint32_t distance = 1U; distance < simt::kWarpSize; distance *= 2U) {
            const std::uint32_t before = simt::shuffle_up(simt::kAllLanes, ends, distance);
            ends += lane >= distance ? before : 0U;
        }
        const std::uint32_t all = simt::shuffle(simt::kAllLanes, ends, simt::kWarpSize - 1U);
        const std::uint32_t start = ends - chunks;
        const std::uint32_t owners = simt::ballot(simt::kAllLanes, chunks != 0U);
        if (chunks != 0U) {
            in.room.tokens[simt::place_in(owners)] = token;
            in.room.starts[simt::place_in(owners)] = start;
        }
        simt::warp_sync(simt::kAllLanes);
        std::uint32_t before = 0U;  // tokens that begin before the round
        std::uint32_t queued = 0U;
        for (std::uint32_t round = 0U; round < all; round += simt::kWarpSize) {
            const bool begins = chunks != 0U && start - round < simt::kWarpSize;
            const std::uint32_t starts = simt::reduce_or(simt::kAllLanes, begins ? 1U << (start - round) : 0U);
            const Chunk chunk = find_chunk(params.graph, in, round, all, starts, before);
            before += simt::popcount(starts);
            leave<Team>(params, in, chunk, queued, work, control);
        }
        if (queued != 0U) {
            follow<Team>(params, in, 0U, queued, work, control);
        }
        simt::warp_sync(simt::kAllLanes);
    }
}

}  // namespace arcbeam
