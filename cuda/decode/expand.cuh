// Stage expand: the emitting arcs of the tokens within the cut-off. Contract and rule are the twin's,
// cpu_reference/decode/expand.hpp.
//
// in   tokens[n] with log indices first_log + i, the cut-off, the acoustic costs and the smallest of them,
//      an upper limit for the next frame's bound (+inf if none is known)
// out  control.best: the exact smallest cost; candidates: every arc within the final bound and some above it;
//      control.num_candidates: how many there were, even if there was no room for all. A barrier was passed.
//
// The bound that filters candidates falls while threads read it. That changes which candidates above the final
// bound are noted, but never which are within it. Admission is decided after the barrier, by the exact bound.
//
// Work is shared out in rounds of 32 chunks of eight arcs, see rounds.cuh. All rounds are listed first, and the
// warps share the list. Meanwhile one warp probes the best token, so that a bound is known before the first arc is
// judged. While a warp judges a round, it already loads the labels of its next one. The few arcs that it finds
// affordable wait in a queue until there are 64: following an arc needs a load, and so many loads wait together.
#pragma once

#include "decode/rounds.cuh"

namespace arcbeam {

// What is read of an arc in addition to its target, and noted for its candidate: nothing. See rescore/boost.cuh.
struct NothingBeside {
    struct Read {};

    ARCBEAM_DEVICE Read read(std::uint32_t) const { return {}; }
    ARCBEAM_DEVICE void note(const Workspace&, std::uint32_t, const Read&) const {}
};

// Follows `count` queued arcs from place `from` of the queue on, two for each thread of the warp.
template <class Team, class Params, class Beside>
ARCBEAM_DEVICE void follow(const Params& params, const ExpandInput& in, std::uint32_t from, std::uint32_t count,
                           const Workspace& work, Control& control, const Beside& beside) {
    constexpr std::uint32_t kEach = kFollowed / simt::kWarpSize;
    const std::uint32_t lane = simt::warp_thread();
    const float bound = running_bound<Team>(in, params.beam, control);  // may have fallen since they were queued
    std::uint32_t arc[kEach];
    std::uint32_t token[kEach];
    float cost[kEach];
    float acoustic[kEach];
    std::uint32_t key[kEach];
    ArcTarget target[kEach];
    typename Beside::Read read[kEach];
    for (std::uint32_t k = 0U; k < kEach; ++k) {
        const std::uint32_t at = k * simt::kWarpSize + lane;
        key[k] = kNoCost;
        target[k] = ArcTarget{0U, kInfiniteCost};
        arc[k] = token[k] = 0U;
        cost[k] = acoustic[k] = 0.0F;
        if (at < count) {
            arc[k] = in.room.arcs[from + at];
            token[k] = in.room.sources[from + at];
            const std::uint32_t label = in.room.labels[from + at];
            const Token source = in.tokens[token[k]];
            cost[k] = source.cost;
            acoustic[k] = in.acoustic[in.labels.column(label)];
            if (extend(cost[k], acoustic[k], in.labels.least_weight(label, source.smallest_weight)) <= bound) {
                target[k] = simt::load_readonly(params.graph.targets + arc[k]);
                read[k] = beside.read(arc[k]);
            }
        }
    }
    std::uint32_t least = kNoCost;
    std::uint32_t all = 0U;
    std::uint32_t noted[kEach];
    for (std::uint32_t k = 0U; k < kEach; ++k) {
        const float reached = extend(cost[k], acoustic[k], target[k].weight);  // infinite where nothing was read
        key[k] = admits(bound, reached) ? ordered(reached) : kNoCost;
        least = key[k] < least ? key[k] : least;
        noted[k] = simt::ballot(simt::kAllThreads, key[k] != kNoCost);
        all += simt::popcount(noted[k]);
    }
    if (all == 0U) {
        return;
    }
    least = simt::reduce_min(simt::kAllThreads, least);
    std::uint32_t at = 0U;
    if (lane == 0U) {
        if (least < simt::load_relaxed<Team::kScope>(&control.best)) {
            simt::atomic_min<Team::kScope>(&control.best, least);
        }
        at = simt::atomic_add<Team::kScope>(&control.num_candidates, all);
    }
    at = simt::shuffle(simt::kAllThreads, at, 0U);
    for (std::uint32_t k = 0U; k < kEach; ++k) {
        const std::uint32_t into = at + simt::place_in(noted[k]);
        if (key[k] != kNoCost && into < work.candidate.size) {
            work.candidate[into] =
                Candidate{pack(from_ordered(key[k]), arc[k]), target[k].next_state, in.first_log + token[k]};
            beside.note(work, into, read[k]);
            simt::prefetch(params.graph.states + target[k].next_state);
        }
        at += simt::popcount(noted[k]);
    }
}

// A lower limit for the cost of the arc.
ARCBEAM_DEVICE float least_cost(const ExpandInput& in, const Chunk& chunk, std::uint32_t arc) {
    const std::uint32_t label = chunk.labels.label(arc);
    return extend(chunk.cost, in.acoustic[in.labels.column(label)],
                  in.labels.least_weight(label, chunk.smallest_weight));
}

// Follows the arcs of the best token that seem cheapest, one for each thread of the warp, to get a first bound.
template <class Team, class Params>
ARCBEAM_DEVICE void probe(const Params& params, const ExpandInput& in, Control& control) {
    const std::uint32_t index = simt::load_relaxed<Team::kScope>(&control.best_token);
    if (index >= in.num_tokens) {
        return;
    }
    const Token token = in.tokens[index];
    Chunk chunk{};
    chunk.cost = token.cost;
    chunk.smallest_weight = token.smallest_weight;
    std::uint32_t cheapest = kNoIndex;
    float column_cost = kInfiniteCost;
    float least = kInfiniteCost;
    for (std::uint32_t first = (token.first_emitting / kChunk + simt::warp_thread()) * kChunk;
         first < token.arcs_end; first += simt::kWarpSize * kChunk) {
        chunk.labels = simt::load_readonly(reinterpret_cast<const LabelChunk*>(params.graph.labels + first));
        for (std::uint32_t i = 0U; i < kChunk; ++i) {
            const std::uint32_t arc = first + i;
            const float cost = least_cost(in, chunk, i);
            if (arc >= token.first_emitting && arc < token.arcs_end && cost < least) {
                least = cost;
                cheapest = arc;
                column_cost = in.acoustic[in.labels.column(chunk.labels.label(i))];
            }
        }
    }
    std::uint32_t key = kNoCost;
    if (cheapest != kNoIndex) {
        const float weight = simt::load_readonly(&params.graph.targets[cheapest].weight);
        const float reached = extend(token.cost, column_cost, weight);
        key = is_finite(reached) ? ordered(reached) : kNoCost;
    }
    key = simt::reduce_min(simt::kAllThreads, key);
    if (simt::warp_thread() == 0U && key != kNoCost) {
        simt::atomic_min<Team::kScope>(&control.best, key);
    }
}

// Those of the arcs that may be within the bound.
ARCBEAM_DEVICE std::uint32_t affordable(const ExpandInput& in, const Chunk& chunk, std::uint32_t arcs,
                                        float bound) {
    std::uint32_t within = 0U;
    for (std::uint32_t i = 0U; i < kChunk; ++i) {
        within |= least_cost(in, chunk, i) <= bound ? 1U << i : 0U;
    }
    return arcs & within;
}

// Judges the arcs of a round and follows the affordable ones. After the `last` round it also follows those that
// still wait.
template <class Team, class Params, class Beside>
ARCBEAM_DEVICE void leave(const Params& params, const ExpandInput& in, const Chunk& chunk, bool last,
                          std::uint32_t& queued, const Workspace& work, Control& control, const Beside& beside) {
    std::uint32_t left = affordable(in, chunk, chunk.own, running_bound<Team>(in, params.beam, control));
    for (;;) {
        const std::uint32_t lanes = simt::ballot(simt::kAllThreads, left != 0U);
        if (left != 0U) {
            const std::uint32_t arc = simt::lowest_bit(left);
            const std::uint32_t at = queued + simt::place_in(lanes);
            in.room.arcs[at] = chunk.first + arc;
            in.room.sources[at] = chunk.token;
            in.room.labels[at] = chunk.labels.label(arc);
            left &= left - 1U;
        }
        queued += simt::popcount(lanes);
        simt::warp_sync(simt::kAllThreads);
        const std::uint32_t least = last && lanes == 0U ? 1U : kFollowed;
        while (queued >= least) {
            const std::uint32_t count = queued < kFollowed ? queued : kFollowed;
            queued -= count;
            follow<Team>(params, in, queued, count, work, control, beside);
            simt::warp_sync(simt::kAllThreads);
        }
        if (lanes == 0U) {
            return;
        }
    }
}

template <class Team, class Params, class Beside>
ARCBEAM_DEVICE void expand(const Params& params, const ExpandInput& in, const Workspace& work, Control& control,
                           Counts& counts, const Beside& beside) {
    list_rounds<Team>(in, control, counts);
    Team::barrier();
    const std::uint32_t warps = Team::size() / simt::kWarpSize;
    const std::uint32_t warp = Team::rank() / simt::kWarpSize;
    const std::uint32_t num_rounds = simt::load(&control.num_rounds);
    // A warp does several successive rounds of the list, most of which belong to the same groups. Where the list
    // had no room for all rounds, a warp does whole groups instead.
    const bool listed = num_rounds <= in.rounds.size;
    const std::uint32_t share = (num_rounds + warps - 1U) / warps;
    const std::uint32_t groups = (in.num_tokens + simt::kWarpSize - 1U) / simt::kWarpSize;
    std::uint32_t at = listed ? warp * share : warp;
    const std::uint32_t end = !listed ? groups : at + share < num_rounds ? at + share : num_rounds;
    if (warp == warps - 1U) {
        probe<Team>(params, in, control);
    }
    std::uint32_t queued = 0U;
    std::uint32_t round = 0U;
    Group group{kNoIndex, 0U, 0U, 0U};
    Chunk waiting{};
    bool pending = false;
    bool probed = false;
    for (bool has = true; has;) {
        Chunk next{};
        if (!listed && round + 1U < group.rounds) {
            ++round;
        } else if (at < end) {
            const std::uint64_t item = listed ? in.rounds[at] : static_cast<std::uint64_t>(at) << 32U;
            const auto number = static_cast<std::uint32_t>(item >> 32U);
            round = static_cast<std::uint32_t>(item);
            if (number != group.number) {
                group = open_group(in, number);
            }
            at += listed ? 1U : warps;
        } else {
            has = false;
        }
        if (has) {
            next = take_round<Team>(params, in, group, round, control);
        }
        if (!probed) {
            Team::barrier();
            probed = true;
        }
        if (pending || (!has && queued != 0U)) {
            leave<Team>(params, in, waiting, !has, queued, work, control, beside);
        }
        waiting = next;
        pending = has;
    }
    Team::barrier();
}

}  // namespace arcbeam
