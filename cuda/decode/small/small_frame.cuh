// Small frames: those of few tokens and few columns, decoded by one warp in its registers, without a barrier. Their
// rules are those of the stages of every frame (expand.cuh, recombine.cuh, closure.cuh, prune.cuh).
//
// in    a lane between two frames, its tokens and the row of the next frame in shared memory
// out   the same after some frames; a frame that a warp cannot decode is left to the block without a trace: it has
//       too many arcs, candidates or states, has no room in the log or among the links, is dead, or its row is not
//       there
//
// A thread has a token. Each candidate within the bound gets a thread, and one for each key stays, where it is; so
// the tokens of a frame may be in any threads.
#pragma once

#include "decode/frame.cuh"
#include "decode/small/small_links.cuh"

namespace arcbeam {

constexpr std::uint32_t kMostSmallColumns = 128U;

// The keys of tokens in a thread each: graph states alone. rescore/small_keys.cuh has others.
struct StateKeys {
    struct History {};  // the rest of a key, after its state
    static constexpr bool kHaveWords = false;

    ARCBEAM_DEVICE StateKeys(const SearchParams&, const Lane&) {}
    ARCBEAM_DEVICE static History load(const Lane&, std::uint32_t) { return {}; }
    ARCBEAM_DEVICE static void store(const Lane&, std::uint32_t, History) {}
    ARCBEAM_DEVICE static bool are_equal(History, History) { return true; }
    ARCBEAM_DEVICE static bool fit(bool, std::uint32_t) { return true; }
    ARCBEAM_DEVICE static void begin() {}
    ARCBEAM_DEVICE static void commit() {}
    // The threads whose key is this thread's, if it has one.
    ARCBEAM_DEVICE static std::uint32_t match(bool has, std::uint32_t state, History) {
        return simt::match_any(simt::kAllThreads, has ? state : std::uint64_t{1} << 32U | simt::warp_thread());
    }
};

template <class Search>
class SmallFrames {
  public:
    using Params = typename Search::Params;
    using Lane = typename Search::Lane;
    using Keys = typename Search::SmallKeys;
    using History = typename Keys::History;
    using Losers = std::conditional_t<Search::kLattices, KeepLinks<Search>, KeepNoLinks<Search>>;

    // The lane's tokens, of which it has at most one for each thread. `candidates` are kSmallCandidates of the
    // warp.
    ARCBEAM_DEVICE SmallFrames(const Params& params, Lane& lane, SmallCandidate* candidates)
        : params_(Search::common(params)),
          lane_(lane),
          keys_(params, lane),
          losers_(params_, lane),
          candidates_(candidates),
          labels_(ArcLabels::of(params_)) {
        const std::uint32_t me = simt::warp_thread();
        const std::uint32_t n = lane.state.num_tokens;
        alive_ = n < simt::kWarpSize ? (1U << n) - 1U : simt::kAllThreads;
        own_ = SmallToken<History>{kInfiniteCost, 0U, 0U, kInfiniteCost, 0U, kNoIndex, History{}};
        if (me < n) {
            const Token token = lane.tokens.token[me];
            own_ = SmallToken<History>{token.cost,
                                       token.first_emitting,
                                       token.arcs_end,
                                       token.smallest_weight,
                                       static_cast<std::uint32_t>(lane.tokens.state[me]),
                                       static_cast<std::uint32_t>(lane.tokens.milestone[me]),
                                       keys_.load(lane, me)};
        }
    }

    // Whether a warp may decode the next frame, one before `until`.
    ARCBEAM_DEVICE static bool may_try(const Params& given, const Lane& lane, std::uint32_t until) {
        const SearchParams& params = Search::common(given);
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
        const bool leaves = is_in(alive_) && own_.cost <= beam_bound(0.0F, params_.beam);
        const std::uint32_t arcs = leaves ? own_.arcs_end - own_.first_emitting : 0U;
        if (!expand_small(params_, labels_, lane_.acoustic, own_, arcs, candidates_, count, bound)) {
            return false;
        }
        keys_.begin();
        New made = recombine(count, bound);
        if (!close(bound, made) || !keys_.fit(is_in(made.alive), made.state) ||
            popcount(made.alive) > lane_.shared_capacity ||
            popcount(made.alive) > lane_.state.log_capacity - lane_.state.log_size) {
            return false;
        }
        const SmallEntries entries{lane_.state.log_size, made.alive, lane_.state.log_size - lane_.state.num_tokens,
                                   alive_};
        if (!losers_.note(entries, made.packed, made.source)) {
            return false;
        }
        lane_.counts.leaving_arcs += arcs;
        keys_.commit();
        lane_.counts.admitted += made.is_admitted ? 1U : 0U;
        commit(made, entries);
        store_row(row);
        ++lane_.state.frame;
        losers_.end_step();
        return true;
    }

    // Puts the tokens back, and what the next frame needs of the row.
    ARCBEAM_DEVICE void put_back() {
        const std::uint32_t at = simt::place_in(alive_);
        Search::place_tokens(lane_, lane_.state.num_tokens, lane_.state.frame);
        if (is_in(alive_)) {
            lane_.tokens.token[at] = Token{own_.cost, own_.first_emitting, own_.arcs_end, own_.smallest_weight};
            lane_.tokens.state[at] = own_.state;
            lane_.tokens.milestone[at] = own_.milestone;
            keys_.store(lane_, at, own_.history);
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
    // The states of the frame that is being made.
    struct New {
        std::uint32_t alive;  // threads that have one
        std::uint64_t packed;
        std::uint32_t state;
        std::uint32_t source;  // a thread's token, or where `is_closed` a thread's state of this frame
        bool is_closed;
        bool is_admitted;  // the candidate of an emitting arc that this thread has got
        StateRow row;
        History history;
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

    // Of the candidates of a key, the first in the order of law 2 stays, in its thread. Where words change costs,
    // they do so first, and the bound becomes that of the changed costs.
    ARCBEAM_DEVICE New recombine(std::uint32_t count, float& bound) {
        const std::uint32_t me = simt::warp_thread();
        New made{};
        made.packed = kNoPacked;
        made.row.epsilon.depth = kNoIndex;
        made.is_admitted = me < count;
        if (made.is_admitted) {
            const SmallCandidate candidate = simt::load(candidates_ + me);
            made.packed = candidate.packed;
            made.state = candidate.state;
            made.source = candidate.source;
            made.row = load_row(params_.graph, made.state);
        }
        if constexpr (Keys::kHaveWords) {
            add_words(made, bound);
        }
        const bool has = made.is_admitted;
        const std::uint32_t same = keys_.match(has, made.state, made.history);
        std::uint64_t least = made.packed;
        for (std::uint32_t others = same & ~(1U << me); simt::any(simt::kAllThreads, others != 0U);
             others &= others - 1U) {
            const std::uint64_t other =
                simt::shuffle(simt::kAllThreads, made.packed, others != 0U ? simt::lowest_bit(others) : me);
            least = other < least ? other : least;
        }
        made.alive = simt::ballot(simt::kAllThreads, has && least == made.packed);
        if constexpr (Keys::kHaveWords) {
            break_ties(same, made);
        }
        losers_.begin(has, made.packed, made.source, simt::lowest_bit(same & made.alive));
        return made;
    }

    // Adds what words add to the candidates, of which those within the bound of the sums stay.
    ARCBEAM_DEVICE void add_words(New& made, float& bound) {
        made.history = simt::shuffle(simt::kAllThreads, own_.history, made.source);
        float cost = kInfiniteCost;
        if (made.is_admitted) {
            cost = packed_cost(made.packed);
        }
        keys_.add_word(made.is_admitted, packed_arc(made.packed), cost, made.history);
        made.packed = pack(cost, packed_arc(made.packed));
        const std::uint32_t key = is_finite(cost) ? ordered(cost) : kNoCost;
        bound = beam_bound(from_ordered(simt::reduce_min(simt::kAllThreads, key)), params_.beam);
        made.is_admitted = admits(bound, cost);
    }

    // Of candidates of one key, cost and arc, the one whose source has the first history stays.
    ARCBEAM_DEVICE void break_ties(std::uint32_t same, New& made) const {
        std::uint32_t equals = is_in(made.alive) ? same & made.alive & ~(1U << simt::warp_thread()) : 0U;
        if (!simt::any(simt::kAllThreads, equals != 0U)) {
            return;
        }
        const History own = simt::shuffle(simt::kAllThreads, own_.history, made.source);
        bool is_first = is_in(made.alive);
        for (; simt::any(simt::kAllThreads, equals != 0U); equals &= equals - 1U) {
            const History other = simt::shuffle(simt::kAllThreads, own,
                                                equals != 0U ? simt::lowest_bit(equals) : simt::warp_thread());
            is_first = is_first && !keys_.precedes(other, own);
        }
        made.alive = simt::ballot(simt::kAllThreads, is_first);
    }

    // Follows epsilon arcs, by the depth of the states that they leave; false: there are too many states.
    ARCBEAM_DEVICE bool close(float bound, New& made) {
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
    ARCBEAM_DEVICE bool follow(std::uint32_t source, float bound, New& made, std::uint32_t& found) {
        const std::uint32_t end = simt::shuffle(simt::kAllThreads, made.row.arcs.first_emitting, source);
        const std::uint32_t first = simt::shuffle(simt::kAllThreads, made.row.arcs.first_arc, source);
        const float cost = packed_cost(simt::shuffle(simt::kAllThreads, made.packed, source));
        ArcTarget target{simt::shuffle(simt::kAllThreads, made.row.epsilon.next_state, source),
                         simt::shuffle(simt::kAllThreads, made.row.epsilon.weight, source)};
        History before{};
        bool writes = false;
        if constexpr (Keys::kHaveWords) {
            before = simt::shuffle(simt::kAllThreads, made.history, source);
            writes = (simt::shuffle(simt::kAllThreads, made.row.epsilon.entrance, source) & kWritesWords) != 0U;
        }
        for (std::uint32_t arc = first; arc < end; ++arc) {
            if (arc != first) {
                target = simt::load_readonly(params_.graph.targets + arc);
            }
            float reached = extend_epsilon(cost, target.weight);
            if (!admits(bound, reached)) {
                continue;
            }
            History history = before;
            if constexpr (Keys::kHaveWords) {
                if (writes) {
                    keys_.add_word_of_all(arc, reached, history);
                    if (!admits(bound, reached)) {
                        continue;
                    }
                }
            }
            const std::uint64_t packed = pack(reached, arc);
            std::uint32_t takers =
                simt::ballot(simt::kAllThreads, is_in(made.alive) && made.state == target.next_state &&
                                                    keys_.are_equal(made.history, history));
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
                    made.history = history;
                    made.row.epsilon.depth = kNoIndex;  // until it is loaded
                }
            }
            if (!losers_.add(packed, source, simt::lowest_bit(takers))) {
                return false;
            }
            bool is_first = packed < made.packed;
            if constexpr (Keys::kHaveWords) {
                const History winner = simt::shuffle(simt::kAllThreads, made.history, made.source);
                is_first = is_first || (packed == made.packed && keys_.precedes(before, winner));
            }
            if (is_in(takers) && is_first) {
                made.packed = packed;
                made.source = source;
                made.is_closed = true;
            }
        }
        return true;
    }

    ARCBEAM_DEVICE void commit(const New& made, const SmallEntries& entries) {
        LaneState& state = lane_.state;
        const std::uint32_t n = popcount(made.alive);
        const bool has = is_in(made.alive);
        const float cost = has ? packed_cost(made.packed) : kInfiniteCost;
        const float best = from_ordered(simt::reduce_min(simt::kAllThreads, has ? ordered(cost) : kNoCost));
        const std::uint32_t entry = state.log_size + simt::place_in(made.alive);
        const std::uint32_t source = made.is_closed ? entries.of(made.source) : entries.before(made.source);
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
        const LogPlace place = place_in_log<Search::kLattices>(lane_, n, state.frame + 1U);
        if (has) {
            simt::store_streaming(place.log + entry, LogEntry{source, packed_arc(made.packed)});
            if (place.milestones != nullptr) {
                const std::uint32_t at = place.num_milestones + simt::place_in(made.alive);
                simt::store_streaming(place.milestones + at, Milestone{entry, milestone});
                milestone = at;
            }
            if constexpr (Search::kLattices) {
                simt::store_streaming(place.costs + entry, rescale(cost, best));
            }
        }
        own_ = SmallToken<History>{rescale(cost, best),
                                   made.row.arcs.first_emitting,
                                   made.row.arcs.arcs_end,
                                   made.row.arcs.smallest_weight,
                                   made.state,
                                   milestone,
                                   made.history};
        alive_ = made.alive;
        go_on_with(lane_, lane_.tokens, n, best);
    }

    const SearchParams& params_;
    Lane& lane_;
    Keys keys_;
    Losers losers_;
    SmallCandidate* const candidates_;
    const ArcLabels labels_;
    std::uint32_t alive_;  // threads that have a token
    SmallToken<History> own_;
};

// Decodes small frames, up to the next frame at which the lanes are checked. Gives whether there was any.
template <class Search>
ARCBEAM_DEVICE bool small_frames(const typename Search::Params& params, typename Search::Lane& lane,
                                 std::uint32_t until) {
    using Frames = SmallFrames<Search>;
    if (lane.state.started == 0U || !Frames::may_try(params, lane, until)) {
        return false;
    }
    const std::uint32_t first = lane.state.frame;
    lane.large_table_is_free = false;
    Control& control = *lane.control;
    if (simt::warp() == 0U) {
        Frames frames(params, lane, reinterpret_cast<SmallCandidate*>(lane.warp_room.tokens.data));
        while (frames.advance() && lane.state.frame % kLookFrames != kLookFrames - 1U &&
               Frames::may_try(params, lane, until) && simt::load(&control.bad_column) == kNoIndex) {
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
    Search::place_tokens(lane, lane.state.num_tokens, lane.state.frame);
    simt::block_barrier();
    return lane.state.frame != first;
}

}  // namespace arcbeam
