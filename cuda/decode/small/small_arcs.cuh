// The arcs of a small frame: the emitting arcs of its tokens, by one warp. Rule and result are those of expand.cuh.
//
// in    a token in each thread, the acoustic costs
// out   the bound, which is final, and the candidates within it, in the warp's shared memory
//
// The arcs of all tokens are numbered on, and each thread takes up to four at a time, whose loads wait together; so
// the bound is nearly always final before a candidate is noted.
#pragma once

#include "decode/expand.cuh"

namespace arcbeam {

constexpr std::uint32_t kMostSmallArcs = 1024U;  // of the tokens of a frame
constexpr std::uint32_t kEachOfArcs = 4U;        // arcs of a thread at a time
constexpr std::uint32_t kSmallCandidates = 64U;  // noted before the bound is final; 32 may be within it

// A candidate in shared memory, on its way to a thread.
struct alignas(16) SmallCandidate {
    std::uint64_t packed;  // pack(cost, arc)
    std::uint32_t state;
    std::uint32_t source;  // the thread of its token
};

// A token, or a new one, of this thread.
template <class History>
struct SmallToken {
    float cost;
    std::uint32_t first_emitting;
    std::uint32_t arcs_end;
    float smallest_weight;
    std::uint32_t state;
    std::uint32_t milestone;
    History history;
};

// The token that arc number `at` leaves, where `ends` of a thread is the number of arcs up to its token.
ARCBEAM_DEVICE std::uint32_t source_of(std::uint32_t at, std::uint32_t ends) {
    std::uint32_t before = 0U;  // threads whose arcs all come before
    for (std::uint32_t step = simt::kWarpSize / 2U; step != 0U; step /= 2U) {
        const std::uint32_t end = simt::shuffle(simt::kAllThreads, ends, before + step - 1U);
        before += end <= at ? step : 0U;
    }
    return before;
}

// Drops the candidates that were noted while the bound was loose.
ARCBEAM_DEVICE void drop_above(float bound, SmallCandidate* candidates, std::uint32_t& count) {
    constexpr std::uint32_t kNotedEach = kSmallCandidates / simt::kWarpSize;
    SmallCandidate noted[kNotedEach];
    std::uint32_t within = 0U;
    for (std::uint32_t k = 0U; k < kNotedEach; ++k) {
        const std::uint32_t at = k * simt::kWarpSize + simt::warp_thread();
        noted[k] = SmallCandidate{kNoPacked, 0U, 0U};
        if (at < count) {
            noted[k] = simt::load(candidates + at);
        }
    }
    simt::warp_sync(simt::kAllThreads);
    for (std::uint32_t k = 0U; k < kNotedEach; ++k) {
        const bool stays = noted[k].packed != kNoPacked && packed_cost(noted[k].packed) <= bound;
        const std::uint32_t all = simt::ballot(simt::kAllThreads, stays);
        if (stays) {
            simt::store(candidates + within + simt::place_in(all), noted[k]);
        }
        within += simt::popcount(all);
    }
    count = within;
    simt::warp_sync(simt::kAllThreads);
}

// Notes the candidates within the bound, which is final then. `arcs` of this thread's token leave. False: there are
// too many arcs or candidates, or none is finite.
template <class History>
ARCBEAM_DEVICE bool expand_small(const SearchParams& params, const ArcLabels& labels, const Array<float>& acoustic,
                                 const SmallToken<History>& own, std::uint32_t arcs, SmallCandidate* candidates,
                                 std::uint32_t& count, float& bound) {
    const std::uint32_t me = simt::warp_thread();
    std::uint32_t ends = arcs;
    for (std::uint32_t distance = 1U; distance < simt::kWarpSize; distance *= 2U) {
        const std::uint32_t before = simt::shuffle_up(simt::kAllThreads, ends, distance);
        ends += me >= distance ? before : 0U;
    }
    const std::uint32_t all = simt::shuffle(simt::kAllThreads, ends, simt::kWarpSize - 1U);
    if (all > kMostSmallArcs) {
        return false;
    }
    const std::uint32_t first_arc = own.first_emitting - (ends - arcs);  // an arc's number added is the arc
    std::uint32_t best = kNoCost;
    for (std::uint32_t first = 0U; first < all; first += kEachOfArcs * simt::kWarpSize) {
        std::uint32_t source[kEachOfArcs];
        std::uint32_t arc[kEachOfArcs];
        float reached[kEachOfArcs];
        ArcTarget target[kEachOfArcs];
        for (std::uint32_t k = 0U; k < kEachOfArcs; ++k) {
            const std::uint32_t at = first + k * simt::kWarpSize + me;
            source[k] = arc[k] = 0U;
            reached[k] = kInfiniteCost;
            target[k] = ArcTarget{0U, kInfiniteCost};
            if (first + k * simt::kWarpSize < all) {
                source[k] = source_of(at, ends);
                const float cost = simt::shuffle(simt::kAllThreads, own.cost, source[k]);
                arc[k] = simt::shuffle(simt::kAllThreads, first_arc, source[k]) + at;
                if (at < all) {
                    const std::uint32_t label = simt::load_readonly(params.graph.labels + arc[k]);
                    target[k] = simt::load_readonly(params.graph.targets + arc[k]);
                    reached[k] = extend(cost, acoustic[labels.column(label)], target[k].weight);
                }
            }
        }
        for (std::uint32_t k = 0U; k < kEachOfArcs; ++k) {
            const std::uint32_t key = is_finite(reached[k]) ? ordered(reached[k]) : kNoCost;
            best = key < best ? key : best;
        }
        best = simt::reduce_min(simt::kAllThreads, best);
        bound = best == kNoCost ? bound : beam_bound(from_ordered(best), params.beam);
        for (std::uint32_t k = 0U; k < kEachOfArcs; ++k) {
            const bool is_noted = admits(bound, reached[k]);
            const std::uint32_t noted = simt::ballot(simt::kAllThreads, is_noted);
            const std::uint32_t into = count + simt::place_in(noted);
            if (is_noted && into < kSmallCandidates) {
                simt::store(candidates + into,
                            SmallCandidate{pack(reached[k], arc[k]), target[k].next_state, source[k]});
            }
            count += simt::popcount(noted);
        }
    }
    simt::warp_sync(simt::kAllThreads);
    if (best == kNoCost || count > kSmallCandidates) {
        return false;
    }
    if (all > kEachOfArcs * simt::kWarpSize) {
        drop_above(bound, candidates, count);
    }
    return count <= simt::kWarpSize;
}

}  // namespace arcbeam
