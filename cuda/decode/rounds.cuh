// The work of stage expand in pieces. A group of up to 32 tokens has chunks of eight arcs, whose labels one load
// reads. A round is 32 chunks.
//
//     a warp's tokens    t0: 3 chunks   t1: 0 (cannot be within the bound)   t2: 70   ...
//     their first chunk  0                                                   3
//     its threads        t0 t0 t0 t2 t2 t2 ...   in rounds of 32 chunks
//
// So a state of many arcs is spread over the warp, and states of few arcs share a round.
#pragma once

#include "decode/device_graph.cuh"
#include "decode/launch/team.cuh"
#include "decode/workspace.cuh"

namespace arcbeam {

struct ExpandInput {
    const Array<Token>& tokens;
    std::uint32_t num_tokens;
    std::uint32_t first_log;
    float cutoff;
    const Array<float>& acoustic;
    float smallest_acoustic;
    float known_bound;
    WarpRoom room;
    Array<std::uint64_t> rounds;  // the list: group and number
    ArcLabels labels;
};

// A chunk of a token's arcs, and what a thread needs to prune them.
struct Chunk {
    LabelChunk labels;
    std::uint32_t token;
    std::uint32_t first;  // first arc of the chunk
    std::uint32_t own;    // one bit for each arc of the chunk that is the token's; 0: nothing to judge
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

// The chunk of this thread: number `number` of its group. `starts` has a bit for each chunk of the round that is
// the first of its token; `before` tokens begin before the round.
template <class Graph>
ARCBEAM_DEVICE Chunk find_chunk(const Graph& graph, const ExpandInput& in, std::uint32_t number, float bound,
                                std::uint32_t starts, std::uint32_t before) {
    Chunk chunk{};
    const std::uint32_t up_to_here = starts & (simt::threads_below() | 1U << simt::warp_thread());
    const std::uint32_t owner = before + simt::popcount(up_to_here) - 1U;
    chunk.token = in.room.tokens[owner];
    const Token token = in.tokens[chunk.token];
    chunk.cost = token.cost;
    chunk.smallest_weight = token.smallest_weight;
    if (extend(token.cost, in.smallest_acoustic, token.smallest_weight) <= bound) {
        chunk.first = (token.first_emitting / kChunk + number - in.room.starts[owner]) * kChunk;
        chunk.labels = simt::load_readonly(reinterpret_cast<const LabelChunk*>(graph.labels + chunk.first));
        const std::uint32_t skipped = token.first_emitting > chunk.first ? token.first_emitting - chunk.first : 0U;
        const std::uint32_t used = token.arcs_end - chunk.first < kChunk ? token.arcs_end - chunk.first : kChunk;
        chunk.own = (1U << used) - (1U << skipped);
    }
    return chunk;
}

// The number of chunks of a token's arcs; 0 if the token does not leave. It does not depend on the running bound,
// because every call has to return the same number.
ARCBEAM_DEVICE std::uint32_t count_chunks(const ExpandInput& in, const Token& token) {
    const bool leaves = token.cost <= in.cutoff && token.first_emitting < token.arcs_end &&
                        extend(token.cost, in.smallest_acoustic, token.smallest_weight) <= in.known_bound;
    return leaves ? (token.arcs_end - 1U) / kChunk - token.first_emitting / kChunk + 1U : 0U;
}

// Lists the rounds of all groups, as far as there is room; control.num_rounds counts all of them. Finds the best
// token. A barrier must follow.
template <class Team>
ARCBEAM_DEVICE void list_rounds(const ExpandInput& in, Control& control, Counts& counts) {
    const std::uint32_t lane = simt::warp_thread();
    for (std::uint32_t first = Team::rank() - lane; first < in.num_tokens; first += Team::size()) {
        const std::uint32_t index = first + lane;
        std::uint32_t chunks = 0U;
        if (index < in.num_tokens) {
            const Token token = in.tokens[index];
            chunks = count_chunks(in, token);
            if (token.cost <= in.cutoff) {
                counts.leaving_arcs += token.arcs_end - token.first_emitting;
            }
            if (token.cost == 0.0F) {  // several tokens may have it; any of them will do
                simt::atomic_exchange<Team::kScope>(&control.best_token, index);
            }
        }
        const std::uint32_t all = simt::reduce_add(simt::kAllThreads, chunks);
        const std::uint32_t rounds = (all + simt::kWarpSize - 1U) / simt::kWarpSize;
        if (rounds == 0U) {
            continue;
        }
        std::uint32_t at = 0U;
        if (lane == 0U) {
            at = simt::atomic_add<Team::kScope>(&control.num_rounds, rounds);
        }
        at = simt::shuffle(simt::kAllThreads, at, 0U);
        for (std::uint32_t i = lane; i < rounds && at + i < in.rounds.size; i += simt::kWarpSize) {
            in.rounds[at + i] = static_cast<std::uint64_t>(first / simt::kWarpSize) << 32U | i;
        }
    }
}

// A group of tokens as a warp sees it. Values that differ between threads belong to the thread's own token.
struct Group {
    std::uint32_t number;
    std::uint32_t rounds;
    std::uint32_t chunks;
    std::uint32_t start;  // number of chunks of the tokens before
};

ARCBEAM_DEVICE Group open_group(const ExpandInput& in, std::uint32_t number) {
    const std::uint32_t lane = simt::warp_thread();
    const std::uint32_t index = number * simt::kWarpSize + lane;
    const std::uint32_t chunks =
        index < in.num_tokens ? count_chunks(in, static_cast<Token>(in.tokens[index])) : 0U;
    std::uint32_t ends = chunks;  // the sum up to this thread's token
    for (std::uint32_t distance = 1U; distance < simt::kWarpSize; distance *= 2U) {
        const std::uint32_t before = simt::shuffle_up(simt::kAllThreads, ends, distance);
        ends += lane >= distance ? before : 0U;
    }
    const std::uint32_t all = simt::shuffle(simt::kAllThreads, ends, simt::kWarpSize - 1U);
    const std::uint32_t start = ends - chunks;
    const std::uint32_t owners = simt::ballot(simt::kAllThreads, chunks != 0U);
    if (chunks != 0U) {
        in.room.tokens[simt::place_in(owners)] = index;
        in.room.starts[simt::place_in(owners)] = start;
    }
    simt::warp_sync(simt::kAllThreads);
    return {number, (all + simt::kWarpSize - 1U) / simt::kWarpSize, chunks, start};
}

// Finds this thread's chunk of a round of the group.
template <class Team, class Params>
ARCBEAM_DEVICE Chunk take_round(const Params& params, const ExpandInput& in, const Group& group,
                                std::uint32_t round, Control& control) {
    const std::uint32_t first = round * simt::kWarpSize;
    const std::uint32_t before =
        simt::popcount(simt::ballot(simt::kAllThreads, group.chunks != 0U && group.start < first));
    const bool begins = group.chunks != 0U && group.start - first < simt::kWarpSize;
    const std::uint32_t starts = simt::reduce_or(simt::kAllThreads, begins ? 1U << (group.start - first) : 0U);
    const std::uint32_t all = simt::reduce_max(simt::kAllThreads, group.start + group.chunks);
    Chunk chunk{};
    if (first + simt::warp_thread() < all) {
        chunk = find_chunk(params.graph, in, first + simt::warp_thread(),
                           running_bound<Team>(in, params.beam, control), starts, before);
    }
    simt::warp_sync(simt::kAllThreads);  // before another group is opened
    return chunk;
}

}  // namespace arcbeam
