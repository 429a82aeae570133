// Small frames: those of few tokens and few columns, decoded by one warp in its registers, without a barrier. Their
// rules are those of the stages of every frame (expand.cuh, recombine.cuh, closure.cuh, prune.cuh).
//
// in    a lane between two frames, its tokens and the row of the next frame in shared memory
// out   the same after some frames; a frame that a warp cannot decode is left to the block without a trace: it has
//       too many arcs, candidates or states, has no room in the log, is dead, or its row is not there
//
// A thread has a token. The arcs of all tokens are numbered on, and each thread takes up to four at a time, whose
// loads wait together; so the bound is nearly always final before a candidate is noted. Each candidate within it
// gets a thread, and one for each state stays, where it is; so the tokens of a frame may be in any threads.
#pragma once

#include "decode/frame.cuh"

namespace arcbeam {

constexpr std::uint32_t kMostSmallArcs = 1024U;  // of the tokens of a frame
constexpr std::uint32_t kMostSmallColumns = 128U;
constexpr std::uint32_t kSmallCandidates = 64U;  // noted before the bound is final; 32 may be within it

// A candidate in shared memory, on its way to a thread.
struct alignas(16) SmallCandidate {
    std::uint64_t packed;  // pack(cost, arc)
    std::uint32_t state;
    std::uint32_t source;  // the thread of its token
};

// A token, or a new one, of this thread.
struct SmallToken {
    float cost;
    std::uint32_t first_emitting;
    std::uint32_t arcs_end;
    float smallest_weight;
    std::uint32_t state;
    std::uint32_t milestone;
};

class SmallFrames {
  public:
    // The lane's tokens, of which it has at most one for each thread. `candidates` are kSmallCandidates of the
    // warp.
    ARCBEAM_DEVICE SmallFrames(const SearchParams& params, Lane& lane, SmallCandidate* candidates)
        : params_(params), lane_(lane), candidates_(candidates), labels_(ArcLabels::of(params)) {
        const std::uint32_t me = simt::warp_thread();
        const std::uint32_t n = lane.state.num_tokens;
        alive_ = n < simt::kWarpSize ? (1U << n) - 1U : simt::kAllThreads;
        own_ = SmallToken{kInfiniteCost, 0U, 0U, kInfiniteCost, 0U, kNoIndex};
        if (me < n) {
            const Token token = lane.tokens.token[me];
            own_ = SmallToken{token.cost,
                              token.first_emitting,
                              token.arcs_end,
                              token.smallest_weight,
                              static_cast<std::uint32_t>(lane.tokens.state[me]),
                              static_cast<std::uint32_t>(lane.tokens.milestone[me])};
        }
    }

    // Whether a warp may decode the next frame, one before `until`.
    ARCBEAM_DEVICE static bool may_try(const SearchParams& params, const Lane& lane, std::uint32_t until) {
        const std::uint32_t n = lane.state.num_tokens;
        const std::uint32_t next = lane.state.frame + 1U;
        return n <= params.small_frame && n <= lane.shared_capacity && params.columns <= kMostSmallColumns &&
               (params.max_active == 0U || n <= params.max_active) && lane.state.frame < until &&
               (next < lane.rows_end || next >= lane.utterance.frames);
    }

    // A frame; false: it is the block's.
    ARCBEAM_DEVICE bool advance() {
        constexpr std::uint32_t kRows = kMostSmallColumns / simt::kWarpSize;
        float row[kRows];
        load_row_of(lane_.state.frame + 1U, row);
        std::uint32_t count = 0U;
        float bound = kInfiniteCost;
        const std::uint64_t leaving_before = lane_.counts.leaving_arcs;
        if (!expand(count, bound)) {
            lane_.counts.leaving_arcs = leaving_before;
            return false;
        }
        New made = recombine(count);
        if (!close(bound, made) || popcount(made.alive) > lane_.shared_capacity ||
            popcount(made.alive) > lane_.state.log_capacity - lane_.state.log_size) {
            lane_.counts.leaving_arcs = leaving_before;
            return false;
        }
        lane_.counts.admitted += simt::warp_thread() < count ? 1U : 0U;
        commit(made);
        store_row(row);
        ++lane_.state.frame;
        return true;
    }

    // Puts the tokens back, and what the next frame needs of the row.
    ARCBEAM_DEVICE void put_back() {
        const std::uint32_t at = simt::place_in(alive_);
        lane_.tokens = room_for(lane_, lane_.state.num_tokens, lane_.state.frame);
        if (is_in(alive_)) {
            lane_.tokens.token[at] = Token{own_.cost, own_.first_emitting, own_.arcs_end, own_.smallest_weight};
            lane_.tokens.state[at] = own_.state;
            lane_.tokens.milestone[at] = own_.milestone;
        }
        std::uint32_t smallest = kNoCost;
        for (std::uint32_t column = simt::warp_thread(); column < params_.columns; column += simt::kWarpSize) {
            const std::uint32_t key = ordered(lane_.acoustic[column]);
            smallest = key < smallest ? key : smallest;
        }
        smallest = simt::reduce_min(simt::kAllThreads, smallest);
        if (simt::warp_thread() == 0U) {
            const bool has_row = lane_.state.frame < lane_.utterance.frames;
            simt::store(&lane_.control->smallest_acoustic, has_row ? smallest : kNoCost);
        }
        simt::warp_sync(simt::kAllThreads);
    }

  private:
    static constexpr std::uint32_t kEach = 4U;  // arcs of a thread at a time

    // The states of the frame that is being made.
    struct New {
        std::uint32_t alive;  // threads that have one
        std::uint64_t packed;
        std::uint32_t state;
        std::uint32_t source;  // a thread's token, or where `is_closed` a thread's state of this frame
        bool is_closed;
        StateRow row;
    };

    [[nodiscard]] ARCBEAM_DEVICE static bool is_in(std::uint32_t threads) {
        return (threads >> simt::warp_thread() & 1U) != 0U;
    }
    [[nodiscard]] ARCBEAM_DEVICE static std::uint32_t popcount(std::uint32_t threads) {
        return simt::popcount(threads);
    }

    // Loads the costs of a row; there may be none.
    template <std::uint32_t kRows>
    ARCBEAM_DEVICE void load_row_of(std::uint32_t frame, float (&row)[kRows]) const {
        for (std::uint32_t k = 0U; k < kRows; ++k) {
            const std::uint32_t column = k * simt::kWarpSize + simt::warp_thread();
            row[k] = 0.0F;
            if (column < params_.columns && frame < lane_.utterance.frames) {
                row[k] = log_prob(lane_.utterance, frame, column);
            }
        }
    }

    template <std::uint32_t kRows>
    ARCBEAM_DEVICE void store_row(const float (&row)[kRows]) const {
        for (std::uint32_t k = 0U; k < kRows; ++k) {
            const std::uint32_t column = k * simt::kWarpSize + simt::warp_thread();
            if (column < params_.columns) {
                if (!is_log_prob(row[k])) {
                    simt::atomic_min<Scope::block>(&lane_.control->bad_column, column);
                }
                const float cost = acoustic_cost(row[k], params_.acoustic_scale);
                lane_.acoustic[column] = static_cast<std::int32_t>(column) == params_.blank_column
                                             ? penalise(cost, params_.blank_penalty)
                                             : cost;
            }
        }
        simt::warp_sync(simt::kAllThreads);
    }

    // The token that arc number `at` leaves, where `ends` of a thread is the number of arcs up to its token.
    [[nodiscard]] ARCBEAM_DEVICE static std::uint32_t source_of(std::uint32_t at, std::uint32_t ends) {
        std::uint32_t before = 0U;  // threads whose arcs all come before
        for (std::uint32_t step = simt::kWarpSize / 2U; step != 0U; step /= 2U) {
            const std::uint32_t end = simt::shuffle(simt::kAllThreads, ends, before + step - 1U);
            before += end <= at ? step : 0U;
        }
        return before;
    }

    // Notes the candidates within the bound, which is final then.
    ARCBEAM_DEVICE bool expand(std::uint32_t& count, float& bound) {
        const std::uint32_t me = simt::warp_thread();
        const bool leaves = is_in(alive_) && own_.cost <= beam_bound(0.0F, params_.beam);
        const std::uint32_t arcs = leaves ? own_.arcs_end - own_.first_emitting : 0U;
        lane_.counts.leaving_arcs += arcs;
        std::uint32_t ends = arcs;
        for (std::uint32_t distance = 1U; distance < simt::kWarpSize; distance *= 2U) {
            const std::uint32_t before = simt::shuffle_up(simt::kAllThreads, ends, distance);
            ends += me >= distance ? before : 0U;
        }
        const std::uint32_t all = simt::shuffle(simt::kAllThreads, ends, simt::kWarpSize - 1U);
        if (all > kMostSmallArcs) {
            return false;
        }
        const std::uint32_t first_arc = own_.first_emitting - (ends - arcs);  // an arc's number added is the arc
        std::uint32_t best = kNoCost;
        for (std::uint32_t first = 0U; first < all; first += kEach * simt::kWarpSize) {
            std::uint32_t source[kEach];
            std::uint32_t arc[kEach];
            float reached[kEach];
            ArcTarget target[kEach];
            for (std::uint32_t k = 0U; k < kEach; ++k) {
                const std::uint32_t at = first + k * simt::kWarpSize + me;
                source[k] = arc[k] = 0U;
                reached[k] = kInfiniteCost;
                target[k] = ArcTarget{0U, kInfiniteCost};
                if (first + k * simt::kWarpSize < all) {
                    source[k] = source_of(at, ends);
                    const float cost = simt::shuffle(simt::kAllThreads, own_.cost, source[k]);
                    arc[k] = simt::shuffle(simt::kAllThreads, first_arc, source[k]) + at;
                    if (at < all) {
                        const std::uint32_t label = simt::load_readonly(params_.graph.labels + arc[k]);
                        target[k] = simt::load_readonly(params_.graph.targets + arc[k]);
                        reached[k] = extend(cost, lane_.acoustic[labels_.column(label)], target[k].weight);
                    }
                }
            }
            for (std::uint32_t k = 0U; k < kEach; ++k) {
                const std::uint32_t key = is_finite(reached[k]) ? ordered(reached[k]) : kNoCost;
                best = key < best ? key : best;
            }
            best = simt::reduce_min(simt::kAllThreads, best);
            bound = best == kNoCost ? bound : beam_bound(from_ordered(best), params_.beam);
            for (std::uint32_t k = 0U; k < kEach; ++k) {
                const bool is_noted = admits(bound, reached[k]);
                const std::uint32_t noted = simt::ballot(simt::kAllThreads, is_noted);
                const std::uint32_t into = count + simt::place_in(noted);
                if (is_noted && into < kSmallCandidates) {
                    simt::store(candidates_ + into,
                                SmallCandidate{pack(reached[k], arc[k]), target[k].next_state, source[k]});
                }
                count += simt::popcount(noted);
            }
        }
        simt::warp_sync(simt::kAllThreads);
        if (best == kNoCost || count > kSmallCandidates) {
            return false;
        }
        if (all > kEach * simt::kWarpSize) {
            drop_above(bound, count);
        }
        return count <= simt::kWarpSize;
    }

    // Drops the candidates that were noted while the bound was loose.
    ARCBEAM_DEVICE void drop_above(float bound, std::uint32_t& count) const {
        constexpr std::uint32_t kNotedEach = kSmallCandidates / simt::kWarpSize;
        SmallCandidate noted[kNotedEach];
        std::uint32_t within = 0U;
        for (std::uint32_t k = 0U; k < kNotedEach; ++k) {
            const std::uint32_t at = k * simt::kWarpSize + simt::warp_thread();
            noted[k] = SmallCandidate{kNoPacked, 0U, 0U};
            if (at < count) {
                noted[k] = simt::load(candidates_ + at);
            }
        }
        simt::warp_sync(simt::kAllThreads);
        for (std::uint32_t k = 0U; k < kNotedEach; ++k) {
            const bool stays = noted[k].packed != kNoPacked && packed_cost(noted[k].packed) <= bound;
            const std::uint32_t all = simt::ballot(simt::kAllThreads, stays);
            if (stays) {
                simt::store(candidates_ + within + simt::place_in(all), noted[k]);
            }
            within += simt::popcount(all);
        }
        count = within;
        simt::warp_sync(simt::kAllThreads);
    }

    // Of the candidates of a state, the first in the order of law 2 stays, in its thread.
    ARCBEAM_DEVICE New recombine(std::uint32_t count) const {
        const std::uint32_t me = simt::warp_thread();
        New made{};
        made.packed = kNoPacked;
        made.row.epsilon.depth = kNoIndex;
        const bool has = me < count;
        if (has) {
            const SmallCandidate candidate = simt::load(candidates_ + me);
            made.packed = candidate.packed;
            made.state = candidate.state;
            made.source = candidate.source;
            made.row = load_row(params_.graph, made.state);
        }
        const std::uint64_t key = has ? made.state : std::uint64_t{1} << 32U | me;
        const std::uint32_t same = simt::match_any(simt::kAllThreads, key);
        std::uint64_t least = made.packed;
        for (std::uint32_t others = same & ~(1U << me); simt::any(simt::kAllThreads, others != 0U);
             others &= others - 1U) {
            const std::uint64_t other =
                simt::shuffle(simt::kAllThreads, made.packed, others != 0U ? simt::lowest_bit(others) : me);
            least = other < least ? other : least;
        }
        made.alive = simt::ballot(simt::kAllThreads, has && least == made.packed);
        return made;
    }

    // Follows epsilon arcs, by the depth of the states that they leave; false: there are too many states.
    ARCBEAM_DEVICE bool close(float bound, New& made) const {
        std::uint32_t followed = 0U;  // threads whose states have been
        for (;;) {
            const bool is_open = is_in(made.alive & ~followed);
            const std::uint32_t depth = is_open ? made.row.epsilon.depth : kNoIndex;
            const std::uint32_t level = simt::reduce_min(simt::kAllThreads, depth);
            if (level == kNoIndex) {
                return true;
            }
            std::uint32_t found = 0U;
            const std::uint32_t all = simt::ballot(simt::kAllThreads, depth == level);
            for (std::uint32_t left = all; left != 0U; left &= left - 1U) {
                if (!follow(simt::lowest_bit(left), bound, made, found)) {
                    return false;
                }
            }
            followed |= all;
            if (is_in(found)) {
                made.row = load_row(params_.graph, made.state);
            }
        }
    }

    // Follows the epsilon arcs of one thread's state. `found` gets the threads of states that were not there.
    ARCBEAM_DEVICE bool follow(std::uint32_t source, float bound, New& made, std::uint32_t& found) const {
        const std::uint32_t end = simt::shuffle(simt::kAllThreads, made.row.arcs.first_emitting, source);
        const std::uint32_t first = simt::shuffle(simt::kAllThreads, made.row.arcs.first_arc, source);
        const float cost = packed_cost(simt::shuffle(simt::kAllThreads, made.packed, source));
        ArcTarget target{simt::shuffle(simt::kAllThreads, made.row.epsilon.next_state, source),
                         simt::shuffle(simt::kAllThreads, made.row.epsilon.weight, source)};
        for (std::uint32_t arc = first; arc < end; ++arc) {
            if (arc != first) {
                target = simt::load_readonly(params_.graph.targets + arc);
            }
            const float reached = extend_epsilon(cost, target.weight);
            if (!admits(bound, reached)) {
                continue;
            }
            const std::uint64_t packed = pack(reached, arc);
            std::uint32_t takers =
                simt::ballot(simt::kAllThreads, is_in(made.alive) && made.state == target.next_state);
            if (takers == 0U) {
                if (made.alive == simt::kAllThreads) {
                    return false;
                }
                takers = ~made.alive & (made.alive + 1U);  // the first thread without a state
                made.alive |= takers;
                found |= takers;
                if (is_in(takers)) {
                    made.packed = kNoPacked;
                    made.state = target.next_state;
                    made.row.epsilon.depth = kNoIndex;  // until it is loaded
                }
            }
            if (is_in(takers) && packed < made.packed) {
                made.packed = packed;
                made.source = source;
                made.is_closed = true;
            }
        }
        return true;
    }

    ARCBEAM_DEVICE void commit(const New& made) {
        LaneState& state = lane_.state;
        const std::uint32_t n = popcount(made.alive);
        const bool has = is_in(made.alive);
        const float cost = has ? packed_cost(made.packed) : kInfiniteCost;
        const float best = from_ordered(simt::reduce_min(simt::kAllThreads, has ? ordered(cost) : kNoCost));
        const std::uint32_t below = (1U << made.source) - 1U;
        const std::uint32_t entry = state.log_size + simt::place_in(made.alive);
        const std::uint32_t source = made.is_closed ? state.log_size + popcount(made.alive & below)
                                                    : state.log_size - state.num_tokens + popcount(alive_ & below);
        // Epsilon arcs hand on what their sources have got
        std::uint32_t milestone = simt::shuffle(simt::kAllThreads, own_.milestone, made.source);
        std::uint32_t known = simt::ballot(simt::kAllThreads, !has || !made.is_closed);
        while (known != simt::kAllThreads) {
            const std::uint32_t of_source = simt::shuffle(simt::kAllThreads, milestone, made.source);
            if (!is_in(known)) {
                milestone = of_source;
            }
            known |= simt::ballot(simt::kAllThreads, (known >> made.source & 1U) != 0U);
        }
        const LogPlace place = place_in_log<false>(lane_, n, state.frame + 1U);
        if (has) {
            simt::store_streaming(place.log + entry, LogEntry{source, packed_arc(made.packed)});
            if (place.milestones != nullptr) {
                const std::uint32_t at = place.num_milestones + simt::place_in(made.alive);
                simt::store_streaming(place.milestones + at, Milestone{entry, milestone});
                milestone = at;
            }
        }
        own_ = SmallToken{rescale(cost, best),
                          made.row.arcs.first_emitting,
                          made.row.arcs.arcs_end,
                          made.row.arcs.smallest_weight,
                          made.state,
                          milestone};
        alive_ = made.alive;
        go_on_with(lane_, lane_.tokens, n, best);
    }

    const SearchParams& params_;
    Lane& lane_;
    SmallCandidate* const candidates_;
    const ArcLabels labels_;
    std::uint32_t alive_;  // threads that have a token
    SmallToken own_;
};

// Decodes small frames, up to the next frame at which the lanes are checked. Gives whether there was any.
ARCBEAM_DEVICE bool small_frames(const SearchParams& params, Lane& lane, std::uint32_t until) {
    if (lane.state.started == 0U || !SmallFrames::may_try(params, lane, until)) {
        return false;
    }
    const std::uint32_t first = lane.state.frame;
    lane.large_table_is_free = false;
    Control& control = *lane.control;
    if (simt::warp() == 0U) {
        SmallFrames frames(params, lane, reinterpret_cast<SmallCandidate*>(lane.warp_room.tokens.data));
        while (frames.advance() && lane.state.frame % kLookFrames != kLookFrames - 1U &&
               SmallFrames::may_try(params, lane, until) && simt::load(&control.bad_column) == kNoIndex) {
        }
        frames.put_back();
        if (simt::warp_thread() == 0U) {
            simt::store(&control.small.offset, lane.state.offset);
            simt::store(&control.small.tokens_seen, lane.state.tokens_seen);
            simt::store(&control.small.frame, lane.state.frame);
            simt::store(&control.small.num_tokens, lane.state.num_tokens);
            simt::store(&control.small.log_size, lane.state.log_size);
            simt::store(&control.small.num_milestones, lane.num_milestones);
            simt::store(&control.best_survivor[0], kNoCost);
            simt::store(&control.best_survivor[1], kNoCost);
        }
    }
    simt::block_barrier();
    lane.state.offset = simt::load(&control.small.offset);
    lane.state.tokens_seen = simt::load(&control.small.tokens_seen);
    lane.state.frame = simt::load(&control.small.frame);
    lane.state.num_tokens = simt::load(&control.small.num_tokens);
    lane.state.log_size = simt::load(&control.small.log_size);
    lane.num_milestones = simt::load(&control.small.num_milestones);
    lane.tokens = room_for(lane, lane.state.num_tokens, lane.state.frame);
    simt::block_barrier();
    return lane.state.frame != first;
}

}  // namespace arcbeam
